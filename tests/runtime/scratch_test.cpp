// Memory that launches of a stream share: when it is taken.
#include <doctest/doctest.h>

#include <set>

#include "runtime/launch/kernel.hpp"

using namespace kiln;

namespace {

/// A device that has nothing but memory, and counts it.
class Memory final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::string compile_target(const std::string& target) const override { return target; }
  bool runs_images(std::string_view) const override { return true; }
  std::uint64_t allocate(std::size_t bytes, const std::string&) override {
    const std::uint64_t address = 4096 * ++allocations;
    CHECK(bytes > 0);
    return *alive.insert(address).first;
  }
  void release(std::uint64_t address) noexcept override { alive.erase(address); }
  void write(std::uint64_t, std::span<const std::byte>) override {}
  void read(std::uint64_t, std::span<std::byte>) override {}
  void fill(std::uint64_t, std::byte, std::size_t) override {}
  void synchronize() override {}
  TensorMapBytes encode(const TensorMapRequest&) override { return {}; }
  std::unique_ptr<DeviceFunction> load(const Binary&, const Manifest&) override { return nullptr; }
  std::shared_ptr<const EmulationReport> launch(DeviceFunction&, const LaunchGeometry&, const ParamView&,
                                                const LaunchOptions&) override {
    return nullptr;
  }
  double time_us(std::uint64_t, const std::function<void()>&) override { return 0; }

  std::uint64_t allocations = 0;
  std::set<std::uint64_t> alive;

 private:
  DeviceInfo info_;
};

}  // namespace

TEST_CASE("the next new stream finds its memory ready: a graph may be captured on it") {
  Memory device;
  {
    Manifest manifest;
    manifest.workspace_bytes_per_block = 1024;
    SplitScratch scratch(device, manifest);
    ScratchAddresses first, captured, again, third;
    scratch.of(0, 1, 132, first);
    scratch.reserve(132);
    const std::uint64_t ready = device.allocations;
    scratch.of(7, 5000, 132, captured);
    scratch.of(7, 10000, 132, again);
    CHECK(device.allocations == ready);
    CHECK(captured.workspace != first.workspace);
    CHECK(captured.item_counters != first.item_counters);
    CHECK(again.workspace == captured.workspace);
    scratch.of(8, 1, 132, third);
    CHECK(device.allocations > ready);
    CHECK(third.workspace != captured.workspace);
    CHECK(third.workspace != first.workspace);
  }
  CHECK(device.alive.empty());
}
