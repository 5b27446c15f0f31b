// Launches that were worked out before: the same results for every mixture of shapes, addresses and hints,
// and the same refusals.
#include <doctest/doctest.h>

#include <algorithm>

#include <kiln/generator.hpp>

#include "runtime/launch/kernel.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::uint16_t kOne = 0x3c00;  // 1 in FP16

struct Case {
  DeviceBuffer q, k, v, o;
  AttentionArgs args;
};

/// Keys of 0, so that O is the mean of V: `value` everywhere.
Case make_case(Runtime& runtime, std::int64_t sq, std::int64_t sk, std::uint16_t value,
               std::size_t shift = 0) {
  Case c;
  const auto make = [&](DeviceBuffer& buffer, Tensor& tensor, std::int64_t rows, std::uint16_t fill) {
    const auto count = static_cast<std::size_t>(rows * 64);
    buffer = runtime.allocate(count * 2 + 64);
    const std::vector<std::uint16_t> values(count + 32, fill);
    buffer.write(std::as_bytes(std::span(values)));
    tensor = Tensor::dense(buffer.address() + shift, DType::fp16, {1, rows, 1, 64});
  };
  make(c.q, c.args.q, sq, kOne);
  make(c.k, c.args.k, sk, 0);
  make(c.v, c.args.v, sk, value);
  make(c.o, c.args.o, sq, 0xffff);
  return c;
}

bool holds(const Case& c, std::uint16_t value) {
  const auto count = static_cast<std::size_t>(c.args.o.shape[1] * 64);
  std::vector<std::uint16_t> got(count);
  c.o.read(std::as_writable_bytes(std::span(got)), c.args.o.address - c.o.address());
  return std::all_of(got.begin(), got.end(), [&](std::uint16_t x) { return x == value; });
}

std::string launch_refusal(Kernel& kernel, const AttentionArgs& args, const LaunchOptions& options = {}) {
  try {
    kernel.launch(args, options);
  } catch (const Error& error) {
    return error.code() == ErrorCode::bad_input ? error.what() : "another code";
  }
  return "";
}

}  // namespace

TEST_CASE("launches of known shapes: new addresses, the same rules") {
  Runtime runtime({.device = "emulated", .cache_dir = "", .emulator = {}, .log_level = {}, .log = {}});
  for (const char* target : {"sm_80", "sm_90a"}) {  // pointers, tensor maps
    CAPTURE(target);
    const std::string config = std::string("{\"target\": \"") + target +
                               "\", \"operation\": \"prefill\", \"dtype\": \"fp16\", \"depth\": 64}";
    const auto kernel = runtime.load(generate(make_plan(parse_config(config, "config"))));
    const auto* prepared = dynamic_cast<const PreparingKernel*>(kernel.get());
    REQUIRE(prepared != nullptr);
    const std::uint64_t before = prepared->prepared();

    // Two shapes in turn, each time with other memory: more of it than tensor maps are remembered.
    for (int round = 0; round < 6; ++round) {
      const auto value = static_cast<std::uint16_t>(kOne + 0x100 * round);
      Case small = make_case(runtime, 20, 30, value), large = make_case(runtime, 150, 70, kOne);
      kernel->launch(small.args);
      kernel->launch(large.args);
      CHECK(holds(small, value));
      CHECK(holds(large, kOne));
    }
    CHECK(prepared->prepared() == before + 2);

    // What a rule asks of is part of what is known: alignment, strides, types, numbers.
    Case other = make_case(runtime, 20, 30, kOne, 8);
    CHECK(launch_refusal(*kernel, other.args).find("a multiple of 16 is needed") != std::string::npos);
    other = make_case(runtime, 20, 30, kOne, 16);
    CHECK(launch_refusal(*kernel, other.args) == "");
    CHECK(holds(other, kOne));
    other.args.k.dtype = DType::bf16;
    CHECK(launch_refusal(*kernel, other.args).find("k is bf16") != std::string::npos);
    other.args.k.dtype = DType::fp16;
    other.args.v.address = 0;
    CHECK(launch_refusal(*kernel, other.args).find("v has no memory") != std::string::npos);
    other = make_case(runtime, 20, 30, kOne);
    other.args.scale = -1.0;
    CHECK(launch_refusal(*kernel, other.args).find("scale must be") != std::string::npos);
    other.args.scale.reset();
    CHECK(launch_refusal(*kernel, other.args, {.max_blocks = -1}).find("max_blocks is negative") !=
          std::string::npos);
    other.args.k.strides[1] = 63;
    CHECK(launch_refusal(*kernel, other.args).find("stride 63") != std::string::npos);

    // More shapes than are remembered.
    for (std::int64_t rows = 1; rows <= 70; ++rows) {
      Case one = make_case(runtime, rows, 8, kOne);
      kernel->launch(one.args);
      CHECK(holds(one, kOne));
    }
    Case again = make_case(runtime, 20, 30, kOne);
    kernel->launch(again.args);
    CHECK(holds(again, kOne));
  }
}
