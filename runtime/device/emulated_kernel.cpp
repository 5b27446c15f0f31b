#include "runtime/device/emulated_kernel.hpp"

#include <cstring>
#include <utility>

#include "emulator/amdgcn/amdgcn.hpp"

namespace kiln {
namespace {

std::vector<std::vector<std::byte>> arguments_of(const ParamView& params) {
  std::vector<std::vector<std::byte>> arguments;
  for (std::size_t i = 0; i < params.addresses.size(); ++i) {
    std::vector<std::byte> bytes(params.sizes[i]);
    std::memcpy(bytes.data(), params.addresses[i], bytes.size());
    arguments.push_back(std::move(bytes));
  }
  return arguments;
}

emulator::Dim3 dim(const std::array<std::uint32_t, 3>& d) {
  return {d[0], d[1], d[2]};
}

/// What both kinds of launch have under the same names.
template <class Launch>
Launch common_launch(const std::string& entry, const LaunchGeometry& geometry, const ParamView& params,
                     const EmulatorOptions& how) {
  Launch launch;
  launch.kernel = entry;
  launch.grid = dim(geometry.grid);
  launch.block = dim(geometry.block);
  launch.args = arguments_of(params);
  launch.policy = how.policy == EmulatorOptions::Policy::eager  ? emulator::Policy::eager
                  : how.policy == EmulatorOptions::Policy::lazy ? emulator::Policy::lazy
                                                                : emulator::Policy::random;
  launch.seed = how.seed;
  launch.findings = how.findings;
  launch.max_findings = how.max_findings;
  launch.host_threads = how.host_threads;
  if (how.instruction_budget > 0) launch.instruction_budget = how.instruction_budget;
  return launch;
}

class PtxKernel final : public EmulatedKernel {
 public:
  PtxKernel(emulator::Module module, std::string entry)
      : module_(std::move(module)), entry_(std::move(entry)) {
    extension = ".cu";
  }
  emulator::Report run(emulator::GlobalMemory& memory, const LaunchGeometry& geometry,
                       const ParamView& params, const EmulatorOptions& how) const override {
    auto launch = common_launch<emulator::Launch>(entry_, geometry, params, how);
    launch.cluster = dim(geometry.cluster);
    launch.dynamic_smem_bytes = geometry.smem_bytes;
    launch.num_sms = static_cast<std::uint32_t>(how.num_sms);
    launch.stop_at_finding = how.stop_at_finding;
    launch.programmatic = geometry.programmatic;
    launch.touches_early = geometry.before == LaunchBefore::unrelated;
    if (geometry.before == LaunchBefore::keeps_tables)
      for (const MemoryRange& range : geometry.tables)
        if (range.bytes > 0) launch.early_reads.emplace_back(range.address, range.address + range.bytes);
    return emulator::launch(memory, module_, launch);
  }

 private:
  emulator::Module module_;
  std::string entry_;
};

class GcnKernel final : public EmulatedKernel {
 public:
  GcnKernel(emulator::amdgcn::Module module, std::string entry)
      : module_(std::move(module)), entry_(std::move(entry)) {
    extension = ".hip";
  }
  emulator::Report run(emulator::GlobalMemory& memory, const LaunchGeometry& geometry,
                       const ParamView& params, const EmulatorOptions& how) const override {
    auto launch = common_launch<emulator::amdgcn::Launch>(entry_, geometry, params, how);
    launch.dynamic_lds_bytes = geometry.smem_bytes;
    return emulator::amdgcn::launch(memory, module_, launch);
  }

 private:
  emulator::amdgcn::Module module_;
  std::string entry_;
};

}  // namespace

std::unique_ptr<EmulatedKernel> load_emulated_kernel(const Binary& binary, const Manifest& manifest) {
  std::unique_ptr<EmulatedKernel> kernel;
  if (binary.target.starts_with("gfx")) {
    const auto bytes = std::as_bytes(std::span(binary.image.data(), binary.image.size()));
    kernel = std::make_unique<GcnKernel>(emulator::amdgcn::Module::from_code_object(bytes, manifest.name),
                                         manifest.entry);
  } else {
    kernel =
        std::make_unique<PtxKernel>(emulator::Module::from_ptx(binary.ptx, manifest.name), manifest.entry);
  }
  kernel->name = manifest.name;
  return kernel;
}

}  // namespace kiln
