// The hip device against a stand-in whose calls fail one after the other (tests/runtime/fault_injection.hpp).
#include <doctest/doctest.h>

#include <array>

#include "tests/hip_device/fake.hpp"
#include "tests/runtime/fault_injection.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

/// All that a program does with a device. `done` when nothing but destructors is left.
void use_device(bool& done) {
  Runtime runtime(on_hip());
  const auto kernel = runtime.load(fake_binary(), report_manifest());
  DeviceBuffer out = runtime.allocate(2 * 130 * 4 * 64 * 2, "all tensors");
  DeviceBuffer small = runtime.allocate(64, "small");
  small.fill(std::byte{1});
  std::array<std::byte, 64> bytes{};
  small.write(bytes);
  small.read(bytes);
  kernel->launch(problem(out));
  kernel->time(problem(out), 1, 1);
  runtime.synchronize();
  done = true;
}

}  // namespace

TEST_CASE("every call of the HIP runtime fails in turn") {
  const Fake fake(KILN_FAKE_HIP);
  REQUIRE(fake.library != nullptr);
  const int n = fail_every_call(
      fake, use_device, [](int call, const std::string& what) { FAIL_CHECK("call ", call, ": ", what); });
  CHECK(n > 30);  // the scenario does reach the driver
}
