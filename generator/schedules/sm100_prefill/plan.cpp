#include "generator/schedules/sm100_prefill/plan.hpp"

#include <algorithm>
#include <iterator>

#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm100 {
namespace {

constexpr std::string_view kName = "sm100_prefill";

/// Keys of a tile: a thread has a row of scores in registers, and more spill (ptxas 13.0; bench/NOTES.md 174). Fewer
/// where a row's scores change by their place.
struct KeyLimits {
  static constexpr int kAny = 128;
  static constexpr int kByPlace = 96;
  static constexpr int kSoftcapBesidePadding = 96;  ///< with log-sum-exps over pages, of sm_103a (184)
  static constexpr int kByPlaceInWindow = 64;       ///< expressions beside the two ends of a window
  static constexpr int kByPlaceBesideScales = 64;   ///< and beside captured tensors (146)
};

int most_keys(const Config& c) {
  const ScoreMod& mod = *c.score_mod;
  const bool softcap = mod.kind == ScoreMod::Kind::softcap && c.target == Target::sm_103a && c.depth > 64;
  if (softcap && *c.lse && c.mask->left_padding && c.operand->kind == OperandKind::paged && !is_fp8(c.dtype))
    return KeyLimits::kSoftcapBesidePadding;
  const ModifierKind& kind = modifier_kind(mod);
  if (!kind.by_place) return KeyLimits::kAny;
  if (c.operand->quantization || !mod.tensors.empty()) return KeyLimits::kByPlaceBesideScales;
  if (is_fp8(c.dtype)) return KeyLimits::kAny;
  const bool ends = is_bounded(*c.mask) && c.mask->kind != MaskConfig::Kind::causal;
  return kind.is_expression() && ends ? KeyLimits::kByPlaceInWindow : KeyLimits::kByPlace;
}

bool check_meaning(const Config& c, Violations& out) {
  const auto before = out.size();
  check_prefill_meaning(c, kName,
                        {"BK", "swizzle", "num_kv_stages", "num_qk_stages", "num_pv_stages", "shared_ring",
                         "exp_offload", "bn_cap", "single_o", "pair_cta", "gather4", "scheduler"},
                        PrefillBytes::fp8, out);
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, kName, out);
  check.takes(!scales_by_row(m.operand->quantization), "/operand/quantization/granularity",
              "takes a scale for a tensor, a head or a sequence", "per_tensor, per_head");
  check.takes(*m.kv_dtype == c.dtype, "/kv_dtype", "takes kv_dtype equal to dtype",
              std::string(to_string(c.dtype)));
  check.takes(*m.out_dtype != DType::f32, "/out_dtype", "writes O in 16 bits", "bf16, fp16");
  return out.size() == before;
}

constexpr std::pair<Scheduler, std::string_view> kSchedulers[] = {
    {Scheduler::fixed, "static"},
    {Scheduler::counter, "counter"},
    {Scheduler::launch_control, "launch_control"},
};

std::string_view name_of(Scheduler scheduler) {
  for (const auto& [value, name] : kSchedulers)
    if (value == scheduler) return name;
  return "";
}

/// The user's, or the best: a ragged batch has as many items as its lengths say, which a launch does not know; under a
/// mask that bounds keys items differ in length.
Scheduler scheduler_of(const PrefillPlan& p, const Config& c, const Refusals& refuse) {
  Scheduler best = p.ragged                  ? Scheduler::counter
                   : p.mask->bounded_above() ? Scheduler::launch_control
                                             : Scheduler::fixed;
  if (!c.scheduler || *c.scheduler == name_of(best)) return best;
  if (p.ragged) {
    refuse(kName, {"/scheduler", "/operand/kind"}, "items of a ragged batch are found behind a counter",
           "counter");
  } else if (p.blocks() == 2 && *c.scheduler == name_of(Scheduler::counter)) {
    refuse(kName, {"/scheduler", "/pair_cta"}, "pairs of blocks share no counter", "static, launch_control");
  }
  for (const auto& [value, name] : kSchedulers)
    if (name == *c.scheduler) best = value;
  return best;
}

/// Keys of a tile where neither BN nor bn_cap say: those of which two of K and of V fit beside Q.
int usual_keys(const Config& c) {
  const bool wide = std::max(c.depth, *c.ov_depth) > 128 && size_of(c.dtype) == 2;
  return wide && has_one_query_tile(c) && !c.pair_cta.value_or(false) ? 64 : KeyLimits::kAny;
}

/// O of 16 bits leaves through the place of a Q that is shorter in FP8: bytes that this takes beside Q.
int missing_bytes(const FA4Config& f) {
  return f.element_bytes() == 1 ? std::max(0, f.params.BM * (2 * f.padded_ov - f.padded_qk)) : 0;
}

