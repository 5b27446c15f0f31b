// Element-space swizzles ("domain": "element"): the number that is permuted is the element's, seen from the
// start of its block, on both sides.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "generator/schedules/schedule.hpp"
#include "generator/systems/cdna/lds_tile.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;
using cdna::LdsSwizzle;
using cdna::LdsTile;

namespace {

std::string element(const char* key, int bits, int base, int shift, const std::string& more = "") {
  return fmt::format(
      R"("{}": {{"bits": {}, "base": {}, "shift": {}, "domain": "element"}}, "mask": "causal", "lse": true{}{})",
      key, bits, base, shift, more.empty() ? "" : ", ", more);
}

LdsTile tile(int element_bytes, XorSwizzle swizzle) {
  return {32, 64, 32, element_bytes, LdsSwizzle(swizzle), 0};
}

}  // namespace

TEST_CASE("offsets are those of the documented functor on element numbers") {
  for (const int bytes : {1, 2}) {
    for (const int base : {2, 3, 4}) {
      const LdsTile t = tile(bytes, {2, base, 3, true});
      CHECK(t.unit() == std::min(16 / bytes, 1 << base));
      CHECK(t.layout().is_bijection());
      for (int row = 0; row < 32; ++row) {
        for (int col = 0; col < 64; ++col) {
          const auto e = static_cast<std::uint32_t>(row * 32 + col % 32);
          const std::uint32_t wanted =
              (e ^ ((e >> 3) & (3u << base))) + static_cast<std::uint32_t>(col / 32 * 1024);
          CHECK(t.byte(row, col) == wanted * static_cast<std::uint32_t>(bytes));
        }
      }
    }
  }
  // From base log2(simd) on it is a swizzle of vectors.
  const LdsTile elements = tile(2, {2, 3, 4, true}), vectors = tile(2, {2, 0, 4, false});
  for (int row = 0; row < 32; ++row) {
    for (int col = 0; col < 64; ++col) CHECK(elements.byte(row, col) == vectors.byte(row, col));
  }
}

TEST_CASE("prefill with fragments moved inside vectors, and with whole ones" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{20, 140}, {3, 1}};
  const std::string moved =
      config_text("gfx942", "bf16", 128, element("swizzle_k", 4, 2, 4, R"("schedule": "cdna_prefill")"));
  check_ladder(moved, cases, true);
  check_compiled(moved, true);
  check_ladder(
      config_text("gfx90a", "fp16", 64, element("swizzle", 3, 2, 4, R"("schedule": "cdna_prefill")")), cases,
      true);
  check_ladder(config_text("gfx942", "bf16", 80, element("swizzle_k", 2, 2, 4)), cases);
  check_ladder(config_text("gfx942", "bf16", 128,
                           element("swizzle_k", 3, 2, 4, R"("operand": {"kind": "paged", "page_size": 16})")),
               cases);
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 128, element("swizzle_k", 3, 3, 4)), cases);
  check_ladder(config_text("gfx950", "bf16", 128, element("swizzle", 2, 3, 4)), cases);
  check_ladder(config_text("gfx942", "bf16", 64, element("swizzle_k", 2, 3, 3, R"("dma": "reg_staged")")),
               cases);
}

TEST_CASE("decode in element space" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  const auto decode = [&](const char* target, int depth, const std::string& more, bool all = false) {
    const std::string config = config_text(target, "bf16", depth, more, "decode");
    check_ladder(config, cases, all);
  };
  decode("gfx942", 128, element("swizzle_k", 3, 2, 4), true);
  decode("gfx950", 64, element("swizzle_k", 2, 3, 2));
  decode("gfx90a", 192, element("swizzle", 3, 2, 4, R"("ov_depth": 128)"));
  decode("gfx942", 576, element("swizzle", 3, 2, 4, R"("ov_depth": 512, "v_from_k": true)"), true);
  decode("gfx942", 128, element("swizzle_k", 3, 2, 4, R"("v_load": "block", "schedule": "cdna_decode")"));
}

TEST_CASE("fragments of 8 bytes are read without conflicts where 16 rows of a phase have 16 places") {
  const auto conflicts = [](const std::string& more) {
    const Plan plan = make_plan(parse_config(config_text("gfx942", "bf16", 128, more), "test"));
    for (const layout::Proof& proof : plan.schedule().layout_proofs()) {
      if (proof.what == "K fragments: ds_read_b64") return proof.bank_conflicts;
    }
    return -1;
  };
  const std::string wide = R"("BK": 64)", narrow = R"("BK": 32)";  // rows of 128 and of 64 bytes
  CHECK(conflicts(element("swizzle_k", 4, 2, 4, wide)) == 0);
  CHECK(conflicts(element("swizzle_k", 3, 2, 4, wide)) == 4);  // two rows to a place, in each of four phases
  CHECK(conflicts(element("swizzle_k", 3, 2, 4, narrow)) == 0);
  CHECK(conflicts(element("swizzle_k", 1, 2, 4, narrow)) > 0);
  CHECK(conflicts(R"("swizzle_k": "none")") == -1);  // whole vectors
}

TEST_CASE("what a copy or a fragment cannot follow is refused") {
  const auto says = [](const std::string& text, const char* what) {
    const std::string got = refusal(text);
    CAPTURE(got);
    CHECK(got.find("V11") != std::string::npos);
    CHECK(got.find(what) != std::string::npos);
  };
  says(config_text("gfx942", "bf16", 128, element("swizzle_k", 3, 1, 4)), "log2(fragment) = 2");
  says(config_text("gfx950", "bf16", 128, element("swizzle_k", 3, 2, 4)), "log2(fragment) = 3");
  says(config_text("gfx942", "bf16", 128, element("swizzle_k", 3, 2, 4, R"("dma": "reg_staged")")),
       "a copy by way of registers moves whole 16-byte vectors");
  says(config_text("gfx942", "bf16", 128, element("swizzle_k", 3, 5, 4)), "S2");
  says(config_text("gfx942", "bf16", 128, element("swizzle_k", 3, 2, 2)), "shift");
}
