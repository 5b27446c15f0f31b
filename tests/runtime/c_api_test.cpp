// The C interface: a whole launch with host tensors, and every misuse answered with a status and a text.
#include <doctest/doctest.h>

#include <kiln/kiln.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

const char* const kConfig =
    R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "lse": true})";

std::uint16_t bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>(bits >> 16);
}

/// A dense host tensor and its DLPack view.
template <class T>
struct Host {
  std::vector<T> values;
  std::vector<std::int64_t> shape;
  DLTensor view{};
  Host(std::vector<std::int64_t> extents, T fill, DLDataType type) : shape(std::move(extents)) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    values.assign(count, fill);
    view = {values.data(), {kDLCPU, 0}, static_cast<int>(shape.size()), type, shape.data(), nullptr, 0};
  }
  Host(const Host&) = delete;
};
constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kF32{kDLFloat, 32, 1};

kiln_runtime* make_runtime() {
  kiln_runtime_options options{sizeof options, "emulated", ""};
  kiln_runtime* runtime = nullptr;
  REQUIRE(kiln_runtime_create(&options, &runtime) == KILN_OK);
  return runtime;
}

}  // namespace

TEST_CASE("C: generate, load, launch with host tensors") {
  char *source = nullptr, *manifest = nullptr;
  REQUIRE(kiln_generate(kConfig, &source, &manifest) == KILN_OK);
  CHECK(std::strstr(source, "__global__") != nullptr);
  CHECK(manifest[0] == '{');
  kiln_free(source);
  kiln_free(manifest);

  kiln_runtime* runtime = make_runtime();
  kiln_kernel* kernel = nullptr;
  const kiln_status loaded = kiln_kernel_load(runtime, kConfig, &kernel);
  INFO(kiln_last_error());
  REQUIRE(loaded == KILN_OK);
  kiln_kernel_info info{};
  info.size = sizeof info;
  REQUIRE(kiln_kernel_get_info(kernel, &info) == KILN_OK);
  CHECK(info.registers > 0);
  CHECK(info.spill_bytes == 0);
  CHECK(std::string(info.cache) == "miss");

  // Q = 0 makes all keys equal: O is the mean of V (0..7), and the log-sum-exp is log 8.
  Host<std::uint16_t> q({1, 5, 2, 64}, 0, kBf16), k({1, 8, 1, 64}, bf16(1), kBf16),
      v({1, 8, 1, 64}, 0, kBf16), o({1, 5, 2, 64}, 0xffff, kBf16);
  Host<float> lse({1, 2, 5}, -1, kF32);
  for (std::size_t i = 0; i < v.values.size(); ++i) v.values[i] = bf16(static_cast<float>(i / 64));
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &q.view;
  args.k = &k.view;
  args.v = &v.view;
  args.o = &o.view;
  args.lse = &lse.view;
  const kiln_status launched = kiln_kernel_launch(kernel, &args, 0);
  INFO(kiln_last_error());
  REQUIRE(launched == KILN_OK);
  for (const std::uint16_t value : o.values) CHECK(value == bf16(3.5f));
  for (const float value : lse.values) CHECK(value == doctest::Approx(2.0794415));

  const auto refused = [&](const char* words) {
    CHECK(kiln_kernel_launch(kernel, &args, 0) == KILN_BAD_INPUT);
    CHECK(std::string(kiln_last_error()).find(words) != std::string::npos);
  };
  args.k = nullptr;
  refused("k is NULL");
  args.k = &k.view;
  args.lse = nullptr;
  refused("lse");
  args.lse = &lse.view;
  k.view.dtype.bits = 64;
  refused("k: bfloat64; bfloat16 is needed");
  k.view.dtype.bits = 16;
  k.view.device.device_type = kDLCUDA;
  refused("k is in device memory, q in host memory");
  k.view.device.device_type = kDLCPU;
  k.view.ndim = 99;
  refused("dimensions");
  k.view.ndim = 3;
  refused("k has shape");
  k.view.ndim = 4;
  std::int64_t negative[4] = {512, -64, 64, 1};
  k.view.strides = negative;
  refused("span no sensible memory");
  k.view.strides = nullptr;
  args.launch_before = 3;
  refused("launch_before is not 0, 1 or 2");
  args.launch_before = 2;
  args.max_blocks = -1;
  refused("max_blocks is negative");
  args.max_blocks = 1;
  CHECK(kiln_kernel_launch(kernel, &args, 0) == KILN_OK);
  args.size = 8;
  refused("args.size");
  kiln_kernel_destroy(kernel);
  kiln_runtime_destroy(runtime);
}

