// Stages of an sm100_decode kernel, as many as shared memory has room for.
#include <algorithm>

#include "generator/schedules/sm100_decode/planning.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm100 {
namespace {

/// More tiles on their way than cover the time to memory only queue, as on sm_90a (bench/NOTES.md 53).
constexpr int kMostStages = 4;

/// Columns of a latent tile in FP16: whole chunks where these are handed over one by one, and all that V's matrix
/// instructions read.
int padded_place(const DecodePlan& p) {
  const int chunks = p.places > 1 ? whole_spans(p.k_columns) : p.chunk_columns() * p.num_qk_stages;
  return std::max(chunks, p.MV_of(whole_spans(p.ov_depth)) == 64 ? 64 : align_up(p.ov_depth, 128));
}

/// Stages of K and of V, each in a ring of its own.
void set_rings(DecodePlan& p) {
  FA4Config& f = p.rings;
  f.params.dtype = p.math;
  f.swizzle_bytes = p.span_bytes(), f.gran = kSpanColumns, f.MMA_K = p.step_columns();
  // whole matrix instructions: of 64 columns of V, or of 128
  f.padded_ov = !p.v_in_k && p.ov_depth > 128 ? align_up(p.ov_depth, 128) : whole_spans(p.ov_depth);
  f.padded_qk = p.latent_bytes() ? padded_place(p) : whole_spans(p.depth);
  f.BK0 = p.latent_bytes() ? p.chunk_columns() : f.padded_qk / p.num_qk_stages;
  f.BN = f.BK1 = f.k_rows_per_cta = p.BN;
  f.v_in_k = p.v_in_k;
  // Of two places each is handed over at once: one is converted while the other is read.
  f.num_qk_stages = p.places > 1 ? 1 : p.num_qk_stages;
  f.v_cols_per_cta = f.padded_ov;
  f.full_k_bytes = f.staged_k_bytes = p.BN * f.padded_qk * p.element_bytes();
  f.full_v_bytes = p.BN * f.padded_ov * p.element_bytes();
  f.tmem_s1 = p.BM, f.tmem_o0 = f.tmem_o1 = p.tmem_o();
  f.num_kv_stages = p.narrow ? p.places : p.num_kv_stages;
  f.v_chunks = p.has_single_slots() && p.num_kv_stages == 1 ? p.out_blocks() : 1;
  if (p.narrow) p.raw_k.emplace("raw_k", p.num_kv_stages, 1);
  if (p.narrow && !p.v_in_k) p.raw_v.emplace("raw_v", p.num_kv_stages, 1);
  if (p.rope_apart()) p.rope_ring.emplace("rope", DecodePlan::kRopeStages, 1);
  p.k.emplace(f, true);
  p.v.emplace(f, false);
}

void set_memory(DecodePlan& p) {
  p.smem = {};
  p.smem_k = p.smem.add("k", p.k->ring_bytes(), 1024, p.narrow ? "K in FP16" : "K stages");
  p.smem_v =
      p.v_in_k ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, p.narrow ? "V in FP16" : "V stages");
  const int stages = p.num_kv_stages;
  if (p.latent_bytes()) {
    p.smem_raw_k = p.smem.add("raw_k", stages * p.slot_bytes(), 1024, "chunks of K as they come");
    if (p.rope_apart())
      p.smem_rope = p.smem.add("rope", DecodePlan::kRopeStages * p.rope_bytes(), 1024, "rotary columns of K");
  } else if (p.narrow) {
    p.smem_raw_k = p.smem.add("raw_k", stages * p.raw_bytes(true), 1024, "K stages");
    p.smem_raw_v = p.smem.add("raw_v", stages * p.raw_bytes(false), 1024, "V stages");
  }
  if (p.token_scale && p.v_in_k) {
    p.smem_raw_scales = p.smem.add("raw_scales", stages * 4 * p.BN, 16, "scales of each key: as they come");
    p.smem_key_scales = p.smem.add("scales", 4 * 4 * p.BN, 16, "scales of K of four tiles");
  } else if (p.token_scale) {
    const int kTile = 4 * p.BN;
    p.smem_raw_scales =
        p.smem.add("raw_scales", 2 * stages * kTile, 16, "scales of each key: K and V stages");
    p.smem_key_scales = p.smem.add("scales", 5 * kTile, 16, "scales of K of four tiles, of V of one");
  }
  p.smem_q = p.smem.add("q", p.BM * p.padded_depth() * p.element_bytes(), 1024, "Q: the packed query rows");
  p.smem_p = p.v_in_k && !p.narrow
                 ? p.smem_k + p.padded_ov() / 64 * p.k->descriptor().tile().panel_bytes()
                 : p.smem.add("p", p.BM * p.BN * p.element_bytes(), 1024, "P, rows = query rows");
  p.smem_rows = p.smem.add("rows", 4 * 3 * 4 * p.BM, 16, "bases, factors of O' of each row, of each warp");
  p.smem_exchange =
      p.smem.add("exchange", 2 * 4 * 4 * p.BM, 16, "maximum of each row, of each warp; of two tiles");
  p.smem_table = p.smem.add("table", 2 * 4 * p.BM, 16, "query and head of each row");
  p.smem_barriers =
      p.smem.add("mbar",
                 5 * 8 + p.k->ring().barrier_bytes() + (p.v_in_k ? 0 : p.v->ring().barrier_bytes()) +
                     (p.narrow ? (p.v_in_k ? 1 : 2) * p.raw_k->barrier_bytes() : 0) +
                     (p.rope_apart() ? p.rope_ring->barrier_bytes() : 0),
                 8, "Q, S', P, O'; K and V rings full/empty");
  p.smem_flag = p.smem.add("flag", 4, 4, "arrivals at the item before this block");
  if (p.hidden.on()) p.smem_odd = p.smem.add("odd", 4, 4, "whether some column of O is not finite");
  p.smem_tmem = p.smem.add("tmem", 4, 4, "address of tensor memory");
}

