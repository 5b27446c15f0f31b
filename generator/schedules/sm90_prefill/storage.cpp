// sm90_prefill: shared memory and stages that follow from the tiles.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_prefill/planning.hpp"

namespace kiln::sm90 {
namespace {

/// Panels of a copy, and whether K and V share a ring.
bool choose_rings(PrefillPlan& p, Config& c, const Refusals& refuse) {
  const bool inner = c.tma_fold == "chunk_inner";
  if (inner) p.operand->set_chunk_inner();
  if (p.cluster == 1 && !p.narrow) {
    p.k_fold = p.operand->fold(c, p.element_bytes, p.span_bytes, *c.BK, p.depth);
    // V of FP8 is transposed by threads, which read it panel by panel.
    if (!inner || !p.fp8)
      p.v_fold = p.operand->fold(c, p.element_bytes, p.span_bytes, p.ov_depth, p.ov_depth);
  }
  resolve_fold(c, p.k_fold, p.v_fold,
               p.narrow ? "threads widen the 8-bit rows, and read them panel by panel" : nullptr, refuse);

  p.shared_ring = c.shared_ring.value_or(false);
  if (p.shared_ring && (p.converts() || p.cluster > 1 || p.num_qk_stages > 1)) {
    refuse("sm90_prefill", {"/shared_ring", "/kv_dtype", "/cluster", "/num_qk_stages"},
           "K and V share a ring where both come by copies of one block, each at once", "false");
    return false;
  }
  c.shared_ring = p.shared_ring;
  return true;
}

/// Stages unless asked: as many as fit.
bool choose_stages(PrefillPlan& p, Config& c, int q, int o, int per_stage, const Refusals& refuse) {
  const int fewest = p.shared_ring ? 3 : 2;  // slots: K(n), V(n + 1) and what comes
  if (!c.num_kv_stages) {
    const int raw = p.fp8 ? 2 * p.raw_slot_bytes() : 0;  // at least
    const int room = most_smem() - spare_smem(c) - raw;
    const int with_o = (room - q - o) / per_stage, without = (room - std::max(q, o)) / per_stage;
    c.num_kv_stages =
        p.narrow ? 2 : std::clamp(with_o >= fewest ? with_o : without, fewest, p.shared_ring ? 8 : 4);
  }
  p.num_kv_stages = *c.num_kv_stages;
  if (p.num_kv_stages < fewest || p.num_kv_stages > 8) {
    refuse("V25", {"/num_kv_stages"}, fmt::format("num_kv_stages is {} to 8 here", fewest),
           std::to_string(p.num_kv_stages < fewest ? fewest : 8));
    return false;
  }
  return true;
}

/// `columns`: of a stage.
void set_rings(PrefillPlan& p, int columns) {
  TMAConsumerPipeline::Shape k{true,
                               p.BN,
                               p.padded_depth,
                               p.num_kv_stages,
                               p.num_qk_stages,
                               p.span_bytes,
                               p.element_bytes,
                               p.math_warps(),
                               p.cluster};
  const int v_columns = p.fp8 ? p.ov_depth : p.padded_ov;  // rows of V' where it is transposed
  TMAConsumerPipeline::Shape v{false,           p.BN,           v_columns, p.num_kv_stages, 1, p.v_span,
                               p.element_bytes, p.math_warps(), p.cluster};
  v.transposed = p.fp8;
  k.fold = p.operand->inner(p.k_fold), v.fold = p.operand->inner(p.v_fold);
  k.shared_ring = v.shared_ring = p.shared_ring;
  if (p.shared_ring) k.slot_bytes = v.slot_bytes = p.BN * columns * p.element_bytes;
  p.k.emplace(k);
  p.v.emplace(v);
}

/// Bytes of Q, of O, of a stage of K and V, and the columns of that.
struct Sizes {
  int q, o, per_stage, columns;
};

Sizes sizes_of(const PrefillPlan& p) {
  const int of_v = p.fp8 ? p.ov_depth : p.padded_ov;
  const int columns = p.shared_ring ? std::max(p.padded_depth, of_v) : p.padded_depth + of_v;
  return {p.q_bytes() * p.num_math_warpgroups, p.o_bytes() * p.num_math_warpgroups,
          p.BN * columns * p.element_bytes + (p.fp8_tokens() ? 2 * p.scale_bytes() : 0), columns};
}

/// Tiles of bytes: those on their way and the one that is widened. More than four need not be.
void choose_raw_stages(PrefillPlan& p, const Config& c, const Sizes& size) {
  int tiles = p.num_kv_stages * (size.per_stage + (p.narrow ? p.k_scale_bytes() + p.scale_bytes() : 0));
  if (p.converts()) {
    const int tile = p.raw_slot_bytes() + (p.narrow ? p.raw_scale_bytes() : 0),
              room = most_smem() - spare_smem(c) - tiles;
    const int with_o = (room - size.q - size.o) / tile;
    const int enough = p.fp8 ? 2 : 4;
    p.num_raw_stages = std::clamp(with_o >= enough ? with_o : (room - std::max(size.q, size.o)) / tile, 2, 4);
    tiles += p.num_raw_stages * tile;
  }
  p.separate_o = p.o_floats || size.q + size.o + tiles + spare_smem(c) <= most_smem();
}

bool check_pages(const PrefillPlan& p, const Refusals& refuse) {
  const int row_bytes = p.span_bytes;
  if ((p.narrow && p.rope == 0) || p.operand->num_pages() <= 1 ||
      p.operand->eff_page() * row_bytes % 128 == 0)
    return true;
  refuse("V16", {"/operand/page_size"},
         fmt::format(
             "rows of a tensor copy are {} bytes here, and it begins at whole 128 bytes of shared memory",
             row_bytes),
         std::to_string(128 / row_bytes));
  return false;
}

void place_tiles(PrefillPlan& p, const Sizes& size) {
  p.smem_q = p.smem.add("q", p.q_stride() * p.num_math_warpgroups, 1024, "Q, 64 rows per consumer warpgroup");
  p.smem_k =
      p.smem.add("k", p.k->ring_bytes(), 1024, p.shared_ring ? "slots of K and V in turns" : "K stages");
  p.smem_v = p.shared_ring ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  if (p.converts())
    p.smem_raw = p.smem.add("raw", p.num_raw_stages * p.raw_slot_bytes(), 1024,
                            p.fp8 ? "V as copied" : "K and V in turn, as copied");
  p.smem_o = p.separate_o && size.o > 0
                 ? p.smem.add("o", size.o, 1024, "O on its way out, 64 rows per consumer warpgroup")
                 : p.smem_q;
  if (!p.scales_by_token()) return;
  const int alignment = p.scale_tiles() ? 128 : 16;
  p.smem_scales = p.smem.add("scales", p.num_kv_stages * (p.k_scale_bytes() + p.scale_bytes()), alignment,
                             "scales of each key: K stages, V stages");
  if (p.narrow)
    p.smem_raw_scales = p.smem.add("raw_scales", p.num_raw_stages * p.raw_scale_bytes(), alignment,
                                   "the same of tiles as copied");
}

void place_barriers(PrefillPlan& p) {
  p.smem_q_barriers =
      p.smem.add("mbar_q", 16 * p.num_math_warpgroups, 8, "Q full/empty per consumer warpgroup");
  p.smem_k_barriers = p.smem.add("mbar_k", p.k->ring().barrier_bytes(), 8, "K ring full/empty");
  p.smem_v_barriers = p.shared_ring
                          ? p.smem_k_barriers
                          : p.smem.add("mbar_v", p.v->ring().barrier_bytes(), 8, "V ring full/empty");
  if (p.converts())
    p.smem_raw_barriers =
        p.smem.add("mbar_raw", p.raw->barrier_bytes(), 8, "ring of copied tiles full/empty");
}

void place_work(PrefillPlan& p) {
  p.smem_work_barriers =
      p.dynamic ? p.smem.add("mbar_work", p.work->barrier_bytes(), 8, "work ring full/empty") : 0;
  p.smem_work = !p.dynamic ? 0
                : p.ragged ? p.smem.add("work", 64, 16,
                                        "work items, this one and the next: place, rows of the sequence")
                           : p.smem.add("work", 8, 8, "work items handed to the consumers");
  if (p.ragged && !p.own_item_warp())
    p.smem_items =
        p.smem.add("items", 6 * 4 * 32, 8, "where the batch is: the producer's lanes, between items");
}

void check_room(const PrefillPlan& p, const Config& c, const Sizes& size, const Refusals& refuse) {
  if (p.smem.bytes() <= most_smem()) return;
  const int room = most_smem() - spare_smem(c) - std::max(size.q, size.o), step = p.step_elements();
  const int stages = room / size.per_stage;
  const int of_key = 2 * (p.depth + p.ov_depth) * p.element_bytes + (p.fp8 ? 2 * p.ov_depth : 0);
  int bn = p.narrow ? p.BN : room / of_key / step * step;
  while (p.narrow && bn > 16 && narrow_bytes(c, p.BM, bn) > most_smem()) bn -= 16;
  refuse("V15", {"/BN", "/num_kv_stages", "/BM"},
         fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most_smem()),
         stages >= 2 && !p.converts() ? fmt::format("num_kv_stages {}", stages) : fmt::format("BN {}", bn));
}

}  // namespace

