#include "cli/execute/emulate_session.hpp"

#include <fmt/format.h>

#include <kiln/error.hpp>
#include <optional>
#include <span>

#include <kiln/emulator/amdgcn.hpp>
#include "cli/execute/emulate_source.hpp"
#include "driver/fatbin.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;
namespace gcn = kiln::emulator::amdgcn;

em::Policy parse_policy(const std::string& text) {
  return text == "lazy" ? em::Policy::lazy : text == "random" ? em::Policy::random : em::Policy::eager;
}

[[noreturn]] void rethrow(const std::string& file, const em::Error& error) {
  throw Error(ErrorCode::bad_input, error.line() > 0
                                        ? fmt::format("{}:{}: {}", file, error.line(), error.what())
                                        : fmt::format("{}: {}", file, error.what()));
}

constexpr std::string_view kElf =
    "\x7f"
    "ELF";

void refuse_machine_code(const std::string& path, const std::string& text) {
  constexpr std::size_t kMachine = 18;
  constexpr char kCuda = static_cast<char>(190), kX86 = 62, kArm = static_cast<char>(183);  // EM_CUDA, ...
  if (!text.starts_with(kElf) || text.size() <= kMachine) return;
  if (text[kMachine] == kCuda)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{}: a cubin of NVIDIA machine code; the emulated device runs PTX: compile with nvcc "
                    "-ptx, or extract it with cuobjdump -ptx",
                    path));
  if (text[kMachine] == kX86 || text[kMachine] == kArm)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{}: code of the host; a program is run by kiln emulate -- {}, a kernel needs its PTX: "
                    "nvcc -ptx, or cuobjdump -ptx",
                    path, path));
}

/// The PTX of a fat binary (nvcc -fatbin), of the highest architecture; anything else as it is.
std::string unpack(const std::string& path, std::string content) {
  constexpr int kHighest = 103;
  if (!driver::is_fat_binary(content)) return content;
  driver::Image image = driver::choose_from_file(content, kHighest);
  if (image.ptx.empty()) throw Error(ErrorCode::bad_input, fmt::format("{}: {}", path, image.problem));
  return std::move(image.ptx);
}

}  // namespace

ProgramKind program_kind(const std::string& text) {
  if (text.starts_with(kElf)) return ProgramKind::amd_code_object;
  return text.find(".amdgcn_target") != std::string::npos ? ProgramKind::amd_assembly : ProgramKind::ptx;
}

struct EmulateSession::Program {
  std::string text;
  std::optional<em::Module> ptx;
  std::optional<gcn::Module> gcn;

  Program(const std::string& path, std::string content) : text(unpack(path, std::move(content))) {
    refuse_machine_code(path, text);
    switch (program_kind(text)) {
      case ProgramKind::amd_code_object:
        gcn = gcn::Module::from_code_object(std::as_bytes(std::span(text.data(), text.size())), path);
        break;
      case ProgramKind::amd_assembly:
        gcn = gcn::Module::from_assembly(text, path);
        break;
      case ProgramKind::ptx:
        if (text.find(".version") == std::string::npos)
          throw Error(
              ErrorCode::bad_input,
              fmt::format("{}: neither PTX (no .version), nor AMD assembly, nor a code object; CUDA C++ is "
                          "compiled where its name ends in .cu",
                          path));
        ptx = em::Module::from_ptx(text, path);
    }
  }
};

EmulateSession::EmulateSession(const EmulateOptions& options, const LaunchFile& file,
                               std::map<std::string, std::string> changed)
    : options_(options), file_(file), changed_(std::move(changed)), args_(memory_) {
  for (const auto& [name, text] : file.buffers) args_.add_buffer(name, text);
  for (const auto& [name, map] : file.tensor_maps) args_.add_tensor_map(name, map);
  for (const LaunchFile::Variable& v : file.variables) initialise(v);
}
EmulateSession::~EmulateSession() = default;