/// Chunks of a latent slot. Nine instead of three are predicted to gain 2 % at 64 rows and nothing at 16, for 8 to 15 % more issue
/// slots.
int chunks_of_latent(const DecodePlan& p) {
  if (p.narrow) return (p.k_columns + 127) / 128;
  return latent_chunks(whole_spans(p.depth));
}

/// Chunks of K's columns: 128 of one or two slots, since the next tile's come as these are freed. At 64 rows and depth
/// 256 that is predicted to gain 1 %. Of three slots K comes at once.
int chunks_of_wide(const DecodePlan& p) {
  const int panels = whole_spans(p.depth) / 64;
  if (p.num_kv_stages > 2) return 1;
  return panels % 2 == 0 ? panels / 2 : panels;
}

void choose_chunks(DecodePlan& p, const Config& c) {
  if (p.has_chunks())
    p.num_qk_stages = c.num_qk_stages.value_or(p.v_in_k ? chunks_of_latent(p) : chunks_of_wide(p));
}

/// As many as fit of two tiles of FP16 and slots of two tiles of bytes, but at least one tile of FP16 and two slots; of a
/// second tile of FP16 and slots of a second tile of bytes the first is worth more.
void fit_latent_bytes(DecodePlan& p, const Config& c, int most) {
  const int chunks = p.num_qk_stages;
  for (p.places = 2; p.places > 0; --p.places) {
    const int least = c.num_kv_stages.value_or(p.places > 1 ? std::max(2, chunks) : 2);
    p.num_kv_stages = c.num_kv_stages.value_or(std::max(2, 2 * chunks));
    while (set_rings(p), set_memory(p), p.smem.bytes() > most && p.num_kv_stages > least) --p.num_kv_stages;
    if (p.smem.bytes() <= most || p.places == 1) return;
  }
}

/// Bytes of shared memory that one stage more takes.
int stage_bytes(const DecodePlan& p) {
  if (p.latent_bytes()) return p.slot_bytes() + (p.token_scale ? 4 * p.BN : 0) + 16;
  if (p.narrow) return p.raw_bytes(true) + p.raw_bytes(false) + 32;
  return p.k->full_kv_bytes() + (p.v_in_k ? 0 : p.v->full_kv_bytes()) + 32;
}

/// Of wide rows one slot will do, in chunks that come and are freed one by one.
int least_stages(const DecodePlan& p) {
  return p.has_single_slots() ? 1 : 2;
}

}  // namespace

bool choose_stages(DecodePlan& p, Config& c, const Refusals& refuse) {
  p.num_kv_stages = c.num_kv_stages.value_or(kMostStages);
  choose_chunks(p, c);
  if (p.latent_bytes() && p.chunk_columns() > 256) {
    refuse("V20", {"/num_qk_stages"}, "a tensor copy brings at most 256 columns of bytes",
           std::to_string((p.k_columns + 127) / 128));
    return false;
  }
  const int most = target_info(c.target).smem_bytes;
  if (p.latent_bytes()) fit_latent_bytes(p, c, most);
  set_rings(p), set_memory(p);
  const auto too_many = [&] { return p.smem.bytes() > most; };
  const int least = least_stages(p);
  while (!c.num_kv_stages && too_many() && p.num_kv_stages > least) {
    --p.num_kv_stages;
    choose_chunks(p, c), set_rings(p), set_memory(p);
  }
  if (p.num_kv_stages < least || p.num_kv_stages > 16) {
    refuse("V25", {"/num_kv_stages"}, fmt::format("num_kv_stages is {} to 16 here", least), "2");
    return false;
  }
  if (too_many()) {
    const int per_stage = stage_bytes(p);
    const int fitting = p.num_kv_stages - (p.smem.bytes() - most + per_stage - 1) / per_stage;
    refuse("V15", {"/num_kv_stages", "/depth"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most),
           fmt::format("num_kv_stages {}", std::max(least, fitting)));
    return false;
  }
  c.num_kv_stages = p.num_kv_stages;
  if (p.has_chunks()) c.num_qk_stages = p.num_qk_stages;
  refuse.only(c.BK, p.narrow ? (p.k_columns + 127) / 128 * 128 / p.num_qk_stages : p.rings.BK0, name_of(c),
              "/BK",
              p.has_chunks() ? "BK is the depth in whole swizzle spans over num_qk_stages"
                             : "K comes at once: BK is the depth in whole swizzle spans");
  return true;
}

}  // namespace kiln::sm100
