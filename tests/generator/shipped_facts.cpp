// Static facts of every shipped prefill config of NVIDIA targets: layouts proven, no bank conflict on any
// path through shared memory, and exactly the matrix instructions of one tile in each body of the main loop.
// (Spills, register use and findings under every completion policy: the `shipped` test of CTest.)
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <kiln/generator.hpp>
#include "generator/schedules/schedule.hpp"

using namespace kiln;
namespace fs = std::filesystem;

namespace {

std::vector<Plan> shipped_prefill(const char* target) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs" / target))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  std::vector<Plan> plans;
  for (const auto& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    Plan plan = make_plan(parse_config(text.str(), file.filename().string()));
    if (plan.resolved().operation == Operation::prefill) plans.push_back(std::move(plan));
  }
  return plans;
}

int expected(const Manifest& manifest) {
  int sum = 0;
  for (const auto& e : manifest.expectations) sum += e.count;
  return sum;
}

}  // namespace

TEST_CASE("shipped prefill configs: layouts proven, no bank conflicts") {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const auto plans = shipped_prefill(target);
    CHECK(plans.size() >= 19);
    for (const Plan& plan : plans) {
      CAPTURE(*plan.resolved().name);
      const auto proofs = plan.schedule().layout_proofs();
      // K and V of wide rows on sm_80 have the same tile and the same copies.
      CHECK(proofs.size() >= (*plan.resolved().schedule == "sm80_wide_prefill" ? 4 : 6));
      for (const auto& proof : proofs) {
        CAPTURE(proof.what);
        CHECK(proof.holds);
        CHECK(proof.bank_conflicts == 0);
      }
    }
  }
}

TEST_CASE("shipped sm_90a prefill configs: matrix instructions of a tile") {
  for (const Plan& plan : shipped_prefill("sm_90a")) {
    const Config& c = plan.resolved();
    CAPTURE(*c.name);
    // QK takes depth / 16 steps, PV BN / 16, of FP8 half as many. Bodies: clean tiles; where a mask bounds
    // keys above, tiles with upper ends; below, tiles with lower ends. Beside them the first tile's QK and
    // the last one's PV. A window that the 64 rows of a warpgroup share less of than a tile leaves no tile
    // clean.
    const auto kind = c.mask->kind;
    const bool below = kind == MaskConfig::Kind::sliding_window || kind == MaskConfig::Kind::chunked;
    const bool clean = kind != MaskConfig::Kind::sliding_window || c.mask->size - 63 >= *c.BN;
    const int bodies =
        (clean ? 1 : 0) + (below || kind == MaskConfig::Kind::causal ? 1 : 0) + (below ? 1 : 0);
    const int step = c.dtype == DType::fp8_e4m3 ? 32 : 16;
    if (*c.schedule == "sm90_wide_prefill" && c.v_from_k.value_or(false)) {
      // Two warpgroups with tiles in turns, each with text of its own: QK of its first tile and in the loop, PV of
      // its own P and of the other's at five places.
      CHECK(expected(generate(plan).manifest) == 4 * c.depth / step + 10 * *c.BN / step + 5);
      continue;
    }
    if (*c.schedule == "sm90_wide_prefill") {  // one body, and waits for the launch before
      const int waits = c.operand->kind == OperandKind::contiguous ? 3 : 4;
      CHECK(expected(generate(plan).manifest) == c.depth / step + *c.BN / step + waits);
      continue;
    }
    CHECK(expected(generate(plan).manifest) == (bodies + 1) * (c.depth / step + *c.BN / step));
  }
}

TEST_CASE("shipped sm_80 prefill configs: matrix instructions of a tile") {
  for (const Plan& plan : shipped_prefill("sm_80")) {
    const Config& c = plan.resolved();
    CAPTURE(*c.name);
    // m16n8k16: BN / 8 columns by depth / 16 steps for QK, ov_depth / 8 by BN / 16 for PV; one body a stage.
    // Wide rows have one body, and a warp half of V's columns.
    const bool wide = *c.schedule == "sm80_wide_prefill";
    const int columns = *c.ov_depth / (wide ? 2 : 1), bodies = wide ? 1 : *c.num_kv_stages;
    const int tile = *c.BN / 8 * (c.depth / 16) + columns / 8 * (*c.BN / 16);
    CHECK(expected(generate(plan).manifest) == bodies * tile);
  }
}
