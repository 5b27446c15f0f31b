#include "generator/schedules/sm100_latent_pair/plan.hpp"

#include <algorithm>

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
  return is_prefill(c) ? "sm100_latent_pair_prefill" : "sm100_latent_pair";
}

/// More tiles on their way than cover the time to memory only queue, as on sm_90a (bench/NOTES.md 53).
constexpr int kMostStages = 4;

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, name_of(c), out);
  const bool fp8 = is_fp8(c.dtype);
  if (fp8)
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4", "pair_cta"});
  else
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4", "rope", "pair_cta"});
  check.takes(*m.v_from_k, "/v_from_k", "takes V that is the first columns of K's rows", "true");
  check.takes(c.pair_cta.value_or(true), "/pair_cta", "has two blocks an item", "true");
  check.takes(fp8 || c.dtype == DType::bf16 || c.dtype == DType::fp16, "/dtype",
              "takes bf16, fp16 and fp8_e4m3", "bf16, fp16, fp8_e4m3");
  check.takes(!scales_by_row(m.operand->quantization), "/operand/quantization/granularity",
              "takes a scale for a tensor, a head or a sequence", "per_tensor, per_head");
  check.takes(fp8 || !m.operand->quantization, "/operand/quantization", "takes no scales for 16-bit keys",
              "leave it out");
  check.takes(*m.kv_dtype == c.dtype, "/kv_dtype", "takes kv_dtype equal to dtype",
              std::string(to_string(c.dtype)));
  check.takes_positive_scale();
  // ptxas 13.0; bench/NOTES.md 187
  check.takes(m.score_mod->tensors.size() <= (fp8 ? 0u : 1u), "/score_mod",
              fp8 ? "has no registers for tensors of a score_mod in FP8"
                  : "has registers for one tensor of a score_mod",
              fp8 ? "pair_cta false" : "one tensor, or pair_cta false");
  if (is_prefill(c)) check.takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  for (const auto& [pointer, value, most] :
       {std::tuple{"/depth", c.depth, 576}, std::tuple{"/ov_depth", *m.ov_depth, 512}}) {
    if (value % 16 == 0 && value >= 16 && value <= most) continue;
    break_rule(c, name_of(c), {pointer},
               fmt::format("{} is a multiple of 16 between 16 and {}", pointer + 1, most),
               std::to_string(std::clamp((value + 15) / 16 * 16, 16, most)), out);
  }
  if (c.rope) check.takes_rope_of_spans(false);
  check.takes_rows_of_depth();
  return check.passed();
}

void choose_tile(const PairPlan& p, Config& c, const Refusals& refuse) {
  const std::string_view name = name_of(c);
  refuse.only(c.BM, PairPlan::kItemRows, name, "/BM", "BM, the packed query rows of both blocks, is 128");
  refuse.only(c.BN, PairPlan::kKeys, name, "/BN", "BN is 128, of whose rows of K each block has 64");
  refuse.only(c.num_threads, PairPlan::kThreads, name, "/num_threads",
              "four warps of softmax, one for products, one for copies");
  resolve_spans(c, p, name, refuse);
  c.pair_cta = true;
}

void set_rings(PairPlan& p) {
  FA4Config& f = p.rings;
  f.params.dtype = p.config.dtype;
  f.params.pair_cta = true;
  f.swizzle_bytes = p.span_bytes(), f.gran = kSpanColumns, f.MMA_K = p.step_columns();
  f.padded_qk = p.padded_depth();
  // whole products: of 256 columns of V or of 128, half of them in each block
  f.padded_ov = align_up(p.ov_depth, 128);
  f.BK0 = f.padded_qk / p.num_qk_stages;
  f.BN = f.BK1 = PairPlan::kKeys;
  f.k_rows_per_cta = PairPlan::kOwnKeys;
  f.v_cols_per_cta = f.padded_ov / 2;
  f.num_qk_stages = p.num_qk_stages;
  f.num_kv_stages = p.num_kv_stages;
  f.v_chunks = f.padded_ov % PairPlan::kColumns == 0 ? f.padded_ov / PairPlan::kColumns : 1;
  f.full_k_bytes = PairPlan::kOwnKeys * f.padded_qk * p.element_bytes();
  f.staged_k_bytes = f.full_k_bytes / p.num_qk_stages;
  f.full_v_bytes = PairPlan::kKeys * f.v_cols_per_cta * p.element_bytes();
  f.tmem_s1 = PairPlan::kScoreColumns, f.tmem_o0 = f.tmem_o1 = PairPlan::tmem_o();
  p.k.emplace(f, true);
  p.v.emplace(f, false);
}

