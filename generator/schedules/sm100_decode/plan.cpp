#include "generator/schedules/sm100_decode/plan.hpp"

#include <algorithm>
#include <bit>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm100 {
namespace {

bool is_prefill(const Config& c) {
  return c.operation == Operation::prefill;
}
std::string_view name_of(const Config& c) {
  return is_prefill(c) ? "sm100_wide_prefill" : "sm100_decode";
}

/// More tiles on their way than cover the time to memory only queue, as on sm_90a (bench/NOTES.md 53).
constexpr int kMostStages = 4;

int keys_of_tile(const Config& m) {
  return *m.v_from_k || is_wide_for_128_keys(m) ? 64 : 128;
}

/// What a thread that has 168 registers takes.
void check_bytes(const Config& m, const MeaningCheck& check) {
  const bool blocks = has_block_scales(m.operand->quantization);
  check.takes(!blocks || !*m.v_from_k, "/operand/quantization/scale_dtype",
              "takes scales of f32 where V lies in K's rows", "f32");
  check.takes(!blocks || !is_wide_for_128_keys(m), "/operand/quantization/scale_dtype",
              "takes scales of f32 over depth 192 and over 128 columns of V", "f32");
  check.takes(!has_powers(m.operand->quantization) || m.dtype == DType::bf16, "/dtype",
              "multiplies in bf16 where scales are powers of two", "bf16");
  const int numbers = numbers_of(*m.kv_dtype);
  check.takes(numbers == 1 || *m.v_from_k || (m.depth % 32 == 0 && *m.ov_depth % 32 == 0), "/depth",
              "takes rows of whole 16 bytes", std::to_string(align_up(m.depth, 32)));
  check.takes(numbers == 1 || (*m.head_dim_offset == 0 && *m.cache_depth == m.depth), "/cache_depth",
              "reads whole rows where a byte has two numbers", "leave it out");
  check.takes(m.score_mod->tensors.size() <= 2, "/score_mod",
              "has registers for two tensors of a score_mod where keys are bytes", "none");
  check.takes(m.mask->kind != MaskConfig::Kind::custom || !modifier_kind(*m.score_mod).by_place, "/score_mod",
              "has no registers for alibi or expr beside bits of a mask where keys are bytes", "none");
}

/// Bytes of K and V apart come by tensor copies of whole rows, whose pieces begin at 128 bytes of shared memory.
void check_pieces(const Config& m, const MeaningCheck& check) {
  if (!operand_form(m.operand->kind).pages()) return;
  const int keys = keys_of_tile(m);
  const bool gathered = gathers(m, keys);
  const int piece =
      gathered ? sm90::MHAOperand::kGathered : sm90::MHAOperand::piece_rows(keys, *m.operand->page_size);
  const int numbers = numbers_of(*m.kv_dtype);
  check.takes(piece * m.depth / numbers % 128 == 0 && piece * *m.ov_depth / numbers % 128 == 0,
              m.gather4 ? "/gather4" : "/operand/page_size",
              gathered ? fmt::format("gathers rows of bytes whose depths are multiples of {}", 32 * numbers)
                       : std::string("takes pages of bytes whose rows in a tile are a multiple of 128 bytes"),
              m.gather4 ? "leave it out" : "8, 16");
}

/// Columns in whole swizzle spans.
int padded(int columns) {
  return align_up(columns, 64);
}

/// Rows of a latent cache: V is their first columns, and of the rest a span becomes P's place.
void check_latent(const Config& c, const Config& m, const MeaningCheck& check) {
  check.takes(*m.ov_depth <= 512, "/ov_depth", "takes rows of V of up to 512 columns", "512");
  if (size_of(*m.kv_dtype) == 1) return check_bytes(m, check);
  const char* const place = "puts P into 64 columns of K behind V's";
  check.takes(m.depth > 64, "/depth", place, "80");
  const int most = std::max(padded(m.depth) - 64, 64);  // columns of V
  check.takes(m.depth <= 64 || *m.ov_depth <= most, c.ov_depth ? "/ov_depth" : "/v_from_k", place,
              (c.ov_depth ? "" : "true with ov_depth ") + std::to_string(most));
}

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, name_of(c), out);
  if (*m.v_from_k)
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4", "rope"}, ScaleTypes::bytes);
  else if (is_wide_for_128_keys(m) && size_of(*m.kv_dtype) == 2)
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4"});
  else
    check.keys({"BK", "swizzle", "num_kv_stages", "gather4"}, ScaleTypes::bytes);
  check.takes_16_bit();
  check.takes_kv_of_dtype_or_bytes();
  check.takes_one_scale_a_row();
  check.takes_positive_scale();
  if (is_prefill(c)) check.takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  // A tensor copy brings at most 256 columns of bytes.
  const bool bytes_apart = size_of(*m.kv_dtype) == 1 && !*m.v_from_k;
  const int most = *m.v_from_k ? 576 : bytes_apart ? 256 : 512;
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    if (value % 16 == 0 && value >= 16 && value <= most) continue;
    break_rule(c, name_of(c), {pointer},
               fmt::format("depth is a multiple of 16 between 16 and {}{}", most,
                           bytes_apart ? " where keys are bytes" : ""),
               std::to_string(std::clamp((value + 15) / 16 * 16, 16, most)), out);
  }
  if (*m.v_from_k) {
    check_latent(c, m, check);
    if (c.rope) check.takes_rope_of_spans(size_of(*m.kv_dtype) == 1);
    check.takes_rows_of_depth();
    return check.passed();
  }
  if (size_of(*m.kv_dtype) == 1) check_bytes(m, check), check_pieces(m, check);
  check.takes_plain_rows();
  return check.passed();
}

