#include "runtime/launch/kernel.hpp"

#include <algorithm>

#include "runtime/launch/checker.hpp"

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

SplitScratch::~SplitScratch() {
  for (const std::uint64_t address : memory_) device_.release(address);
}

std::uint64_t SplitScratch::take(std::size_t bytes, const char* name) {
  memory_.push_back(0);  // first, so that no failure loses the memory
  return memory_.back() = device_.allocate(bytes, name);
}

void SplitScratch::of(std::uint64_t stream, std::int64_t items, int num_sms, ScratchAddresses& out) {
  constexpr std::int64_t kFirstItems = 1 << 14;
  std::lock_guard lock(mutex_);
  Slot& slot = by_stream_[stream];
  const std::int64_t workspace =
      std::max(most_blocks(manifest_, num_sms) * manifest_.workspace_bytes_per_block,
               items * manifest_.workspace_bytes_per_item);
  if (slot.workspace_bytes < workspace) {
    slot.workspace = take(static_cast<std::size_t>(workspace), "workspace");
    slot.workspace_bytes = workspace;
  }
  if (slot.items < items) {
    const std::int64_t wanted = std::max({items, 2 * slot.items, kFirstItems});
    const auto bytes = static_cast<std::size_t>(wanted) * sizeof(std::int32_t);
    slot.counters = take(bytes, "item counters");
    device_.fill(slot.counters, std::byte{0}, bytes);
    slot.items = wanted;
  }
  out.workspace = slot.workspace;
  out.item_counters = slot.counters;
}

void SplitScratch::clear(std::uint64_t stream) {
  std::lock_guard lock(mutex_);
  const Slot& slot = by_stream_[stream];
  if (slot.items > 0)
    device_.fill(slot.counters, std::byte{0}, static_cast<std::size_t>(slot.items) * sizeof(std::int32_t));
}

namespace {

class LoadedKernel final : public Kernel {
 public:
  LoadedKernel(std::shared_ptr<Device> device, std::shared_ptr<const Binary> binary, const Manifest& manifest)
      : device_(std::move(device)),
        binary_(std::move(binary)),
        manifest_(manifest),
        counters_(*device_),
        split_(*device_, manifest_) {
    check_roles(manifest_);
    function_ = device_->load(*binary_, manifest_);
    needs_counter_ = manifest_.takes("tile_counter", KernelParam::Kind::pointer);
    needs_split_ = manifest_.takes("workspace", KernelParam::Kind::pointer) ||
                   manifest_.takes("item_counters", KernelParam::Kind::pointer);
    // Now rather than at the first launch, which may be inside a graph capture.
    ScratchAddresses ignored;
    if (needs_counter_) counters_.of(0);
    if (needs_split_) split_.of(0, 1, device_->info().num_sms, ignored);
  }

  const Manifest& manifest() const override { return manifest_; }
  const Binary& binary() const override { return *binary_; }
  void check(const AttentionArgs& args) const override { make_problem(manifest_, args); }

  std::shared_ptr<const EmulationReport> launch(const AttentionArgs& args,
                                                const LaunchOptions& options) override {
    Problem problem = make_problem(manifest_, args);
    if (options.max_blocks < 0)
      throw Error(ErrorCode::bad_input, manifest_.name + ": max_blocks is negative; 0 says no limit");
    if (problem.empty()) return nullptr;  // no query rows: nothing to write
    problem.before = options.before;
    problem.max_blocks = options.max_blocks;
    const EmulatorOptions* emulator = options.emulator;
    const int num_sms = emulator != nullptr ? emulator->num_sms : device_->info().num_sms;
    settle_stages(manifest_, num_sms, options.residency, problem);
    problem.team_heads = choose_team(manifest_, problem, num_sms);
    ScratchAddresses scratch;
    if (needs_counter_) scratch.tile_counter = counters_.of(options.stream);
    if (needs_split_) split_.of(options.stream, problem.num_tiles + problem.team_heads, num_sms, scratch);
    PackedParams params;
    pack_params(manifest_, args, problem, *device_, scratch, params);
    LaunchGeometry geometry = make_geometry(manifest_, problem, num_sms);
    geometry.tables = tables_of(args);
    auto report = device_->launch(*function_, geometry, params.view(), options);
    if (report && !report->completed) {
      if (needs_counter_) counters_.clear(options.stream);
      if (needs_split_) split_.clear(options.stream);
    }
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
  SplitScratch split_;
  std::unique_ptr<DeviceFunction> function_;
  bool needs_counter_ = false, needs_split_ = false;
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
