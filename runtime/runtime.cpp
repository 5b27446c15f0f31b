// Runtime: one device, the compilers and one cache, each opened at its first use.
#include <kiln/runtime.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <list>
#include <mutex>

#include <kiln/generator.hpp>

#include "runtime/cache/cache_impl.hpp"
#include "runtime/compiler/clang.hpp"
#include "runtime/compiler/compiler.hpp"
#include "runtime/compiler/hiprtc.hpp"
#include "runtime/compiler/nvrtc.hpp"
#include "runtime/device/device.hpp"
#include "runtime/launch/kernel.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/log.hpp"
#include "runtime/support/settings.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxLoaded = 64;  // kernels kept on the device for the next load() of the same source

/// "cuda:3" as kind and ordinal. Throws Error (bad_input).
struct Selector {
  std::string kind;
  int ordinal = 0;
};
Selector parse_selector(const std::string& text) {
  Selector selector;
  const std::size_t colon = text.find(':');
  selector.kind = text.substr(0, colon);
  bool ok = selector.kind == "auto" || selector.kind == "emulated" || selector.kind == "cuda" ||
            selector.kind == "hip";
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, selector.ordinal);
    ok = ok && (selector.kind == "cuda" || selector.kind == "hip") && parsed.ec == std::errc() &&
         parsed.ptr == end && selector.ordinal >= 0;
  }
  if (!ok) {
    throw Error(ErrorCode::bad_input,
                "no device is called \"" + text + "\"; use auto, cuda[:n], hip[:n] or emulated");
  }
  return selector;
}

}  // namespace

namespace {

std::string device_setting() {
  const std::string chosen = environment("KILN_DEVICE");
  return chosen.empty() ? "auto" : chosen;
}

/// "hiprtc", "clang" or nothing.
std::string amd_compiler_setting() {
  std::string amd = environment("KILN_AMD_COMPILER");
  if (amd.empty() || amd == "hiprtc" || amd == "clang") return amd;
  throw Error(ErrorCode::bad_input,
              "KILN_AMD_COMPILER is \"" + amd + "\"; use hiprtc or clang, or leave it unset");
}

}  // namespace

void check_settings() {
  const Logger level{RuntimeOptions()};
  parse_selector(device_setting());
  amd_compiler_setting();
  check_cache_settings();
}

class Runtime::Impl {
 public:
  explicit Impl(RuntimeOptions options)
      : options_(std::move(options)),
        logger_(options_),
        selector_(parse_selector(options_.device.empty() ? device_setting() : options_.device)),
        cache_(options_.cache_dir.value_or(Cache::default_directory())) {
    compilers_.push_back(std::make_unique<Nvrtc>(cuda_driver_major));
    const std::string amd = amd_compiler_setting();
    if (amd != "clang") compilers_.push_back(std::make_unique<Hiprtc>());
    if (amd != "hiprtc") compilers_.push_back(std::make_unique<Clang>());
    cache_.impl().on_warning([this](const std::string& text) { logger_.warn(text); });
    if (!options_.cache_dir && cache_.impl().store.directory().empty())
      logger_.warn(cache_.impl().store.problem());
  }

  BinaryPtr compile(const KernelSource& source, const std::string& target);
  std::shared_ptr<Kernel> load(const KernelSource& source);
  std::shared_ptr<Kernel> load(BinaryPtr binary, const Manifest& manifest) {
    return load_kernel(device(), std::move(binary), manifest);
  }
  std::shared_ptr<Kernel> load(const EmbeddedKernel& kernel);
  std::shared_ptr<Device> device();
  Cache& cache() { return cache_; }
  DoctorReport doctor();

 private:
  std::shared_ptr<Device> open_device();
  KernelCompiler& compiler_for(const std::string& target);
  Binary run_compiler(KernelCompiler& compiler, const CompileJob& job);
  CompileJob job_of(const KernelSource& source, const std::string& target) const {
    return {source, target, options_.ptx_only && selector_.kind == "emulated" && target.starts_with("sm_")};
  }