/// Rows for which a thread has registers (ptxas 13.0; bench/NOTES.md 146, 174): slopes, words of bits and addresses of
/// captured tensors are kept for each, and ends of windows and chunks take many. With warps that convert a thread has 168
/// of them instead of 255.
struct RowLimits {
  static constexpr int kAny = 64;
  static constexpr int kKept = 32;     ///< something is kept for each row
  static constexpr int kCrowded = 16;  ///< more than one thing, or two tensors
  static constexpr int kBytes = 32, kBytesByPlace = 16;
  static constexpr int kHalves = 64, kHalvesBits = 32;  ///< of 64 keys: half of them in a thread
  static constexpr int kHalvesBytes = 64, kHalvesBytesKept = 32, kHalvesBytesCrowded = 16;
};

bool has_ends(const Config& m) {
  return is_bounded(*m.mask) && m.mask->kind != MaskConfig::Kind::causal;
}

int most_rows_of_half_bytes(const Config& m) {
  const std::size_t tensors = m.score_mod->tensors.size();
  if (m.mask->kind == MaskConfig::Kind::custom || tensors > 1) return RowLimits::kHalvesBytesCrowded;
  return has_ends(m) || modifier_kind(*m.score_mod).by_place || tensors > 0 ? RowLimits::kHalvesBytesKept
                                                                            : RowLimits::kHalvesBytes;
}

int most_rows(const Config& m) {
  const ModifierKind& modifier = modifier_kind(*m.score_mod);
  const std::size_t tensors = m.score_mod->tensors.size();
  const bool custom = m.mask->kind == MaskConfig::Kind::custom;
  const bool halves = keys_of_tile(m) == 64;
  if (size_of(*m.kv_dtype) == 1 && halves) return most_rows_of_half_bytes(m);
  if (size_of(*m.kv_dtype) == 1)
    return custom || modifier.by_place ? RowLimits::kBytesByPlace : RowLimits::kBytes;
  const bool odd_pages = operand_form(m.operand->kind).pages() &&
                         !std::has_single_bit(static_cast<unsigned>(m.operand->page_size.value_or(1)));
  if (halves) return custom ? RowLimits::kHalvesBits : RowLimits::kHalves;
  const bool crowded = custom && (modifier.row_values || tensors > 0 || odd_pages);
  if (crowded || tensors > 1) return RowLimits::kCrowded;
  return has_ends(m) || custom || modifier.row_values || tensors > 0 ? RowLimits::kKept : RowLimits::kAny;
}

