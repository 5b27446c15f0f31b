// V's block form (v_load "block"): single elements from LDS, whose keys lie side by side in a lane.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "generator/layout/mfma.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/cdna/kv_mma_op.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

constexpr const char* kBlock = R"("v_load": "block", "mask": "causal", "lse": true)";

std::string decode_block(const char* target, const char* dtype, int depth, const std::string& more = "") {
  return config_text(target, dtype, depth, kBlock + (more.empty() ? "" : ", " + more), "decode");
}

}  // namespace

TEST_CASE("a lane of the block form holds the keys frag * (l / N) + e of column l % N") {
  for (const auto& [target, k] : {std::pair{Target::gfx942, 16}, std::pair{Target::gfx950, 32}}) {
    const cdna::Mfma mfma{target, DType::bf16, {16, 16, k}};
    cdna::KVMmaOp::Shape shape{mfma, 4, 32 / k, 1, 32, false, true, true, 1, 0};
    const cdna::KVMmaOp op(shape, {32, 64, 64, 2, cdna::LdsSwizzle(2, 1, 4), 0});
    const layout::FragmentMap form = layout::v_fragment(layout::VForm::block16, k);
    for (int lane = 0; lane < 64; ++lane) {
      for (int e = 0; e < mfma.frag(); ++e) {
        CHECK(op.slot_key(lane, e) == mfma.frag() * (lane / 16) + e);
        CHECK(op.slot_key(lane, e) == form(lane, e).row);
        CHECK(form(lane, e).col == lane % 16);
      }
    }
    // Columns stand in natural order, also where other forms turn pairs or fours of them.
    const auto groups = cdna::KVMmaOp::column_groups(mfma, 64, true);
    CHECK(groups.size() == 4);
    for (std::size_t i = 0; i < groups.size(); ++i) CHECK(groups[i].first == static_cast<int>(16 * i));
    for (const layout::Proof& proof : op.proofs(target)) CHECK(proof.holds);
  }
}

TEST_CASE("decode with V element by element" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  check_ladder(decode_block("gfx942", "bf16", 128), cases, true);
  check_ladder(decode_block("gfx950", "bf16", 128), cases, true);
  check_ladder(decode_block("gfx90a", "fp16", 64, R"("v_layout": "blocked", "operand": {"kind": "ragged"})"),
               cases);
  check_ladder(decode_block("gfx950", "fp16", 256, R"("operand": {"kind": "paged", "page_size": 16})"),
               cases);
  check_ladder(decode_block("gfx942", "bf16", 64, R"("operand": {"kind": "paged", "page_size": 1})"), cases);
  check_ladder(decode_block("gfx950", "bf16", 128, R"("kv_dtype": "fp8_e4m3")"), cases);
  // whole tiles, two splits; V in K's swizzled rows
  for (const char* target : {"gfx90a", "gfx950"})
    check_ladder(decode_block(target, "bf16", 192, R"("ov_depth": 128, "split_kv": 2)"), cases, true);
  for (const char* target : {"gfx942", "gfx950"})
    check_ladder(decode_block(target, "bf16", 576, R"("ov_depth": 512, "v_from_k": true)"), {{2, 100}});
}

TEST_CASE("the block form reads V, and nothing but V, by single elements") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const char* more : {"", R"("schedule": "cdna_decode")"}) {
      const Built& kernel = build(decode_block(target, "bf16", 128, more));
      const Manifest& m = kernel.source.manifest;
      CAPTURE(m.name);
      REQUIRE(m.expectations.size() == 2);
      for (const auto& expected : m.expectations)
        CHECK(kernel.module.count(m.entry, expected.instruction) == static_cast<std::size_t>(expected.count));
      CHECK(kernel.module.kernel(m.entry).scratch_bytes == 0);
      for (const layout::Proof& proof : kernel.plan.schedule().layout_proofs()) {
        CHECK_MESSAGE(proof.holds, proof.what);
        if (proof.what.starts_with("V fragments")) CHECK_MESSAGE(proof.bank_conflicts == 0, proof.what);
      }
    }
  }
}

TEST_CASE("where the block form does not fit, one line says so") {
  CHECK(refusal(config_text("gfx942", "bf16", 128, kBlock)).find("P stays in registers") !=
        std::string::npos);
  CHECK(refusal(decode_block("gfx942", "fp8_e4m3fnuz", 128)).find("V13") != std::string::npos);
  CHECK(refusal(decode_block("gfx950", "fp8_e4m3", 128)).find("V13") != std::string::npos);
  CHECK(refusal(config_text("gfx950", "bf16", 128, R"("v_load": "perm4x4")", "decode")).find("V13") !=
        std::string::npos);
  CHECK(refusal(config_text("gfx950", "bf16", 128, R"("v_load": "tr16")", "decode")).empty());
}