  RuntimeOptions options_;
  Logger logger_;
  Selector selector_;
  Cache cache_;
  std::vector<std::unique_ptr<KernelCompiler>> compilers_;  // fixed after construction

  std::mutex device_mutex_;
  std::shared_ptr<Device> device_;
  std::mutex loaded_mutex_;
  std::list<std::pair<std::string, std::shared_ptr<Kernel>>> loaded_;  // most recent first
};

KernelCompiler& Runtime::Impl::compiler_for(const std::string& target) {
  KernelCompiler* best = nullptr;
  int rank = 0;
  std::string obstacles;
  for (const auto& compiler : compilers_) {
    if (!compiler->serves(target)) continue;
    const Offer offer = compiler->offer(target);
    if (!offer.obstacle.empty()) {
      if (obstacles != offer.obstacle) obstacles += (obstacles.empty() ? "" : "; ") + offer.obstacle;
    } else if (best == nullptr || offer.rank < rank) {
      best = compiler.get();
      rank = offer.rank;
    }
  }
  if (best != nullptr) return *best;
  throw Error(ErrorCode::environment, obstacles.empty() ? "no compiler for target \"" + target +
                                                              "\" is built into this version of kiln"
                                                        : obstacles);
}

Binary Runtime::Impl::run_compiler(KernelCompiler& compiler, const CompileJob& job) {
  const std::string& name = job.source.manifest.name;
  logger_.info(fmt::format("compiling {} for {}", name, job.target));
  try {
    Binary binary = compiler.compile(job);
    logger_.info(fmt::format("compiled {} in {:.0f} ms: {} registers, {} spill bytes", name,
                             binary.compile_ms, binary.registers, binary.spill_bytes));
    return binary;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile || !job.source.file.empty()) throw;
    const std::string extension = job.target.starts_with("gfx") ? ".hip" : ".cu";
    const std::string kept = cache_.impl().store.keep_failed(name + extension, job.source.text);
    if (kept.empty()) throw;
    throw Error(ErrorCode::compile, std::string(error.what()) + "\nthe source is kept in " + kept);
  }
}

BinaryPtr Runtime::Impl::compile(const KernelSource& source, const std::string& target) {
  KernelCompiler& compiler = compiler_for(target);
  const CompileJob job = job_of(source, target);
  const Hash128 key = cache_key(job, compiler.identity(), compiler.options(job));
  BinaryPtr binary = cache_.impl().get(key, [&] { return run_compiler(compiler, job); });
  logger_.debug(
      fmt::format("{} for {}: {} {}", source.manifest.name, target, to_string(binary->cache), key.hex()));
  for (const std::string& warning : binary->warnings) logger_.debug(source.manifest.name + ": " + warning);
  return binary;
}

std::shared_ptr<Kernel> Runtime::Impl::load(const KernelSource& source) {
  const std::shared_ptr<Device> device = this->device();
  BinaryPtr binary = compile(source, device->compile_target(source.manifest.target));
  // Configs that differ only in what is passed at launch share a binary, not a manifest.
  const std::string identity = binary->key + to_json(source.manifest, -1);
  {
    std::lock_guard lock(loaded_mutex_);
    for (auto it = loaded_.begin(); it != loaded_.end(); ++it) {
      if (it->first != identity) continue;
      loaded_.splice(loaded_.begin(), loaded_, it);
      return it->second;
    }
  }
  std::shared_ptr<Kernel> kernel;
  try {
    kernel = load_kernel(device, binary, source.manifest);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device || binary->cache != CacheState::disk) throw;
    // An intact entry that the driver refuses: once more from the source; a second refusal is the user's to
    // see.
    logger_.warn(std::string(error.what()) + "; compiling it anew");
    KernelCompiler& compiler = compiler_for(binary->target);
    const CompileJob job = job_of(source, binary->target);
    cache_.impl().evict(cache_key(job, compiler.identity(), compiler.options(job)));
    binary = compile(source, binary->target);
    kernel = load_kernel(device, binary, source.manifest);
  }
  std::lock_guard lock(loaded_mutex_);
  loaded_.emplace_front(identity, kernel);
  if (loaded_.size() > kMaxLoaded) loaded_.pop_back();
  return kernel;
}