/// Packed query rows of a tile, unless asked: query tokens times query heads of a KV head. Where neither is known 16, and
/// 64 of a latent cache, whose rows all heads read.
int default_rows(const Config& c) {
  if (is_prefill(c)) return most_rows(c);
  const int rows = packed_rows(c, *c.v_from_k ? 64 : 16);
  return std::min(rows <= 16 ? 16 : rows <= 32 ? 32 : 64, most_rows(c));
}

bool choose_tile(DecodePlan& p, Config& c, const Refusals& refuse) {
  if (!c.BM) c.BM = default_rows(c);
  p.BM = *c.BM;
  if (p.BM != 16 && p.BM != 32 && p.BM != 64) {
    refuse(name_of(c), {"/BM"}, "BM, the packed query rows, is 16, 32 or 64",
           p.BM < 24   ? "16"
           : p.BM < 48 ? "32"
                       : "64");
    return false;
  }
  if (p.BM > most_rows(c)) {
    refuse(
        name_of(c), {"/BM"},
        fmt::format("a thread has registers for {} rows of this mask, score_mod and kv_dtype", most_rows(c)),
        std::to_string(most_rows(c)));
    return false;
  }
  refuse.only(c.BN, p.BN, name_of(c), "/BN",
              p.v_in_k ? "BN is the 64 rows of the matrix instruction, a key each, where V lies in K"
              : p.wide ? "BN is the 64 rows of the matrix instruction, a key each, of wide rows of K or V"
                       : "BN is the 128 rows of the matrix instruction, a key each");
  refuse.only(c.num_threads, p.num_threads(), name_of(c), "/num_threads",
              p.narrow ? "four warps of softmax, one for products, one for copies, four that convert"
                       : "four warps of softmax, one for products, one for copies");
  if (c.swizzle && swizzle_bytes(c) != DecodePlan::kRowBytes)
    refuse("V20", {"/swizzle"}, fmt::format("{} tiles rows into swizzle spans of 128 bytes", name_of(c)),
           "128B");
  c.swizzle = SwizzleMode::b128;
  return true;
}

/// Columns of a latent tile in FP16: whole chunks where these are handed over one by one, and all that V's matrix
/// instructions read.
int padded_place(const DecodePlan& p) {
  const int chunks = p.places > 1 ? padded(p.k_columns) : p.chunk_columns() * p.num_qk_stages;
  return std::max(chunks, p.MV_of(padded(p.ov_depth)) == 64 ? 64 : align_up(p.ov_depth, 128));
}

/// Stages of K and of V, each in a ring of its own.
void set_rings(DecodePlan& p) {
  FA4Config& f = p.rings;
  f.params.dtype = p.math;
  f.swizzle_bytes = DecodePlan::kRowBytes, f.gran = 64, f.MMA_K = 16;
  // whole matrix instructions: of 64 columns of V, or of 128
  f.padded_ov = p.wide && p.ov_depth > 128 ? align_up(p.ov_depth, 128) : padded(p.ov_depth);
  f.padded_qk = p.latent_bytes() ? padded_place(p) : padded(p.depth);
  f.BK0 = p.latent_bytes() ? p.chunk_columns() : f.padded_qk / p.num_qk_stages;
  f.BN = f.BK1 = f.k_rows_per_cta = p.BN;
  f.v_in_k = p.v_in_k;
  // Of two places each is handed over at once: one is converted while the other is read.
  f.num_qk_stages = p.places > 1 ? 1 : p.num_qk_stages;
  f.v_cols_per_cta = f.padded_ov;
  f.full_k_bytes = f.staged_k_bytes = p.BN * f.padded_qk * 2;
  f.full_v_bytes = p.BN * f.padded_ov * 2;
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
  p.smem_q = p.smem.add("q", p.BM * p.padded_depth() * 2, 1024, "Q: the packed query rows");
  p.smem_p = p.v_in_k && !p.narrow ? p.smem_k + p.padded_ov() / 64 * p.k->descriptor().tile().panel_bytes()
                                   : p.smem.add("p", p.BM * p.BN * 2, 1024, "P, rows = query rows");
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
  return latent_chunks(padded(p.depth));
}