void set_memory(PairPlan& p) {
  p.smem = {};
  p.smem_k = p.smem.add("k", p.k->ring_bytes(), 1024, "K stages: 64 rows of a tile");
  p.smem_v = p.smem.add("v", p.v->ring_bytes(), 1024, "V stages: half of the columns of a tile");
  p.smem_q = p.smem.add("q", PairPlan::kRows * p.padded_depth() * p.element_bytes(), 1024,
                        "Q: this block's packed rows");
  p.smem_p = p.smem.add("p", PairPlan::kRows * PairPlan::kKeys * p.element_bytes(), 1024, "P of these rows");
  p.smem_exchange = p.smem.add("exchange", 2 * 4 * 128, 512, "maximum of each thread's scores; of two tiles");
  p.smem_table = p.smem.add("table", 2 * 4 * PairPlan::kRows, 16, "query and head of each row");
  p.smem_barriers = p.smem.add("mbar", 5 * 8 + p.k->ring().barrier_bytes() + p.v->ring().barrier_bytes(), 8,
                               "Q, S, P, O; K and V rings full/empty");
  p.smem_flag = p.smem.add("flag", 4, 4, "arrivals at the item before this block");
  if (p.hidden.on()) p.smem_odd = p.smem.add("odd", 4, 4, "whether some column of O is not finite");
  p.smem_tmem = p.smem.add("tmem", 4, 4, "address of tensor memory");
}

bool choose_stages(PairPlan& p, Config& c, const Refusals& refuse) {
  const int most = target_info(c.target).smem_bytes;
  p.num_qk_stages = c.num_qk_stages.value_or(latent_chunks(p.padded_depth()));
  p.num_kv_stages = c.num_kv_stages.value_or(kMostStages);
  while (set_rings(p), set_memory(p), !c.num_kv_stages && p.smem.bytes() > most && p.num_kv_stages > 1)
    --p.num_kv_stages;
  if (p.num_kv_stages < 1 || p.num_kv_stages > 16) {
    refuse("V25", {"/num_kv_stages"}, "num_kv_stages is 1 to 16 here", "1");
    return false;
  }
  if (p.smem.bytes() > most) {
    const int stage = p.k->full_kv_bytes() + p.v->full_kv_bytes();
    const int fitting = p.num_kv_stages - ceil_div(p.smem.bytes() - most, stage);
    refuse("V15", {"/num_kv_stages", "/depth"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most),
           fmt::format("num_kv_stages {}", std::max(1, fitting)));
    return false;
  }
  c.num_kv_stages = p.num_kv_stages, c.num_qk_stages = p.num_qk_stages;
  refuse.only(c.BK, p.rings.BK0, name_of(c), "/BK",
              "BK is the depth in whole swizzle spans over num_qk_stages");
  return true;
}

/// A row in two threads, each with the scores of one block's keys.
ScoreLayout row_layout() {
  ScoreLayout layout;
  layout.registers = PairPlan::kOwnKeys;
  layout.columns = PairPlan::kOwnKeys;
  layout.rows = 1;
  layout.row = [](int) { return 0; };
  layout.column = [](int i) { return i; };
  layout.lane_column = fmt::format("half * {}", PairPlan::kOwnKeys);
  layout.lane_word = "half * 2";
  layout.lane_bit = "0";
  return layout;
}

ScoreDialect score_dialect() {
  ScoreDialect dialect;
  dialect.tanh = "";  // there is time for the exact one
  return dialect;
}

void set_systems(PairPlan& p, const Config& c) {
  const int page = c.operand->page_size.value_or(0);
  p.operand.emplace(c.operand->kind, page, PairPlan::kOwnKeys);
  // V in K's boxes: of pages all of a tile, which are looked up together; of others one half after the other.
  if (operand_form(c.operand->kind).pages())
    p.v_operand.emplace(c.operand->kind, page, PairPlan::kKeys, sm90::OperandNames{}, p.operand->eff_page());
  else
    p.v_operand = p.operand;
  if (c.gather4) {
    std::vector<std::string> tensors{"k"};
    if (p.rope > 0) tensors.emplace_back("k_rope");
    p.operand->set_gather4(tensors), p.v_operand->set_gather4(tensors);
  }
  StreamK::Shape work{
      c.operand->kind,        PairPlan::kItemRows,        PairPlan::kKeys, *c.mask, !c.split_kv,
      c.split_kv.value_or(1), "wait_for_launch_before();"};
  if (is_prefill(c)) work.split = false, work.by_rows = true;
  work.cluster = PairPlan::kBlocks;
  p.stream.emplace(work);
  p.mask.emplace(*c.mask, row_layout());
  p.modifier.emplace(*c.score_mod, row_layout(), score_dialect());
}

}  // namespace

std::optional<PairPlan> plan_latent_pair(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const Refusals refuse(user, out);
  const auto before = out.size();
  PairPlan p;
  p.config = c;
  p.depth = c.depth;
  p.k_columns = k_columns(c);
  p.rope = p.depth - p.k_columns;
  p.ov_depth = *c.ov_depth;
  p.fp8 = is_fp8(c.dtype);
  p.scales = c.operand->quantization.has_value();
  p.results = RowResults(c);
  p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype), score_dialect());
  resolve_gather4(c, {PairPlan::kKeys, p.k_columns, p.span_bytes()}, refuse);
  choose_tile(p, c, refuse);
  if (!choose_stages(p, c, refuse)) return std::nullopt;
  const std::array<int, 3> shape{PairPlan::kItemRows, PairPlan::kKeys, p.step_columns()};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(name_of(c), {"/mma_shape"},
           fmt::format("the matrix instruction of K Q' is that of a pair, m128 n128 k{}", p.step_columns()),
           fmt::format("[128, 128, {}]", p.step_columns()));
  c.mma_shape = shape;
  c.schedule = std::string(name_of(c));
  set_systems(p, c);
  if (out.size() != before) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm100
