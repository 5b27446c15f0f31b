#include "runtime/compiler/code_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include <kiln/code_object.hpp>

#include "runtime/compiler/amd_target.hpp"

namespace kiln {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// More than was planned is legal: the compiler may peel or duplicate a loop body. Fewer means that work was
/// dropped.
void check_instructions(Binary& binary, const Manifest& manifest) {
  if (manifest.expectations.empty()) return;
  try {
    const auto code = code_object::disassemble(code_object::read(bytes_of(binary.image)), binary.entry);
    for (const Manifest::Expectation& expected : manifest.expectations) {
      const auto found = std::ranges::count_if(code, [&](const code_object::Instruction& each) {
        return each.text.starts_with(expected.instruction);
      });
      if (found < expected.count) {
        binary.warnings.push_back(fmt::format("{} {} instructions in the code object, {} expected", found,
                                              expected.instruction, expected.count));
      }
    }
  } catch (const code_object::Error& error) {
    // Without a disassembler the kernel is as good as it is; only the proof is missing.
    binary.log += fmt::format("expected instructions were not counted: {}\n", error.what());
  }
}

}  // namespace

void finish_code_object(Binary& binary, const CompileJob& job) {
  const Manifest& manifest = job.source.manifest;
  binary.name = manifest.name;
  binary.entry = manifest.entry;
  binary.target = job.target;
  std::vector<code_object::KernelInfo> kernels;
  try {
    kernels = code_object::read_kernels(bytes_of(binary.image));
  } catch (const code_object::Error& error) {
    throw Error(ErrorCode::compile, fmt::format("{} gave no usable code object for {}.hip: {}\n{}",
                                                binary.compiler, manifest.name, error.what(), binary.log));
  }
  const auto kernel = std::ranges::find_if(
      kernels, [&](const code_object::KernelInfo& info) { return info.name == manifest.entry; });
  if (kernel == kernels.end()) {
    throw Error(ErrorCode::compile,
                fmt::format("the code object of {}.hip has no kernel \"{}\"", manifest.name, manifest.entry));
  }
  // The metadata counts spilled registers; each is 4 bytes stored and 4 loaded for every lane.
  binary.registers = kernel->vgprs;
  binary.accumulators = kernel->agprs;
  binary.scalar_registers = kernel->sgprs;
  binary.spill_bytes = 4 * kernel->vgpr_spills;
  binary.stack_bytes = static_cast<int>(kernel->scratch_bytes);
  binary.static_smem_bytes = static_cast<int>(kernel->lds_bytes);
  if (kernel->vgpr_spills > 0) {
    binary.warnings.push_back(fmt::format("spills {} vector registers", kernel->vgpr_spills));
  }
  if (kernel->scratch_bytes > 0) {
    binary.warnings.push_back(fmt::format("uses {} bytes of scratch memory per lane", kernel->scratch_bytes));
  }
  check_instructions(binary, manifest);
}

std::string disassemble(const Binary& binary) {
  try {
    std::string text;
    for (const code_object::Instruction& each :
         code_object::disassemble(code_object::read(bytes_of(binary.image)), binary.entry))
      text += fmt::format("{:x}: {}\n", each.address, each.text);
    return text;
  } catch (const code_object::Error& error) {
    throw Error(ErrorCode::environment, error.what());
  }
}

void try_targets(KernelCompiler& compiler, DoctorReport::Compiler& report) {
  KernelSource trial;
  trial.text =
      "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64))) void "
      "kiln_probe() {}\n";
  trial.manifest.name = trial.manifest.entry = "kiln_probe";
  for (const AmdTarget& target : kAmdTargets) {
    const Offer offer = compiler.offer(target.name);
    std::string problem = offer.obstacle;
    if (problem.empty()) {
      try {
        compiler.compile({trial, std::string(target.name)});
        report.targets.emplace_back(target.name);
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    if (report.problem.empty()) report.problem = problem.substr(0, problem.find('\n'));
  }
}

}  // namespace kiln
