// The cuda device and NVRTC against a stand-in whose calls fail one after the other: every failure is an
// error, nothing is lost, and the next attempt in the same process works.
#include <doctest/doctest.h>

#include <array>

#include <kiln/generator.hpp>

#include "tests/runtime/fault_injection.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

// Before the first use of either library, which is opened once for the process.
const ScopedEnv kNvrtc("KILN_NVRTC", KILN_FAKE_CUDA);

KernelSource source_of(const char* config) {
  return generate(make_plan(parse_config(config, "test")));
}

/// All that a program does with a device. `done` when nothing but destructors is left.
void use_device(bool& done) {
  RuntimeOptions options = quiet();
  options.device = "cuda";
  Runtime runtime(options);
  // One kernel with tensor maps, a tile counter and a carve-out, one with a workspace for splits.
  const auto prefill = runtime.load(
      source_of(R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128})"));
  const auto decode = runtime.load(
      source_of(R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 128})"));
  const DeviceBuffer buffer = runtime.allocate(2 * 256 * 4 * 128 * 2, "all tensors");
  DeviceBuffer small = runtime.allocate(64, "small");
  small.fill(std::byte{1});
  std::array<std::byte, 64> bytes{};
  small.write(bytes);
  small.read(bytes);
  AttentionArgs args;
  args.q = args.k = args.v = args.o = Tensor::dense(buffer.address(), DType::bf16, {2, 256, 4, 128});
  prefill->launch(args);
  prefill->time(args, 1, 1);
  args.q = args.o = Tensor::dense(buffer.address(), DType::bf16, {2, 1, 4, 128});
  decode->launch(args);
  runtime.synchronize();
  done = true;
}

}  // namespace

TEST_CASE("every call of the driver and of NVRTC fails in turn") {
  const Fake fake(KILN_FAKE_CUDA);
  REQUIRE(fake.library != nullptr);
  const int n = fail_every_call(
      fake, use_device, [](int call, const std::string& what) { FAIL_CHECK("call ", call, ": ", what); });
  CHECK(n > 100);  // the scenario does reach the driver
}

TEST_CASE("a process forked after the driver was started is told so") {
  const std::string said = in_child([&]() -> std::string {
    RuntimeOptions options = quiet();
    options.device = "cuda";
    Runtime runtime(options);
    const DeviceBuffer buffer = runtime.allocate(64, "of the parent");
    const std::string child = in_child([&]() -> std::string {
      std::string message;
      if (error_of([&] { runtime.allocate(64, "of the child"); }, &message) != ErrorCode::device)
        return "no error";
      return message.find("fork") == std::string::npos ? message : "";
    });
    runtime.synchronize();
    return child;
  });
  CHECK(said == "");
}