/// Slots of K and V: shared where their number is odd, unless the user says.
void set_rings(FA4Config& f, const Config& c) {
  const int slot = std::max(f.full_k_bytes, f.full_v_bytes);
  if (f.num_q == 1) {
    // The narrow tiles of one tile of queries need every slot that there is.
    f.slots -= (missing_bytes(f) + slot - 1) / slot;
    f.shared_ring = c.shared_ring.value_or(f.slots % 2 == 1 && c.num_qk_stages.value_or(1) == 1);
    f.num_kv_stages = f.shared_ring ? f.slots : f.slots / 2;
  } else {
    f.shared_ring = c.shared_ring.value_or(f.shared_ring);
    f.num_kv_stages = f.shared_ring ? f.slots : f.slots / 2;
    const int stage = f.shared_ring ? slot : f.full_k_bytes + f.full_v_bytes;
    f.num_kv_stages -= (missing_bytes(f) + stage - 1) / stage;
  }
  if (c.num_kv_stages) f.num_kv_stages = *c.num_kv_stages;
}

/// The numbers of FA4's configuration with those that the user set in their place.
FA4Config configure(const Config& c) {
  FA4Params params;
  params.dtype = c.dtype;
  params.pair_cta = c.pair_cta.value_or(false);
  params.BM = params.pair_cta ? PrefillPlan::kRows : *c.BM;
  params.single_o = has_one_query_tile(c);
  params.qk_depth = c.depth;
  params.ov_depth = *c.ov_depth;
  params.nope_depth = c.depth;
  params.scale_bytes = 0;
  params.page_size = page_rows(*c.operand);
  const int keys = c.BN.value_or(c.bn_cap.value_or(usual_keys(c)));
  params.bn_cap = std::min({most_keys(c), keys, c.bn_cap.value_or(KeyLimits::kAny)});
  FA4Config config = fa4_config(params);
  set_rings(config, c);
  config.num_qk_stages = config.shared_ring ? 1 : c.num_qk_stages.value_or(1);
  config.num_pv_stages = c.num_pv_stages.value_or(2);
  config.BK0 = config.padded_qk / config.num_qk_stages;
  config.staged_k_bytes = config.k_rows_per_cta * config.BK0 * config.element_bytes();
  return config;
}

bool check_tiles(const PrefillPlan& p, const Config& c, const Refusals& refuse) {
  const auto& f = p.fa4;
  if (c.BN && *c.BN != f.BN) {
    refuse(
        kName, {"/BN"},
        fmt::format("a thread holds the scores of a row: BN is a multiple of 32 from 64 to {}", most_keys(c)),
        std::to_string(f.BN));
    return false;
  }
  if (c.num_qk_stages.value_or(1) > 1 && f.shared_ring) {
    refuse("V26", {"/num_qk_stages", "/shared_ring"}, "K of a shared ring comes at once", "1");
    return false;
  }
  const int least = f.shared_ring ? 3 : 2;
  if (f.num_kv_stages < least && !c.num_kv_stages && (c.BN || c.bn_cap)) {
    refuse("V15", {"/BN", "/bn_cap"},
           fmt::format("two tiles of K and V of {} keys do not fit shared memory beside Q", f.BN),
           std::to_string(usual_keys(c)));
    return false;
  }
  if (f.num_kv_stages < least) {
    refuse("V25", {"/num_kv_stages", "/shared_ring"}, fmt::format("num_kv_stages is at least {} here", least),
           std::to_string(least));
    return false;
  }
  if (f.num_pv_stages > 2) {
    refuse(kName, {"/num_pv_stages"}, "P is handed over whole or in two pieces", "1, 2");
    return false;
  }
  return true;
}

void set_smem(PrefillPlan& p) {
  p.smem_q =
      p.smem.add("q", p.tiles() * p.q_stride(), 1024,
                 fmt::format("Q, {} of 128 rows; O on its way out", p.tiles() == 2 ? "two tiles" : "a tile"));
  p.smem_k =
      p.smem.add("k", p.k->ring_bytes(), 1024, p.fa4.shared_ring ? "slots of K and V in turns" : "K stages");
  p.smem_v = p.fa4.shared_ring ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  p.smem_factors = p.smem.add("factors", p.block_rows() * 4, 16, "what each row of O is multiplied by");
  p.smem_barriers = p.smem.add("mbar", 16 * 8, 8,
                               "Q, S, P, the rest of P, factors full/empty, O; Q's place empty, left so");
  p.smem_k_barriers = p.smem.add("mbar_k", p.k->ring().barrier_bytes(), 8, "K ring full/empty");
  p.smem_v_barriers = p.fa4.shared_ring
                          ? p.smem_k_barriers
                          : p.smem.add("mbar_v", p.v->ring().barrier_bytes(), 8, "V ring full/empty");
  if (p.has_finder()) {
    p.smem_work_barriers = p.smem.add("mbar_work", 16, 8, "work items full/empty");
    p.smem_work = p.smem.add("work", 64, 16, "work items, this one and the next");
  }
  if (p.scheduler == Scheduler::launch_control)
    p.smem_answer =
        p.smem.add("answer", 32, 16, "the block that was cancelled; mbarriers of it and of asking");
  p.smem_tmem = p.smem.add("tmem", 4, 4, "address of tensor memory");
}