TEST_CASE("C: rows of bytes are what the kernel takes them for: FP8 with a tail of rotary columns") {
  kiln_runtime* runtime = make_runtime();
  kiln_kernel* kernel = nullptr;
  const kiln_status loaded = kiln_kernel_load(
      runtime,
      R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "kv_dtype": "fp8_e4m3", "depth": 192,
          "ov_depth": 128, "v_from_k": true, "rope_depth": 64, "rope": {"layout": "tail"}})",
      &kernel);
  INFO(kiln_last_error());
  REQUIRE(loaded == KILN_OK);
  // Q has nothing but rotary columns of 1, K's rotary columns are 3 in one of 8 rows: its V, 2, is all of O.
  Host<std::uint16_t> q({1, 1, 2, 192}, 0, kBf16), o({1, 1, 2, 128}, 0xffff, kBf16);
  for (std::size_t i = 0; i < q.values.size(); ++i) q.values[i] = i % 192 < 128 ? 0 : bf16(1);
  Host<std::uint8_t> k({1, 8, 1, 256}, 0x38, {kDLUInt, 8, 1});
  for (std::size_t row = 0; row < 8; ++row) {
    for (std::size_t i = 0; i < 128; ++i) {
      if (row == 5) k.values[row * 256 + i] = 0x40;
      const std::uint16_t rope = bf16(row == 5 ? 3.0f : 0.0f);
      k.values[row * 256 + 128 + i] = static_cast<std::uint8_t>(i % 2 == 0 ? rope & 0xff : rope >> 8);
    }
  }
  const double scale = 1;
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &q.view;
  args.k = &k.view;
  args.o = &o.view;
  args.scale = &scale;
  const kiln_status launched = kiln_kernel_launch(kernel, &args, 0);
  INFO(kiln_last_error());
  REQUIRE(launched == KILN_OK);
  for (const std::uint16_t value : o.values) CHECK(value == bf16(2));
  k.view.shape[3] = 192;
  CHECK(kiln_kernel_launch(kernel, &args, 0) == KILN_BAD_INPUT);
  CHECK(std::string(kiln_last_error()).find("k has depth 192, the kernel takes 256") != std::string::npos);
  kiln_kernel_destroy(kernel);
  kiln_runtime_destroy(runtime);
}

TEST_CASE("C: rotary columns in a tensor of their own, which older callers do not know") {
  kiln_runtime* runtime = make_runtime();
  kiln_kernel* kernel = nullptr;
  const kiln_status loaded = kiln_kernel_load(
      runtime,
      R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 192, "ov_depth": 128,
          "v_from_k": true, "rope_depth": 64, "rope": {"layout": "separate"}})",
      &kernel);
  INFO(kiln_last_error());
  REQUIRE(loaded == KILN_OK);
  // Q has nothing but rotary columns of 1, K's are 3 in one of 8 rows: its V, 2, is all of O.
  Host<std::uint16_t> q({1, 1, 2, 192}, 0, kBf16), o({1, 1, 2, 128}, 0xffff, kBf16),
      k({1, 8, 1, 128}, bf16(1), kBf16), k_rope({1, 8, 1, 64}, 0, kBf16);
  for (std::size_t i = 0; i < q.values.size(); ++i) q.values[i] = i % 192 < 128 ? 0 : bf16(1);
  for (std::size_t i = 0; i < 128; ++i) k.values[5 * 128 + i] = bf16(2);
  for (std::size_t i = 0; i < 64; ++i) k_rope.values[5 * 64 + i] = bf16(3);
  const double scale = 1;
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &q.view;
  args.k = &k.view;
  args.o = &o.view;
  args.k_rope = &k_rope.view;
  args.scale = &scale;
  const kiln_status launched = kiln_kernel_launch(kernel, &args, 0);
  INFO(kiln_last_error());
  REQUIRE(launched == KILN_OK);
  for (const std::uint16_t value : o.values) CHECK(value == bf16(2));
  const auto refused = [&](const char* what) {
    CHECK(kiln_kernel_launch(kernel, &args, 0) == KILN_BAD_INPUT);
    CHECK_MESSAGE(std::string(kiln_last_error()).find(what) != std::string::npos, kiln_last_error());
  };
  args.size = offsetof(kiln_attention_args, k_rope);
  refused("the kernel needs k_rope");
  args.size -= 1;
  refused("args.size");
  args.size = sizeof args;
  args.k_rope = nullptr;
  refused("the kernel needs k_rope");
  kiln_kernel_destroy(kernel);
  kiln_runtime_destroy(runtime);
}

TEST_CASE("C: misuse is a status and a text, per thread") {
  CHECK(kiln_runtime_create(nullptr, nullptr) == KILN_BAD_INPUT);
  kiln_runtime_options options{sizeof options, "abacus", nullptr};
  kiln_runtime* runtime = nullptr;
  CHECK(kiln_runtime_create(&options, &runtime) == KILN_BAD_INPUT);
  CHECK(std::string(kiln_last_error()).find("abacus") != std::string::npos);
  std::thread([] { CHECK(std::string(kiln_last_error()).empty()); }).join();
  CHECK(kiln_generate(nullptr, nullptr, nullptr) == KILN_BAD_INPUT);
  CHECK(kiln_generate("{\"depth\": 0}", nullptr, nullptr) == KILN_BAD_CONFIG);
  CHECK(std::string(kiln_last_error()).find("/target") != std::string::npos);
  kiln_kernel* kernel = nullptr;
  CHECK(kiln_kernel_load(nullptr, kConfig, &kernel) == KILN_BAD_INPUT);
  CHECK(kiln_kernel_launch(nullptr, nullptr, 0) == KILN_BAD_INPUT);
  CHECK(kiln_kernel_get_info(nullptr, nullptr) == KILN_BAD_INPUT);
  kiln_kernel_destroy(nullptr);
  kiln_runtime_destroy(nullptr);
  kiln_free(nullptr);
  CHECK(std::string(kiln_version()).find('.') != std::string::npos);
}