std::shared_ptr<Kernel> Runtime::Impl::load(const EmbeddedKernel& embedded) {
  const KernelSource source = to_source(embedded);
  const std::shared_ptr<Device> device = this->device();
  // The emulated device runs the PTX of NVIDIA targets, and a newer device recompiles plain ones for itself:
  // both start from the source.
  const bool as_built = device->runs_images(source.manifest.target) &&
                        device->compile_target(source.manifest.target) == source.manifest.target;
  if (embedded.image.empty() || !as_built) return load(source);
  auto binary = std::make_shared<Binary>();
  binary->name = source.manifest.name;
  binary->entry = source.manifest.entry;
  binary->target = source.manifest.target;
  binary->image = embedded.image;
  return load_kernel(device, std::move(binary), source.manifest);
}

std::shared_ptr<Device> Runtime::Impl::open_device() {
  if (selector_.kind == "emulated") return open_emulated_device(options_.emulator);
  if (selector_.kind == "cuda") return open_cuda_device(selector_.ordinal);
  if (selector_.kind == "hip") return open_hip_device(selector_.ordinal);
  // auto: hardware when there is any.
  if (!list_cuda_devices().empty()) return open_cuda_device(0);
  if (!list_hip_devices().empty()) return open_hip_device(0);
  return open_emulated_device(options_.emulator);
}

std::shared_ptr<Device> Runtime::Impl::device() {
  std::lock_guard lock(device_mutex_);
  if (!device_) {
    device_ = open_device();
    logger_.info(fmt::format("device {} ({})", device_->info().selector, device_->info().name));
  }
  return device_;
}

DoctorReport Runtime::Impl::doctor() {
  DoctorReport report;
  report.kiln_version = std::string(version());
  for (const auto& compiler : compilers_) report.compilers.push_back(compiler->probe());
  for (const Target target : kTargetList) {
    DoctorReport::Choice choice{std::string(to_string(target)), "", ""};
    try {
      const KernelCompiler* chosen = &compiler_for(choice.target);
      for (std::size_t i = 0; i < compilers_.size(); ++i) {
        const auto& trial = report.compilers[i];
        if (compilers_[i].get() != chosen) continue;
        const bool compiled = std::ranges::find(trial.targets, choice.target) != trial.targets.end();
        (compiled ? choice.compiler : choice.problem) = compiled ? trial.kind : trial.problem;
      }
    } catch (const Error& error) {
      choice.problem = error.what();
    }
    report.choices.push_back(std::move(choice));
  }
  report.drivers.push_back(probe_cuda_driver());
  report.drivers.push_back(probe_hip_driver());
  report.devices = list_cuda_devices();
  for (DeviceInfo& info : list_hip_devices()) report.devices.push_back(std::move(info));
  if (DoctorReport::Driver emulator = probe_emulator(); emulator.found) {
    report.devices.push_back(open_emulated_device(options_.emulator)->info());
  } else {
    report.drivers.push_back(std::move(emulator));
  }
  report.cache = cache_.stats();
  return report;
}

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Runtime::~Runtime() = default;

BinaryPtr Runtime::compile(const KernelSource& source) {
  return impl_->compile(source, source.manifest.target);
}
std::shared_ptr<Kernel> Runtime::load(const KernelSource& source) {
  return impl_->load(source);
}
std::shared_ptr<Kernel> Runtime::load(std::shared_ptr<const Binary> binary, const Manifest& manifest) {
  return impl_->load(std::move(binary), manifest);
}
std::shared_ptr<Kernel> Runtime::load(const EmbeddedKernel& kernel) {
  return impl_->load(kernel);
}
const DeviceInfo& Runtime::device() {
  return impl_->device()->info();
}
DeviceBuffer Runtime::allocate(std::size_t bytes, const std::string& name) {
  return DeviceBuffer(impl_->device(), bytes, name);
}
void Runtime::synchronize() {
  impl_->device()->synchronize();
}
Cache& Runtime::cache() {
  return impl_->cache();
}
DoctorReport Runtime::doctor() {
  return impl_->doctor();
}

}  // namespace kiln