void set_resolved(Config& c, const PrefillPlan& p, const std::array<int, 3>& shape) {
  c.schedule = std::string(kName);
  c.BN = p.BN, c.BK = p.fa4.BK0;
  c.mma_shape = shape;
  c.num_threads = p.threads();
  c.swizzle = p.q_tile().mode();
  c.num_kv_stages = p.fa4.num_kv_stages;
  c.num_qk_stages = p.fa4.num_qk_stages;
  c.num_pv_stages = p.fa4.num_pv_stages;
  c.shared_ring = p.fa4.shared_ring;
  c.scheduler = std::string(name_of(p.scheduler));
  if (p.tiles() == 1 && p.blocks() == 1) c.single_o = true;
}

/// The largest share of exponentials on the FMA pipe that does not spill, up to a depth (ptxas 13.0; bench/NOTES.md 159,
/// 174): of full rows of 16 bits, whose loop over the keys has no other end, alone and with log-sum-exps.
struct OffloadLimit {
  int deepest;
  double alone, with_lse;
};
constexpr OffloadLimit kOffload[] = {{127, 0.25, 0.25}, {128, 0.75, 0.25}, {192, 1.0, 1.0}};
/// Of other rows; bounded ones over pages, whose repair needs registers, have none to spare.
constexpr double kOffloadOfOthers = 1.0, kOffloadBesideRepair = 0.0, kOffloadOfFastUnit = 0.0;

double most_offloaded(const Config& c) {
  if (c.operand->kind == OperandKind::paged && is_bounded(*c.mask)) return kOffloadBesideRepair;
  // The special-function unit of sm_103a is twice as fast, and rows to 128 columns have no registers for the other way.
  const bool causal = c.mask->kind == MaskConfig::Kind::causal && !is_fp8(c.dtype);
  if (c.target == Target::sm_103a && c.depth <= 128 && !causal) return kOffloadOfFastUnit;
  if (is_fp8(c.dtype) || c.mask->kind != MaskConfig::Kind::none) return kOffloadOfOthers;
  const OffloadLimit& limit = *std::find_if(std::begin(kOffload), std::end(kOffload) - 1,
                                            [&](const OffloadLimit& l) { return c.depth <= l.deepest; });
  return *c.lse ? limit.with_lse : limit.alone;
}

/// Two blocks that share K and V.
bool check_pair(const Config& c, const Refusals& refuse) {
  if (c.operand->kind != OperandKind::contiguous) {
    refuse(kName, {"/pair_cta", "/operand/kind"}, "pairs of blocks take sequences of one length",
           "contiguous");
    return false;
  }
  constexpr int span = 64;
  const int panels = (*c.ov_depth + span - 1) / span;
  if (panels % 2 != 0) {
    refuse(kName, {"/pair_cta", "/ov_depth"},
           fmt::format("each block of a pair has half of V's spans of {} columns, an even number, not {}",
                       span, panels),
           "ov_depth 128, 256");
    return false;
  }
  return true;
}

/// Tiles of queries, of which each has an O.
bool check_tiles_of_queries(const Config& c, const Refusals& refuse) {
  const bool wide = is_wide_for_two_tiles(c);
  if (*c.BM != 256 && *c.BM != PrefillPlan::kRows) {
    refuse(kName, {"/BM"}, "a block has two tiles of 128 query rows, or one", wide ? "128" : "128, 256");
    return false;
  }
  if (wide && !has_one_query_tile(c)) {
    refuse(kName, {"/BM", "/depth", "/ov_depth"},
           "rows of over 192 columns leave room for one tile of queries", "BM 128");
    return false;
  }
  if (c.pair_cta.value_or(false)) return check_pair(c, refuse);
  if (c.single_o && *c.single_o != has_one_query_tile(c)) {
    refuse(kName, {"/single_o", "/BM"}, "each tile of 128 query rows has one O",
           fmt::format("single_o {}", has_one_query_tile(c)));
    return false;
  }
  return true;
}

