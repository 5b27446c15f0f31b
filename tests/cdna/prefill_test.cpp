// cdna_prefill on the emulated device: right under every completion policy, without findings, and compiled to
// what the plan says: exactly its matrix instructions, no scratch, registers within its occupancy.
#include <doctest/doctest.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

constexpr const char* kRagged = R"("operand": {"kind": "ragged"}, "mask": "causal", "lse": true)";

}  // namespace

TEST_CASE("prefill agrees with the reference at lengths around its tiles" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const std::string config = config_text(target, "bf16", 128, kCausalLse);
    check_kernel(config, {{1, 1}});
    check_kernel(config, {{33, 63}});
    check_kernel(config, {{65, 64}}, false);
    check_kernel(config, {{7, 65}, {7, 65}}, false);
    check_kernel(config, {{290, 290}}, false, 1, 1);
  }
}

TEST_CASE("depths, types and masks" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    check_kernel(config_text(target, "fp16", 64), {{40, 130}});
    check_kernel(config_text(target, "bf16", 64, R"("out_dtype": "fp16")"), {{5, 70}}, false);
    check_kernel(config_text(target, "fp16", 128, kCausalLse), {{20, 100}}, false);
    check_kernel(config_text(target, "bf16", 192, kCausalLse), {{40, 70}}, false);
    check_kernel(config_text(target, "bf16", 256, kCausalLse), {{40, 70}}, false);
  }
}

TEST_CASE("ragged operands, empty sequences among them") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    check_kernel(config_text(target, "bf16", 128, kRagged), {{40, 40}, {0, 5}, {7, 0}, {1, 129}, {3, 2}});
    check_kernel(config_text(target, "fp16", 64, kRagged), {{70, 200}, {1, 1}}, false);
  }
}

TEST_CASE("other tiles and instructions" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const bool old = target != "gfx950";
    const std::string small = old ? R"("mma_shape": [16, 16, 16])" : R"("mma_shape": [16, 16, 32])";
    check_kernel(config_text(target, "bf16", 64, small), {{20, 70}}, false);
    check_kernel(config_text(target, "bf16", 128, small + R"(, "BM": 64, "BN": 32)"), {{20, 70}}, false);
    check_kernel(config_text(target, "bf16", 128, R"("BM": 64, "BN": 32, "lse": true)"), {{20, 100}}, false);
    check_kernel(config_text(target, "bf16", 128, R"("double_buffer": false, "double_buffer_k_only": false)"),
                 {{20, 130}});
    check_kernel(config_text(target, "bf16", 128, R"("double_buffer": false, "double_buffer_k_only": true)"),
                 {{20, 130}}, false);
    check_kernel(config_text(target, "bf16", 128, R"("reg_chunk_depth": 64, "reg_chunk_keys": 64)"),
                 {{20, 70}}, false);
    check_kernel(config_text(target, "bf16", 128, R"("wait_policy": "drain", "swizzle": "none")"), {{20, 70}},
                 false);
    // 6 waves share 4 copy tiles unevenly: waits drain.
    check_kernel(config_text(target, "bf16", 64, R"("BM": 192, "BN": 64, "BK": 32)"), {{20, 130}}, false);
  }
}

TEST_CASE("compiled kernels are what the plan says") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    for (const int depth : {64, 128, 192, 256}) {
      // Rows of 64 bytes are all that fits gfx90a and gfx942 beside 192 or 256 columns: V then reads two
      // blocks.
      check_compiled(config_text(target, "bf16", depth, kCausalLse), depth <= 128 || target == "gfx950");
      const Built& kernel = build(config_text(target, "bf16", depth, kCausalLse));
      CHECK(kernel.module.kernel(kernel.source.manifest.entry).sgpr_spills == 0);
      if (depth != 192) check_compiled(config_text(target, "bf16", depth, kCausalLse, "decode"), true);
    }
    check_compiled(
        config_text(target, "fp16", 128, R"("operand": {"kind": "paged", "page_size": 16})", "decode"), true);
  }
}

TEST_CASE("a plan that no copy or load can serve is refused by name") {
  const std::string paged = R"("operand": {"kind": "paged", "page_size": 1}, "dma": "lds_direct")";
  CHECK(refusal(config_text("gfx942", "bf16", 128, paged)).find("/operand/page_size = 1: not-yet") !=
        std::string::npos);
  // Tiles that compilers spill on are refused by the plan's own count of registers.
  const std::string keys_128 = R"("mask": "causal", "BN": 128)", keys_64 = R"("BN": 64)";
  CHECK(refusal(config_text("gfx950", "bf16", 128, keys_128))
            .find("/BN = 128: V32: Q, O, S, P and fragments") != std::string::npos);
  CHECK(
      refusal(config_text("gfx950", "bf16", 256, keys_64)).find("/BN = 64: V32: Q, O, S, P and fragments") !=
      std::string::npos);
  CHECK(refusal(config_text("gfx950", "bf16", 256, keys_64 + R"(, "mask": "causal")")).empty());
  CHECK(refusal(config_text("gfx90a", "bf16", 96)).empty());
  CHECK(refusal(config_text("gfx90a", "bf16", 100))
            .find("/depth = 100: not-yet: cdna_prefill takes rows of whole 16 bytes") != std::string::npos);
  CHECK(refusal(config_text("gfx942", "bf16", 128, R"("num_smem_stages": 1)")).find("/num_smem_stages = 1") !=
        std::string::npos);
  CHECK(refusal(config_text("gfx942", "bf16", 128, R"("BM": 48)", "decode")).find("/BM = 48") !=
        std::string::npos);
  CHECK(
      refusal(config_text("gfx90a", "bf16", 128, R"("operand": {"kind": "paged", "page_size": 2})")).empty());
}
