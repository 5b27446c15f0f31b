#include "runtime/launch/kernel.hpp"

#include <algorithm>

namespace kiln {

TileCounters::~TileCounters() {
  for (std::uint64_t block : blocks_) device_.release(block);
}

std::uint64_t TileCounters::of(std::uint64_t stream) {
  std::lock_guard lock(mutex_);
  const auto found = by_stream_.find(stream);
  if (found != by_stream_.end()) return found->second;
  const std::size_t index = by_stream_.size();
  if (index % kSlots == 0) {
    blocks_.push_back(device_.allocate(kSlots * kSlotBytes, "tile counters"));
    device_.fill(blocks_.back(), std::byte{0}, kSlots * kSlotBytes);
  }
  return by_stream_[stream] = blocks_.back() + index % kSlots * kSlotBytes;
}

void TileCounters::clear(std::uint64_t stream) {
  device_.fill(of(stream), std::byte{0}, sizeof(std::int32_t));
}

namespace {

class LoadedKernel final : public Kernel {
 public:
  LoadedKernel(std::shared_ptr<Device> device, std::shared_ptr<const Binary> binary, const Manifest& manifest)
      : device_(std::move(device)), binary_(std::move(binary)), manifest_(manifest), counters_(*device_) {
    check_roles(manifest_);
    function_ = device_->load(*binary_, manifest_);
    needs_counter_ =
        std::any_of(manifest_.params.begin(), manifest_.params.end(), [](const KernelParam& param) {
          return param.kind == KernelParam::Kind::pointer && param.role == "tile_counter";
        });
    // Now rather than at the first launch, which may be inside a graph capture.
    if (needs_counter_) counters_.of(0);
  }

  const Manifest& manifest() const override { return manifest_; }
  const Binary& binary() const override { return *binary_; }
  void check(const AttentionArgs& args) const override { make_problem(manifest_, args); }

  std::shared_ptr<const EmulationReport> launch(const AttentionArgs& args,
                                                const LaunchOptions& options) override {
    const Problem problem = make_problem(manifest_, args);
    if (problem.empty()) return nullptr;  // no query rows: nothing to write
    const std::uint64_t counter = needs_counter_ ? counters_.of(options.stream) : 0;
    PackedParams params;
    pack_params(manifest_, args, problem, *device_, counter, params);
    const EmulatorOptions* emulator = options.emulator;
    const int num_sms = emulator != nullptr ? emulator->num_sms : device_->info().num_sms;
    auto report =
        device_->launch(*function_, make_geometry(manifest_, problem, num_sms), params.view(), options);
    if (report && !report->completed && needs_counter_) counters_.clear(options.stream);
    return report;
  }

  Timing time(const AttentionArgs& args, int warmup, int iterations, const LaunchOptions& options) override {
    Timing timing;
    for (int i = 0; i < warmup; ++i) timing.report = launch(args, options);
    timing.us.reserve(static_cast<std::size_t>(std::max(iterations, 0)));
    for (int i = 0; i < iterations; ++i) {
      timing.us.push_back(device_->time_us(options.stream, [&] { timing.report = launch(args, options); }));
    }
    device_->synchronize();
    return timing;
  }

 private:
  // Order matters: function and counters go before the device.
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Binary> binary_;
  Manifest manifest_;
  TileCounters counters_;
  std::unique_ptr<DeviceFunction> function_;
  bool needs_counter_ = false;
};

}  // namespace

std::shared_ptr<Kernel> load_kernel(std::shared_ptr<Device> device, std::shared_ptr<const Binary> binary,
                                    const Manifest& manifest) {
  return std::make_shared<LoadedKernel>(std::move(device), std::move(binary), manifest);
}

double Timing::min() const {
  return us.empty() ? 0 : *std::min_element(us.begin(), us.end());
}

double Timing::median() const {
  if (us.empty()) return 0;
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace kiln
