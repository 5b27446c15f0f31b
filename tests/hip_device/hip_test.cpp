// The hip device against a stand-in for the HIP runtime: what is asked of the library, and what its refusals
// become.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>

#include "runtime/device/device.hpp"
#include "tests/hip_device/fake.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

int loaded_modules() {
  void* library = dlopen(KILN_FAKE_HIP, RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(library, "fakeHipLoaded"))();
}

}  // namespace

TEST_CASE("the hip device is described by its driver") {
  Runtime runtime(on_hip());
  const DeviceInfo& info = runtime.device();
  CHECK(info.selector == "hip:0");
  CHECK(info.name == "Fake Instinct 0");
  CHECK(info.target == "gfx942");
  CHECK(info.num_sms == 304);
  CHECK(info.memory_bytes == std::uint64_t{192} << 30);
  const DoctorReport report = runtime.doctor();
  CHECK(report.drivers.at(1).found);
  CHECK(report.drivers.at(1).version == "6.2");
  CHECK(report.devices.front().selector == "hip:0");
}

TEST_CASE("memory goes there and back") {
  Runtime runtime(on_hip());
  DeviceBuffer buffer = runtime.allocate(64);
  buffer.fill(std::byte{0x5a});
  const std::array<std::byte, 4> four{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  buffer.write(four, 8);
  std::array<std::byte, 64> all{};
  buffer.read(all);
  CHECK(all[7] == std::byte{0x5a});
  CHECK(all[8] == std::byte{1});
  CHECK(all[11] == std::byte{4});
  std::string message;
  CHECK(error_of([&] { runtime.allocate(std::size_t{1} << 41, "too much"); }, &message) == ErrorCode::device);
  CHECK(message.find("too much") != std::string::npos);
  CHECK(message.find("hipErrorFake (a fake error)") != std::string::npos);
}

TEST_CASE("a launch passes grid, block, LDS, stream and parameters by address") {
  Runtime runtime(on_hip());
  const auto kernel = runtime.load(fake_binary(), report_manifest());
  DeviceBuffer out = runtime.allocate(2 * 130 * 4 * 64 * 2);
  LaunchOptions options;
  options.stream = 77;
  CHECK(kernel->launch(problem(out), options) == nullptr);
  std::array<unsigned, 9> numbers{};
  out.read(std::as_writable_bytes(std::span(numbers)));
  CHECK(numbers == std::array<unsigned, 9>{3, 4, 2, 256, 1, 1, 49152, 77, 4});
  const Timing timing = kernel->time(problem(out), 1, 3);
  CHECK(timing.us == std::vector<double>{250, 250, 250});
}

TEST_CASE("kernels are unloaded when the device is waited for, never before") {
  Runtime runtime(on_hip());
  const int before = loaded_modules();
  { const auto kernel = runtime.load(fake_binary(), report_manifest()); }
  CHECK(loaded_modules() == before + 1);
  runtime.synchronize();
  CHECK(loaded_modules() == before);
}

TEST_CASE("what the device cannot do is said in one line") {
  std::string message;
  Runtime runtime(on_hip());
  CHECK(error_of([&] { runtime.load(fake_binary("gfx90a"), report_manifest()); }, &message) ==
        ErrorCode::environment);
  CHECK(message.find("cannot run a kernel for gfx90a") != std::string::npos);
  Manifest large = report_manifest();
  large.smem_bytes = 70000;
  CHECK(error_of([&] { runtime.load(fake_binary(), large); }, &message) == ErrorCode::environment);
  CHECK(message.find("70000 bytes of LDS") != std::string::npos);
  RuntimeOptions options = quiet();
  options.device = "hip:3";
  Runtime other(options);
  CHECK(error_of([&] { other.device(); }, &message) == ErrorCode::environment);
  CHECK(message.find("there is no device hip:3; the driver shows 1") != std::string::npos);
  {
    const ScopedEnv fail("FAKE_HIP_FAIL", "hipModuleLoadData");
    CHECK(error_of([&] { runtime.load(fake_binary(), report_manifest()); }, &message) == ErrorCode::device);
    CHECK(message.find("loading report (gfx942): hipErrorFake") != std::string::npos);
  }
  const ScopedEnv none("FAKE_HIP_DEVICES", "0");
  CHECK(list_hip_devices().empty());
}
