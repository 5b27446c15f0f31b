// The emulated device behind the same interface as hardware: one memory, in which kernels of every target
// run. It is a library of its own (emulator_library.hpp).
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "runtime/device/device.hpp"
#include "runtime/device/emulator_library.hpp"
#include "runtime/support/memory.hpp"

namespace kiln {
namespace {

using Functions = kiln_emulator_functions;

/// Errors of the emulated device in kiln's terms.
void check(const Functions& api, kiln_emulator_status status) {
  if (status == KILN_EMULATOR_OK) return;
  const bool missing = status == KILN_EMULATOR_MISSING_LIBRARY;
  throw Error(missing ? ErrorCode::environment : ErrorCode::device,
              std::string("emulated device: ") + api.last_error());
}

struct Destroy {
  const Functions* api;
  void operator()(kiln_emulator_memory* memory) const { api->memory_destroy(memory); }
  void operator()(kiln_emulator_module* module) const { api->module_destroy(module); }
  void operator()(kiln_emulator_report* report) const { api->report_destroy(report); }
};

/// PTX text of NVIDIA targets, the code object of AMD ones.
struct EmulatedKernel final : DeviceFunction {
  std::unique_ptr<kiln_emulator_module, Destroy> module;
  std::string name;  ///< of the config
  std::string entry;
  std::string extension;  ///< of its source file
};

std::string place(const kiln_emulator_site& site, const char* assembly) {
  std::string text = fmt::format("block ({},{},{})", site.block[0], site.block[1], site.block[2]);
  if (site.warp >= 0) text += fmt::format(" warp {}", site.warp);
  if (site.lane >= 0) text += fmt::format(" lane {}", site.lane);
  if (site.source_line > 0) text += fmt::format(", line {}", site.source_line);
  if (site.caller_line > 0) text += fmt::format(" (inlined in line {})", site.caller_line);
  if (site.line > 0) text += fmt::format(", {} line {}", assembly, site.line);
  return text;
}

EmulationReport::Finding convert(const kiln_emulator_finding& finding, const std::string& file) {
  const char* assembly = file.ends_with(".hip") ? "ISA" : "PTX";
  EmulationReport::Finding result;
  result.kind = finding.kind;
  result.message = fmt::format("{} at {}", finding.message, place(finding.site, assembly));
  if (finding.has_other) result.message += "; other party: " + place(finding.other, assembly);
  if (finding.count > 1) result.message += fmt::format(" ({} times)", finding.count);
  result.ptx_line = finding.site.line;
  result.ptx_text = finding.site.text;
  // The line table names the config that was compiled first; a cached binary serves every config with this
  // code.
  result.source_file = finding.site.source_line > 0 ? file : "";
  result.source_line = finding.site.source_line;
  return result;
}

std::shared_ptr<const EmulationReport> convert(const kiln_emulator_result& from, const std::string& file) {
  auto report = std::make_shared<EmulationReport>();
  for (const auto& [name, value] : std::span(from.counters, from.num_counters))
    report->counters.emplace_back(name, value);
  // That a product writes where the one before reads is a note, no fault: no two-tile kernel is without, since products
  // of one thread run in the order of issue. It is counted (`kiln emulate` has it in full). Other notes are faults here.
  std::uint64_t notes = 0;
  for (const auto& finding : std::span(from.findings, from.num_findings)) {
    if (finding.note != 0 && std::string_view(finding.kind) == "tmem-race")
      ++notes;
    else
      report->findings.push_back(convert(finding, file));
  }
  if (notes > 0) report->counters.emplace_back("notes", notes);
  report->output = from.output;
  report->completed = from.completed != 0;
  return report;
}

int tensor_type(DType dtype) {  // as CUtensorMapDataType
  switch (dtype) {
    case DType::bf16:
      return 9;
    case DType::fp16:
      return 6;
    case DType::f32:
      return 7;
    case DType::i32:
      return 3;
    default:
      return 0;
  }
}

void copy(const std::array<std::uint32_t, 3>& from, std::uint32_t (&to)[3]) {
  std::ranges::copy(from, to);
}

/// `ranges` holds what the result points at.
kiln_emulator_launch launch_of(const LaunchGeometry& geometry, const ParamView& params,
                               const EmulatorOptions& how, std::vector<kiln_emulator_range>& ranges) {
  kiln_emulator_launch launch{};
  copy(geometry.grid, launch.grid);
  copy(geometry.block, launch.block);
  copy(geometry.cluster, launch.cluster);
  launch.dynamic_smem_bytes = geometry.smem_bytes;
  launch.parameters = params.addresses.data();
  launch.parameter_bytes = params.sizes.data();
  launch.num_parameters = params.addresses.size();
  launch.policy = static_cast<int>(how.policy);
  launch.seed = how.seed;
  launch.findings = how.findings ? 1 : 0;
  launch.max_findings = how.max_findings;
  launch.stop_at_finding = how.stop_at_finding ? 1 : 0;
  launch.host_threads = how.host_threads;
  launch.instruction_budget = how.instruction_budget;
  launch.num_sms = static_cast<std::uint32_t>(how.num_sms);
  launch.programmatic = geometry.programmatic ? 1 : 0;
  launch.touches_early = geometry.before == LaunchBefore::unrelated ? 1 : 0;
  if (geometry.before == LaunchBefore::keeps_tables)
    for (const MemoryRange& range : geometry.tables)
      if (range.bytes > 0) ranges.push_back({range.address, range.bytes});
  launch.early_reads = ranges.data();
  launch.num_early_reads = ranges.size();
  return launch;
}

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(const Functions& api, const EmulatorOptions& options)
      : api_(api), options_(options), memory_(nullptr, Destroy{&api}) {
    kiln_emulator_memory* memory = nullptr;
    check(api_, api_.memory_create(&memory));
    memory_.reset(memory);
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
    // Every byte has another that says whether it was written.
    require_memory(2 * std::uint64_t{bytes}, fmt::format("the emulated device, for {} bytes of {},", bytes,
                                                         name.empty() ? "a buffer" : name));
    std::lock_guard lock(mutex_);
    std::uint64_t address = 0;
    check(api_, api_.allocate(memory_.get(), std::max<std::size_t>(bytes, 1), name.c_str(), &address));
    return address;
  }
  void release(std::uint64_t address) noexcept override {
    std::lock_guard lock(mutex_);
    // Only DeviceBuffer calls this, once, with what allocate() gave: it cannot fail.
    api_.release(memory_.get(), address);
  }
  void write(std::uint64_t address, std::span<const std::byte> data) override {
    std::lock_guard lock(mutex_);
    check(api_, api_.write(memory_.get(), address, data.data(), data.size()));
  }
  void read(std::uint64_t address, std::span<std::byte> data) override {
    std::lock_guard lock(mutex_);
    check(api_, api_.read(memory_.get(), address, data.data(), data.size()));
  }
  void fill(std::uint64_t address, std::byte value, std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    check(api_, api_.fill(memory_.get(), address, std::to_integer<int>(value), bytes));
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
  const Functions& api_;
  EmulatorOptions options_;
  DeviceInfo info_;
  std::mutex mutex_;  // memory is not synchronised with running launches: one thing at a time
  std::unique_ptr<kiln_emulator_memory, Destroy> memory_;
};

TensorMapBytes EmulatedDevice::encode(const TensorMapRequest& request) {
  kiln_emulator_tensor_map map{};
  map.type = tensor_type(request.dtype);
  map.rank = request.rank;
  map.address = request.address;
  std::ranges::copy(request.extents, map.extents);
  std::ranges::copy(request.strides, map.strides);
  std::ranges::copy(request.box, map.box);
  map.swizzle_bytes = request.swizzle_bytes;
  TensorMapBytes bytes{};
  if (api_.encode_tensor_map(&map, bytes.data()) != KILN_EMULATOR_OK) {
    throw Error(ErrorCode::device, std::string("emulated device: tensor map: ") + api_.last_error());
  }
  return bytes;
}

std::unique_ptr<DeviceFunction> EmulatedDevice::load(const Binary& binary, const Manifest& manifest) {
  const bool amd = binary.target.starts_with("gfx");
  kiln_emulator_module* module = nullptr;
  const char* name = manifest.name.c_str();
  check(api_, amd ? api_.load_code_object(binary.image.data(), binary.image.size(), name, &module)
                  : api_.load_ptx(binary.ptx.data(), binary.ptx.size(), name, &module));
  auto kernel = std::make_unique<EmulatedKernel>();
  kernel->module = {module, Destroy{&api_}};
  kernel->name = manifest.name;
  kernel->entry = manifest.entry;
  kernel->extension = amd ? ".hip" : ".cu";
  return kernel;
}

std::shared_ptr<const EmulationReport> EmulatedDevice::launch(DeviceFunction& function,
                                                              const LaunchGeometry& geometry,
                                                              const ParamView& params,
                                                              const LaunchOptions& options) {
  const auto& kernel = static_cast<EmulatedKernel&>(function);
  std::vector<kiln_emulator_range> ranges;
  kiln_emulator_launch how =
      launch_of(geometry, params, options.emulator != nullptr ? *options.emulator : options_, ranges);
  how.entry = kernel.entry.c_str();
  kiln_emulator_report* raw = nullptr;
  const kiln_emulator_result* result = nullptr;
  std::lock_guard lock(mutex_);
  check(api_, api_.launch(memory_.get(), kernel.module.get(), &how, &raw, &result));
  const std::unique_ptr<kiln_emulator_report, Destroy> report(raw, Destroy{&api_});
  return convert(*result, kernel.name + kernel.extension);
}

}  // namespace

std::shared_ptr<Device> open_emulated_device(const EmulatorOptions& options) {
  const EmulatorLibrary library = find_emulator();
  if (library.functions == nullptr) throw Error(ErrorCode::environment, library.problem);
  return std::make_shared<EmulatedDevice>(*library.functions, options);
}

DoctorReport::Driver probe_emulator() {
  const EmulatorLibrary library = find_emulator();
  DoctorReport::Driver driver;
  driver.kind = "emulated";
  driver.found = library.functions != nullptr;
  driver.path = library.path;
  driver.problem = library.problem;
  return driver;
}

}  // namespace kiln