bool check_rows(const Config& c, const Refusals& refuse) {
  if (!check_tiles_of_queries(c, refuse)) return false;
  if (c.exp_offload.value_or(0.0) > most_offloaded(c)) {
    refuse(kName, {"/exp_offload"}, "a larger share of exponentials on the FMA pipe spills registers here",
           fmt::format("{}", most_offloaded(c)));
    return false;
  }
  Config uncapped = c;
  uncapped.BN.reset(), uncapped.bn_cap = KeyLimits::kAny;
  const int widest = configure(uncapped).BN;
  if (c.bn_cap && *c.bn_cap >= widest) {
    refuse(kName, {"/bn_cap"}, fmt::format("tiles have at most {} keys here anyway", widest),
           widest > 64 ? std::to_string(widest - 32) : "leave it out");
    return false;
  }
  return true;
}

ScoreLayout row_layout(int BN) {
  ScoreLayout layout;
  layout.registers = layout.columns = BN;
  layout.rows = 1;
  layout.row = [](int) { return 0; };
  layout.column = [](int i) { return i; };
  layout.array = "s";
  layout.lane_bit = "0";
  return layout;
}

/// What becomes of scores, and of rows that V of hidden keys reaches.
void set_scores(PrefillPlan& p, const Config& c) {
  // The warps that look pages up leave no registers for a second way beside long rows.
  if (!p.operand->table() || p.depth <= 128 || p.tiles() == 1)
    p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype));
  p.hidden.set_apart();
  ScoreLayout scores = row_layout(p.BN);
  scores.without_branches = p.hidden.on();
  p.mask.emplace(*c.mask, scores);
  p.modifier.emplace(*c.score_mod, row_layout(p.BN));
}

}  // namespace

std::optional<PrefillPlan> plan_prefill(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const Refusals refuse(user, out);
  const auto before = out.size();
  if (!c.BM) c.BM = !c.pair_cta.value_or(false) && c.single_o.value_or(is_wide_for_two_tiles(c)) ? 128 : 256;
  if (!check_rows(c, refuse)) return std::nullopt;
  PrefillPlan p;
  p.fp8 = is_fp8(c.dtype);
  p.scales = c.operand->quantization.has_value();
  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.exp_offload = c.exp_offload.value_or(0.0);
  p.results = RowResults(c);
  p.ragged = operand_form(c.operand->kind).ragged_q;
  p.fa4 = configure(c);
  p.BN = p.fa4.BN;
  if (c.swizzle && swizzle_bytes(c) != p.fa4.swizzle_bytes) {
    refuse("V20", {"/swizzle"},
           fmt::format("sm100_prefill tiles rows into swizzle spans of 64 columns, {} bytes",
                       p.fa4.swizzle_bytes),
           fmt::format("{}B", p.fa4.swizzle_bytes));
    return std::nullopt;
  }
  p.k.emplace(p.fa4, true);
  p.v.emplace(p.fa4, false);
  if (!check_tiles(p, c, refuse)) return std::nullopt;
  const std::array<int, 3> shape{p.product_rows(), p.BN, p.fa4.MMA_K};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(kName, {"/mma_shape"},
           fmt::format("the matrix instruction of QK is m{} n(BN) k{}", p.product_rows(), p.fa4.MMA_K),
           fmt::format("[{}, {}, {}]", p.product_rows(), p.BN, p.fa4.MMA_K));
  p.operand.emplace(
      c.operand->kind, c.operand->page_size.value_or(0), p.BN,
      sm90::OperandNames{"work.batch", "work.kv_head", "work.k_start", "work.seqlen_k", "heads_kv"});
  resolve_gather4(c, {p.BN, p.depth, p.fa4.swizzle_bytes}, refuse);
  if (c.gather4) p.operand->set_gather4({"k", "v"});
  if (p.operand->eff_page() * p.fa4.swizzle_bytes % 128 != 0)
    refuse(kName, {"/operand/page_size"},
           "a box begins at a whole 128 bytes of shared memory: two rows of FP8", "2");
  set_scores(p, c);
  p.scheduler = scheduler_of(p, c, refuse);
  p.registers = role_registers(p, c);
  set_smem(p);
  const int most = target_info(c.target).smem_bytes;
  if (p.smem.bytes() > most) {
    const int room = most - (p.smem.bytes() - p.fa4.num_kv_stages * (p.k->slot_bytes() + p.v->slot_bytes()));
    refuse("V15", {"/num_kv_stages", "/BN"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most),
           fmt::format("num_kv_stages {}", std::max(2, room / (p.k->slot_bytes() + p.v->slot_bytes()))));
  }
  if (out.size() != before) return std::nullopt;

  set_resolved(c, p, shape);
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm100