bool comes_in_rows(const Config& c, int BN) {
  if (!is_narrow(c) || !operand_form(c.operand->kind).pages()) return false;
  const int rows = MHAOperand::piece_rows(BN, c.operand->page_size.value_or(0));
  return rows < BN && rows * (span_of(2 * std::gcd(c.depth, *c.ov_depth)) / 2) % 128 != 0;
}

int narrow_bytes(const Config& c, int BM, int BN) {
  const int plain = k_columns(c), of_bytes = std::max(plain, *c.ov_depth);
  const int scales =
      (2 + 2 * PrefillPlan::groups_of(c, plain) + 2 * PrefillPlan::groups_of(c, of_bytes)) * 4 * BN;
  const int raw = comes_in_rows(c, BN) ? align_up(of_bytes, 128) : of_bytes;
  return spare_smem(c) + 2 * BM * std::max(c.depth, *c.ov_depth) + 4 * BN * (c.depth + *c.ov_depth) +
         2 * BN * raw + scales;
}

bool plan_storage(PrefillPlan& p, Config& c, const Refusals& refuse) {
  if (!choose_rings(p, c, refuse)) return false;
  const Sizes size = sizes_of(p);
  if (!choose_stages(p, c, size.q, size.o, size.per_stage, refuse)) return false;
  choose_raw_stages(p, c, size);
  if (!check_pages(p, refuse)) return false;
  set_rings(p, size.columns);
  if (p.dynamic) p.work.emplace("work", p.ragged ? 1 : 2, 1);
  if (p.converts()) p.raw.emplace("raw", p.num_raw_stages, 1);
  place_tiles(p, size);
  place_barriers(p);
  place_work(p);
  check_room(p, c, size, refuse);
  return true;
}

}  // namespace kiln::sm90
