// Launches, and what the occupancy functions say of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/grid.hpp"
#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {

int function_attribute(Driver& d, Function& f, int number);

namespace {

/// What stopped a kernel, as the driver would say it.
CUresult failure_of(const em::Report& report) {
  for (const em::Finding& f : report.findings) {
    if (f.kind == "out-of-bounds") return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (f.kind == "misaligned") return CUDA_ERROR_MISALIGNED_ADDRESS;
    if (f.kind == "deadlock" || f.kind == "instruction-budget") return CUDA_ERROR_LAUNCH_TIMEOUT;
    if (f.kind == "trap" && f.message.find("assert") != std::string::npos) return CUDA_ERROR_ASSERT;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

/// What the hardware stops at, whether or not the emulated device could go on.
bool fatal(const em::Report& report) {
  return !report.completed ||
         std::any_of(report.findings.begin(), report.findings.end(), [](const em::Finding& f) {
           return f.kind == "misaligned" ||
                  (f.kind == "out-of-bounds" && f.message.find("outside device memory") != std::string::npos);
         });
}

/// Registered memory of the program has another address on the device: what differs is copied around a launch.
class Registered {
 public:
  explicit Registered(Driver& d) : d_(d) {
    for (const auto& [host, address] : d.registered) {
      const std::size_t bytes = d.blocks.at(address).bytes;
      std::memcpy(reinterpret_cast<void*>(address), host, bytes);
      before_.emplace_back(static_cast<const char*>(host), static_cast<const char*>(host) + bytes);
    }
  }
  void copy_back() const {
    std::size_t i = 0;
    for (const auto& [host, address] : d_.registered) {
      const std::vector<char>& before = before_[i++];
      const char* const after = reinterpret_cast<const char*>(address);
      for (std::size_t at = 0; at < before.size(); ++at)
        if (before[at] != after[at]) static_cast<char*>(const_cast<void*>(host))[at] = after[at];
    }
  }

 private:
  Driver& d_;
  std::vector<std::vector<char>> before_;
};

std::uint32_t granule(std::uint32_t bytes) {
  constexpr std::uint32_t kGranule = 1024;
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

int blocks_per_sm(Driver& d, Function& f, std::uint64_t threads, std::size_t dynamic) {
  const Gpu& gpu = d.options.gpu;
  require(threads > 0);
  if (threads > static_cast<std::uint64_t>(function_attribute(d, f, 0))) return 0;
  const std::uint64_t warps = (threads + 31) / 32;
  const auto needed =
      static_cast<std::uint32_t>(static_cast<std::size_t>(function_attribute(d, f, 1)) + dynamic);
  if (needed > static_cast<std::uint32_t>(gpu.smem_per_block_optin)) return 0;
  if (dynamic > static_cast<std::size_t>(function_attribute(d, f, 8))) return 0;
  const std::uint32_t reserved = attribute(gpu, 111) > 0 ? kReservedSmem : 0;
  std::uint64_t blocks = static_cast<std::uint64_t>(gpu.blocks_per_sm);
  blocks = std::min(blocks, static_cast<std::uint64_t>(gpu.threads_per_sm) / (warps * 32));
  blocks = std::min(blocks, kRegistersPerSm / (warps * 32 * kAssumedRegisters));
  if (needed + reserved > 0)
    blocks = std::min<std::uint64_t>(
        blocks, static_cast<std::uint32_t>(gpu.smem_per_sm) / granule(needed + reserved));
  return static_cast<int>(blocks);
}

int max_cluster(Driver& d, Function& f, const CUlaunchConfig& config) {
  if (d.options.gpu.major < 9) throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  const std::uint64_t threads = std::uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (blocks_per_sm(d, f, threads, config.sharedMemBytes) == 0) return 0;
  return f.non_portable_cluster != 0 ? 16 : 8;
}

std::vector<std::vector<std::byte>> arguments(const Function& f, void** params, void** extra) {
  const auto parameters = f.module->code.params(f.name);
  std::vector<std::vector<std::byte>> out;
  const std::byte* buffer = nullptr;
  std::size_t bytes = 0;
  if (extra != nullptr) {
    for (void** at = extra; *at != nullptr; at += 2) {
      const auto key = reinterpret_cast<std::uintptr_t>(at[0]);
      if (key == 1) buffer = static_cast<const std::byte*>(at[1]);
      if (key == 2) bytes = *static_cast<const std::size_t*>(at[1]);
    }
    require(buffer != nullptr || parameters.empty());
  } else {
    require(params != nullptr || parameters.empty());
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const em::Parameter& p = parameters[i];
    require(extra == nullptr || p.offset + p.bytes <= bytes);
    const std::byte* from = extra != nullptr ? buffer + p.offset : static_cast<const std::byte*>(params[i]);
    require(from != nullptr);
    out.emplace_back(from, from + p.bytes);
  }
  return out;
}

void check(Driver& d, const KernelWork& w) {
  Function& f = *w.function;
  const em::Module::Impl& code = f.module->code.impl();
  if (const auto it = code.undecoded.find(f.name); it != code.undecoded.end()) {
    const em::Error& error = it->second;
    d.report.unsupported("kernel " + f.name,
                         f.module->name + ":" + std::to_string(error.line()) + ": " + error.what());
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  for (const em::Dim3* dim : {&w.grid, &w.block, &w.cluster})
    require(dim->x != 0 && dim->y != 0 && dim->z != 0);
  require(w.grid.x <= 0x7fffffffu && w.grid.y <= kMostOfGridAxis && w.grid.z <= kMostOfGridAxis);
  require(w.block.count() <= 1024 && w.block.z <= 64);
  require(w.block.count() <= static_cast<std::uint64_t>(function_attribute(d, f, 0)));
  require(w.shared_bytes <= static_cast<std::uint32_t>(function_attribute(d, f, 8)));
  if (w.cluster.count() > 1 || function_attribute(d, f, 10) != 0) {
    require(d.options.gpu.major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    require(w.cluster.count() <= (f.non_portable_cluster != 0 ? 16u : 8u), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  }
  if (w.cooperative) {
    const auto resident = static_cast<std::uint64_t>(blocks_per_sm(d, f, w.block.count(), w.shared_bytes)) *
                          static_cast<std::uint64_t>(d.options.gpu.sms);
    require(w.grid.count() <= resident, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
}

}  // namespace

KernelWork kernel_work(Driver& d, const CUlaunchConfig& c, CUfunction handle, void** params, void** extra) {
  KernelWork w;
  w.function = &d.function(handle);
  w.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
  w.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
  w.shared_bytes = c.sharedMemBytes;
  for (unsigned i = 0; i < c.numAttrs && c.attrs != nullptr; ++i) {
    const CUlaunchAttribute& a = c.attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) w.cooperative = a.value.flag != 0;
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      w.cluster = {a.value.dim[0], a.value.dim[1], a.value.dim[2]};
    if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) w.programmatic = a.value.flag != 0;
  }
  check(d, w);
  w.args = arguments(*w.function, params, extra);
  return w;
}

bool run_kernel(Driver& d, const KernelWork& w, bool after_release) {
  d.function(w.function);
  const Module& module = *w.function->module;
  em::Launch launch;
  launch.kernel = w.function->name;
  launch.grid = w.grid;
  launch.block = w.block;
  launch.cluster = w.cluster;
  launch.dynamic_smem_bytes = w.shared_bytes;
  launch.args = w.args;
  launch.policy = d.options.policy;
  launch.seed = d.options.seed;
  launch.findings = d.options.findings;
  launch.instruction_budget = d.options.budget;
  launch.host_threads = d.options.threads;
  launch.num_sms = static_cast<std::uint32_t>(d.options.gpu.sms);
  launch.stop_at_finding = d.options.end_at_finding;
  // Only a kernel that lets others begin can be overlapped with.
  launch.programmatic = w.programmatic && after_release;
  const Registered registered(d);
  em::Report report;
  try {
    report = em::launch(d.memory, module.code, launch);
  } catch (const em::Error& error) {
    d.report.unsupported("kernel " + launch.kernel, error.what());
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  registered.copy_back();
  if (!report.output.empty()) {
    std::fwrite(report.output.data(), 1, report.output.size(), stdout);
    std::fflush(stdout);
  }
  if (d.options.tell_launches)
    d.report.launched(launch.kernel, report.counters.warp_instructions, module.id, module.name, module.text);
  d.report.launch(report, module.id, module.code, module.name, module.text);
  const bool wrong = std::any_of(report.findings.begin(), report.findings.end(),
                                 [](const em::Finding& f) { return f.severity != em::Severity::note; });
  if (d.options.end_at_finding && wrong) std::_Exit(1);
  if (fatal(report)) d.sticky = failure_of(report);
  return report.released_dependents;
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return on_device([&](Driver& d) {
    require(config != nullptr);
    submit(d, config->hStream, kernel_work(d, *config, f, params, extra));
  });
}
KILN_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream, void** params,
                                 void** extra) {
  const CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, f, params, extra);
}
KILN_API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                            void** params) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.flag = 1;
  const CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, stream, &attribute, 1};
  return cuLaunchKernelEx(&config, f, params, nullptr);
}

KILN_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction f, int threads,
                                                                       std::size_t dynamic, unsigned) {
  return on_device([&](Driver& d) {
    require(out != nullptr && threads > 0);
    *out = blocks_per_sm(d, d.function(f), static_cast<std::uint64_t>(threads), dynamic);
  });
}
KILN_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction f, int threads,
                                                              std::size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, f, threads, dynamic, 0);
}
KILN_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                            std::size_t (*bytes_of)(int), std::size_t dynamic,
                                                            int limit, unsigned) {
  return on_device([&](Driver& d) {
    require(grid != nullptr && block != nullptr);
    Function& function = d.function(f);
    const int most = function_attribute(d, function, 0);
    int best = 0;
    for (int threads = limit > 0 ? std::min(limit, most) : most; threads > 0;
         threads = (threads - 1) / 32 * 32) {
      const std::size_t bytes = bytes_of != nullptr ? bytes_of(threads) : dynamic;
      const int blocks = blocks_per_sm(d, function, static_cast<std::uint64_t>(threads), bytes);
      if (blocks * threads <= best) continue;
      best = blocks * threads;
      *block = threads;
      *grid = blocks * d.options.gpu.sms;
    }
    require(best > 0);
  });
}
KILN_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                                   std::size_t (*bytes_of)(int), std::size_t dynamic,
                                                   int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, bytes_of, dynamic, limit, 0);
}
KILN_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* out, CUfunction f, int blocks,
                                                          int threads) {
  return on_device([&](Driver& d) {
    require(out != nullptr && blocks > 0 && threads > 0);
    const int reserved = attribute(d.options.gpu, 111);
    const int each =
        d.options.gpu.smem_per_sm / blocks / 1024 * 1024 - reserved - function_attribute(d, d.function(f), 1);
    *out = static_cast<std::size_t>(std::clamp(each, 0, function_attribute(d, d.function(f), 8)));
  });
}
KILN_API CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction f, const CUlaunchConfig* config) {
  return on_device([&](Driver& d) {
    require(out != nullptr && config != nullptr);
    *out = max_cluster(d, d.function(f), *config);
  });
}
KILN_API CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction f, const CUlaunchConfig* config) {
  return on_device([&](Driver& d) {
    require(out != nullptr && config != nullptr);
    Function& function = d.function(f);
    max_cluster(d, function, *config);
    unsigned size = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        size = config->attrs[i].value.dim[0] * config->attrs[i].value.dim[1] * config->attrs[i].value.dim[2];
    const std::uint64_t threads = std::uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
    const int blocks = blocks_per_sm(d, function, threads, config->sharedMemBytes) * d.options.gpu.sms;
    *out = blocks / static_cast<int>(std::max(1u, size));
  });
}
