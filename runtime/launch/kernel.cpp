#include "runtime/launch/kernel.hpp"

#include <algorithm>

#include "runtime/launch/geometry.hpp"
#include "runtime/launch/prepared.hpp"

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

void SplitScratch::grow(Slot& slot, std::int64_t items, int num_sms) {
  constexpr std::int64_t kFirstItems = 1 << 14;
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
}

void SplitScratch::reserve(int num_sms) {
  std::lock_guard lock(mutex_);
  grow(spare_, 1, num_sms);
}

void SplitScratch::of(std::uint64_t stream, std::int64_t items, int num_sms, ScratchAddresses& out) {
  std::lock_guard lock(mutex_);
  const auto [found, is_new] = by_stream_.try_emplace(stream);
  if (is_new) std::swap(found->second, spare_);
  grow(found->second, items, num_sms);
  out.workspace = found->second.workspace;
  out.item_counters = found->second.counters;
}

void SplitScratch::clear(std::uint64_t stream) {
  std::lock_guard lock(mutex_);
  const Slot& slot = by_stream_[stream];
  if (slot.items > 0)
    device_.fill(slot.counters, std::byte{0}, static_cast<std::size_t>(slot.items) * sizeof(std::int32_t));
}

namespace {

class LoadedKernel final : public PreparingKernel {
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
    if (needs_split_) {
      split_.of(0, 1, device_->info().num_sms, ignored);
      split_.reserve(device_->info().num_sms);
    }
  }

  const Manifest& manifest() const override { return manifest_; }
  const Binary& binary() const override { return *binary_; }
  Device& device() const override { return *device_; }
  void check(const AttentionArgs& args) const override { make_problem(manifest_, args); }

  std::shared_ptr<const EmulationReport> launch(const AttentionArgs& args,
                                                const LaunchOptions& options) override {
    FlatLaunch flat = flatten(args);
    flat.add_numbers(args.max_seqlen_q, args.max_seqlen_k, args.scale ? &*args.scale : nullptr, args.window);
    return run(
        flat, [&] { return prepare(args, options); }, options);
  }

  std::shared_ptr<const EmulationReport> launch(FlatLaunch& flat, const std::function<AttentionArgs()>& args,
                                                const LaunchOptions& options) override {
    return run(
        flat, [&] { return prepare(args(), options); }, options);
  }

  std::uint64_t prepared() const override {
    std::lock_guard lock(prepared_mutex_);
    return prepared_.added();
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
  int num_sms(const LaunchOptions& options) const {
    return options.emulator != nullptr ? options.emulator->num_sms : device_->info().num_sms;
  }
  std::shared_ptr<PreparedLaunch> prepare(const AttentionArgs& args, const LaunchOptions& options) const {
    return std::make_shared<PreparedLaunch>(manifest_, args, options, num_sms(options));
  }

  template <class Prepare>
  std::shared_ptr<const EmulationReport> run(FlatLaunch& flat, const Prepare& prepare_new,
                                             const LaunchOptions& options) {
    flat.key.add(std::int64_t{options.max_blocks});
    flat.key.add(static_cast<std::int64_t>(options.before) << 8 |
                 static_cast<std::int64_t>(options.residency));
    flat.key.add(std::int64_t{num_sms(options)});
    LaunchParams buffer;
    ParamView params;
    std::shared_ptr<PreparedLaunch> launch;
    {
      std::lock_guard lock(prepared_mutex_);
      if (flat.known) launch = prepared_.find(flat.key);
      if (!launch) {
        launch = prepare_new();
        if (flat.known) prepared_.add(flat.key, launch);
      }
      if (launch->empty) return nullptr;  // no query rows: nothing to write
      ScratchAddresses scratch;
      if (needs_counter_) scratch.tile_counter = counters_.of(options.stream);
      if (needs_split_) split_.of(options.stream, launch->items, num_sms(options), scratch);
      params = launch->params.fill(flat.addresses, scratch, *device_, buffer);
    }
    auto report = device_->launch(*function_, launch->geometry_at(flat.addresses), params, options);
    if (report && !report->completed) {
      if (needs_counter_) counters_.clear(options.stream);
      if (needs_split_) split_.clear(options.stream);
    }
    return report;
  }

  // Order matters: function and counters go before the device.
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Binary> binary_;
  Manifest manifest_;
  TileCounters counters_;
  SplitScratch split_;
  std::unique_ptr<DeviceFunction> function_;
  bool needs_counter_ = false, needs_split_ = false;
  mutable std::mutex prepared_mutex_;
  PreparedLaunches prepared_;
};

}  // namespace

std::shared_ptr<PreparingKernel> load_kernel(std::shared_ptr<Device> device,
                                             std::shared_ptr<const Binary> binary, const Manifest& manifest) {
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