/// Chunks of K's columns: 128 of one or two slots, since the next tile's come as these are freed. At 64 rows and depth
/// 256 that is predicted to gain 1 %. Of three slots K comes at once.
int chunks_of_wide(const DecodePlan& p) {
  const int panels = padded(p.depth) / 64;
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

/// One key a thread, all packed rows in its registers; or one of 64, and half of the rows.
ScoreLayout key_layout(const DecodePlan& p) {
  ScoreLayout layout;
  layout.registers = layout.rows = p.score_rows();
  layout.columns = p.BN;
  layout.lane_column = p.halves() ? "(16 * warp + lane % 16)" : "(int)threadIdx.x";
  layout.row = [](int i) { return i; };
  layout.column = [](int) { return 0; };
  layout.word_columns = p.BN;
  layout.lane_word = p.halves() ? "warp / 2" : "warp";
  layout.lane_bit = p.halves() ? "16 * (warp % 2) + lane % 16" : "lane";
  return layout;
}

ScoreDialect score_dialect() {
  ScoreDialect dialect;
  dialect.tanh = "";  // decode has time for the exact one
  return dialect;
}

void set_systems(DecodePlan& p, const Config& c) {
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.BN);
  if (c.gather4) {
    std::vector<std::string> tensors{"k"};
    if (!p.v_in_k) tensors.emplace_back("v");
    if (has_rope_tensor(c)) tensors.emplace_back("k_rope");
    p.operand->set_gather4(std::move(tensors));
  }
  StreamK::Shape work{
      c.operand->kind, p.BM, p.BN, *c.mask, !c.split_kv, c.split_kv.value_or(1), "wait_for_launch_before();"};
  if (is_prefill(c)) work.split = false, work.by_rows = true;
  p.stream.emplace(work);
  p.mask.emplace(*c.mask, key_layout(p));
  p.modifier.emplace(*c.score_mod, key_layout(p), score_dialect());
}

}  // namespace

std::optional<DecodePlan> plan_decode(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const Refusals refuse(user, out);
  const auto before = out.size();
  DecodePlan p;
  p.depth = c.depth;
  p.k_columns = k_columns(c);
  p.rope = p.depth - p.k_columns;
  p.ov_depth = *c.ov_depth;
  p.results = RowResults(c);
  p.narrow = size_of(*c.kv_dtype) == 1;
  p.v_in_k = *c.v_from_k;
  p.wide = is_wide_for_128_keys(c);
  p.BN = keys_of_tile(c);
  const auto& scales = c.operand->quantization;
  p.block = has_block_scales(scales) ? scales->block : 0;
  // BF16 has the range of scales that are powers of two, and holds E4M3 times one exactly; FP16 holds E2M1 times E4M3.
  p.numbers = numbers_of(*c.kv_dtype);
  p.math = !p.narrow ? c.dtype : has_powers(scales) ? DType::bf16 : DType::fp16;
  p.token_scale = scales_by_row(scales) && p.block == 0;
  p.head_scale = scales.has_value() && !scales_by_row(scales);
  p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype), score_dialect());
  resolve_gather4(c, {p.BN, p.k_columns, p.narrow ? 0 : DecodePlan::kRowBytes}, refuse);
  if (!choose_tile(p, c, refuse) || !choose_stages(p, c, refuse)) return std::nullopt;
  const std::array<int, 3> shape{p.BN, p.BM, 16};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(name_of(c), {"/mma_shape"}, fmt::format("the matrix instruction of K Q' is m{} n(BM) k16", p.BN),
           fmt::format("[{}, {}, 16]", p.BN, p.BM));
  c.mma_shape = shape;
  c.schedule = std::string(name_of(c));
  set_systems(p, c);
  if (out.size() != before) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm100
