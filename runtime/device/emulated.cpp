// The emulated device behind the same interface as hardware: one memory, in which kernels of every target
// run.
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <stdexcept>

#include "emulator/emulator.hpp"
#include "runtime/device/device.hpp"
#include "runtime/device/emulated_kernel.hpp"

namespace kiln {
namespace {

/// Errors of the emulator in kiln's terms.
template <class Work>
auto translated(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const emulator::MissingLibrary& error) {
    throw Error(ErrorCode::environment, std::string("emulated device: ") + error.what());
  } catch (const emulator::Error& error) {
    throw Error(ErrorCode::device, std::string("emulated device: ") + error.what());
  }
}

std::vector<std::pair<std::string, std::uint64_t>> list_counters(const emulator::Counters& counters) {
  std::vector<std::pair<std::string, std::uint64_t>> list = {
      {"instructions", counters.warp_instructions},
      {"lane_instructions", counters.lane_instructions},
      {"shared_accesses", counters.shared_accesses},
      {"bank_conflicts", counters.shared_bank_conflicts},
      {"global_accesses", counters.global_accesses},
      {"global_sectors", counters.global_sectors},
      {"global_bytes_read", counters.global_bytes_read},
      {"global_bytes_written", counters.global_bytes_written},
      {"async_bytes", counters.async_bytes},
      {"matrix_flops", counters.matrix_flops},
  };
  for (const auto& [kind, count] : counters.by_kind) list.emplace_back("instructions." + kind, count);
  return list;
}

std::string place(const emulator::Site& site, const char* assembly) {
  std::string text = fmt::format("block ({},{},{})", site.block.x, site.block.y, site.block.z);
  if (site.warp >= 0) text += fmt::format(" warp {}", site.warp);
  if (site.lane >= 0) text += fmt::format(" lane {}", site.lane);
  if (site.source_line > 0) text += fmt::format(", line {}", site.source_line);
  if (site.caller_line > 0) text += fmt::format(" (inlined in line {})", site.caller_line);
  if (site.ptx_line > 0) text += fmt::format(", {} line {}", assembly, site.ptx_line);
  return text;
}

EmulationReport::Finding convert(const emulator::Finding& finding, const std::string& file) {
  const char* assembly = file.ends_with(".hip") ? "ISA" : "PTX";
  EmulationReport::Finding result;
  result.kind = finding.kind;
  result.message = fmt::format("{} at {}", finding.message, place(finding.site, assembly));
  if (finding.has_other) result.message += "; other party: " + place(finding.other, assembly);
  if (finding.count > 1) result.message += fmt::format(" ({} times)", finding.count);
  result.ptx_line = finding.site.ptx_line;
  result.ptx_text = finding.site.ptx_text;
  // The line table names the config that was compiled first; a cached binary serves every config with this
  // code.
  result.source_file = finding.site.source_line > 0 ? file : "";
  result.source_line = finding.site.source_line;
  return result;
}

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(const EmulatorOptions& options) : options_(options) {
    info_.selector = info_.name = "emulated";
    info_.num_sms = options.num_sms;
  }
  const DeviceInfo& info() const override { return info_; }

  std::string compile_target(const std::string& target) const override {
    if (!target.starts_with("sm_") && !target.starts_with("gfx")) {
      throw Error(ErrorCode::environment, "the emulated device does not run " + target + " kernels");
    }
    return target;
  }

  bool runs_images(std::string_view target) const override { return target.starts_with("gfx"); }

  std::uint64_t allocate(std::size_t bytes, const std::string& name) override {
    std::lock_guard lock(mutex_);
    return translated([&] { return memory_.allocate(std::max<std::size_t>(bytes, 1), name); });
  }
  void release(std::uint64_t address) noexcept override {
    std::lock_guard lock(mutex_);
    try {
      memory_.free(address);
    } catch (const emulator::Error&) {
      // Only DeviceBuffer calls this, once, with what allocate() gave.
    }
  }
  void write(std::uint64_t address, std::span<const std::byte> data) override {
    std::lock_guard lock(mutex_);
    translated([&] { memory_.write(address, data); });
  }
  void read(std::uint64_t address, std::span<std::byte> data) override {
    std::lock_guard lock(mutex_);
    translated([&] { memory_.read(address, data); });
  }
  void fill(std::uint64_t address, std::byte value, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    translated([&] { memory_.fill(address, value, bytes); });
  }
  void synchronize() override {}

  TensorMapBytes encode(const TensorMapRequest& request) override;
  std::unique_ptr<DeviceFunction> load(const Binary& binary, const Manifest& manifest) override;
  std::shared_ptr<const EmulationReport> launch(DeviceFunction& function, const LaunchGeometry& geometry,
                                                const ParamView& params,
                                                const LaunchOptions& options) override;
  double time_us(std::uint64_t, const std::function<void()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  EmulatorOptions options_;
  DeviceInfo info_;
  std::mutex mutex_;  // memory is not synchronised with running launches: one thing at a time
  emulator::GlobalMemory memory_;
};

TensorMapBytes EmulatedDevice::encode(const TensorMapRequest& request) {
  using emulator::Swizzle;
  using emulator::TensorType;
  emulator::TensorMapRequest map;
  switch (request.dtype) {
    case DType::bf16:
      map.type = TensorType::bf16;
      break;
    case DType::fp16:
      map.type = TensorType::f16;
      break;
    case DType::f32:
      map.type = TensorType::f32;
      break;
    case DType::i32:
      map.type = TensorType::s32;
      break;
    default:
      map.type = TensorType::u8;
      break;
  }
  map.rank = static_cast<std::uint32_t>(request.rank);
  map.address = request.address;
  map.dims = request.extents;
  map.strides = request.strides;
  map.box = request.box;
  switch (request.swizzle_bytes) {
    case 32:
      map.swizzle = Swizzle::b32;
      break;
    case 64:
      map.swizzle = Swizzle::b64;
      break;
    case 128:
      map.swizzle = Swizzle::b128;
      break;
    default:
      map.swizzle = Swizzle::none;
      break;
  }
  try {
    return emulator::encode_tensor_map(map);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::device, std::string("emulated device: tensor map: ") + error.what());
  }
}

std::unique_ptr<DeviceFunction> EmulatedDevice::load(const Binary& binary, const Manifest& manifest) {
  return translated([&] { return load_emulated_kernel(binary, manifest); });
}

std::shared_ptr<const EmulationReport> EmulatedDevice::launch(DeviceFunction& function,
                                                              const LaunchGeometry& geometry,
                                                              const ParamView& params,
                                                              const LaunchOptions& options) {
  const auto& kernel = static_cast<EmulatedKernel&>(function);
  const EmulatorOptions& how = options.emulator != nullptr ? *options.emulator : options_;
  std::lock_guard lock(mutex_);
  const emulator::Report report = translated([&] { return kernel.run(memory_, geometry, params, how); });
  auto result = std::make_shared<EmulationReport>();
  result->counters = list_counters(report.counters);
  result->output = report.output;
  result->completed = report.completed;
  for (const emulator::Finding& finding : report.findings) {
    result->findings.push_back(convert(finding, kernel.name + kernel.extension));
  }
  return result;
}

}  // namespace

std::shared_ptr<Device> open_emulated_device(const EmulatorOptions& options) {
  return std::make_shared<EmulatedDevice>(options);
}

}  // namespace kiln