EmulateSession::Program& EmulateSession::program(const std::string& path) {
  const auto found = programs_.find(path);
  if (found != programs_.end()) return *found->second;
  const auto changed = changed_.find(path);
  try {
    std::string content =
        changed != changed_.end() ? changed->second : read_text(path, std::size_t{256} << 20);
    if (changed == changed_.end() && is_cuda_source(path))
      content = ptx_of_source(path, content, options_.architecture);
    return *programs_.emplace(path, std::make_unique<Program>(path, std::move(content))).first->second;
  } catch (const em::MissingLibrary& error) {
    throw Error(ErrorCode::environment, fmt::format("{}: {}", path, error.what()));
  } catch (const em::Error& error) {
    rethrow(path, error);
  }
}

const std::string& EmulateSession::text(const std::string& path) {
  return program(path).text;
}

std::string EmulateSession::kernel_of(const LaunchPlan& plan) {
  const Program& p = program(plan.module);
  return choose_kernel(plan.module, p.ptx ? p.ptx->kernels() : p.gcn->kernels(), plan.kernel);
}

em::Report EmulateSession::run(const LaunchPlan& plan) {
  const Program& p = program(plan.module);
  try {
    return p.ptx ? run_ptx(plan, p) : run_gcn(plan, p);
  } catch (const em::MissingLibrary&) {
    throw;  // nothing is wrong with the program
  } catch (const em::Error& error) {
    rethrow(plan.module, error);
  }
}

void EmulateSession::initialise(const LaunchFile::Variable& v) {
  const Program& p = program(v.module);
  if (!p.ptx)
    throw Error(ErrorCode::bad_input, fmt::format("variable '{}': of AMD programs none can be set", v.name));
  const NpyArray values = read_npy(v.file);
  std::uint64_t address = 0;
  try {
    address = p.ptx->variable(memory_, v.name);
  } catch (const em::Error& error) {
    rethrow(v.module, error);
  }
  try {
    memory_.write(address, values.data);
  } catch (const em::Error&) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: the {} bytes of '{}' are more than variable '{}' has",
                                                  v.module, values.data.size(), v.file, v.name));
  }
}

// What the two kinds of launch share; the emulators name these alike.
template <class Launch>
Launch EmulateSession::common(const LaunchPlan& plan, const std::vector<std::string>& kernels) const {
  Launch launch;
  launch.kernel = choose_kernel(plan.module, kernels, plan.kernel);
  launch.grid = plan.grid;
  launch.block = plan.block;
  launch.policy = parse_policy(options_.policy);
  launch.seed = options_.seed;
  launch.instruction_budget = options_.budget;
  launch.findings = options_.findings;
  launch.host_threads = options_.threads;
  return launch;
}

em::Report EmulateSession::run_ptx(const LaunchPlan& plan, const Program& program) {
  auto launch = common<em::Launch>(plan, program.ptx->kernels());
  launch.cluster = plan.cluster;
  launch.dynamic_smem_bytes = plan.shared;
  launch.programmatic = plan.programmatic && released_dependents_;
  launch.num_sms = file_.sms;
  launch.stop_at_finding = options_.stop_at_finding;
  launch.args = args_.pack(plan.args, program.ptx->params(launch.kernel));
  em::Report report = em::launch(memory_, *program.ptx, launch);
  released_dependents_ = report.released_dependents;
  return report;
}

em::Report EmulateSession::run_gcn(const LaunchPlan& plan, const Program& program) {
  auto launch = common<gcn::Launch>(plan, program.gcn->kernels());
  if (plan.cluster.count() > 1) throw Error(ErrorCode::bad_input, "--cluster: AMD devices have no clusters");
  launch.dynamic_lds_bytes = plan.shared;
  std::vector<em::Parameter> params;
  for (const gcn::Argument& arg : program.gcn->kernel(launch.kernel).args) {
    if (!arg.hidden()) params.push_back({arg.name, arg.bytes, arg.bytes, arg.offset});
  }
  launch.args = args_.pack(plan.args, params);
  return gcn::launch(memory_, *program.gcn, launch);
}

}  // namespace kiln::cli
