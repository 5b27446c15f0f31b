#include "generator/schedules/sm90_prefill/plan.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/schedules/sm90_prefill/planning.hpp"

namespace kiln::sm90 {
namespace {

int swizzle_span(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::b128:
      return 128;
    case SwizzleMode::b64:
      return 64;
    case SwizzleMode::b32:
      return 32;
    case SwizzleMode::none:
      return 0;
  }
  return 0;
}

/// Rotary columns in a tensor of their own: whole panels beside whole panels.
void check_rope(const Config& c, const Config& m, Violations& out) {
  if (!m.rope) return;
  const MeaningCheck check(c, m, "sm90_prefill", out);
  check.takes_rope_tensor(64, "multiples of 64", true);
  check.takes(c.tma_fold.value_or("auto") == "auto" || c.tma_fold == "none", "/tma_fold",
              "copies a panel at a time where rotary ones are in a tensor of their own", "none");
}

bool check_meaning(const Config& c, Violations& out) {
  const auto before = out.size();
  check_prefill_meaning(c, "sm90_prefill",
                        {"BK", "swizzle", "num_kv_stages", "num_qk_stages", "cluster", "exp_offload",
                         "pv_operand", "tma_fold", "shared_ring", "rope"},
                        PrefillBytes::fp8_or_scales_in_rows, out);
  const Config m = with_shared_defaults(c);
  check_rope(c, m, out);
  const auto& scales = m.operand->quantization;
  if (is_narrow(m) && scales_by_row(scales) &&
      PrefillPlan::groups_of(m, std::max(k_columns(m), *m.ov_depth)) > 1 && scales->block % 16 != 0) {
    refuse_value(
        c, "/operand/quantization/granularity",
        "sm90_prefill takes a scale for a multiple of 16 elements, the columns of one product, or for a row",
        std::to_string(align_up(scales->block, 16)), out);
  }
  if (c.pv_operand.value_or("registers") != "registers")
    refuse_value(c, "/pv_operand", "sm90_prefill keeps P in registers", "registers", out);
  return out.size() == before;
}

/// The nearest whole multiple of 32 keys.
std::string multiple_of_32(int BN) {
  return fmt::format("{}", std::clamp((BN + 16) / 32 * 32, 32, 256));
}

/// One step a function: each reads what the steps before it have set, sets its part of the plan and of the
/// resolved config, and is false after a refusal that leaves the next ones nothing to say.
class Planner {
 public:
  Planner(Config user, bool ping_pong, Violations& out)
      : user_(std::move(user)), asked_ping_pong_(ping_pong), refuse_(user_, out), out_(out) {}

  std::optional<PrefillPlan> plan() {
    const auto before = out_.size();
    set_config();
    if (!choose_rows() || !choose_keys() || !choose_swizzle() || !choose_chunks() || !choose_products())
      return std::nullopt;
    if (!choose_cluster() || !choose_registers()) return std::nullopt;
    choose_threads();
    set_operand();
    if (!plan_storage(p_, c_, refuse_) || out_.size() != before) return std::nullopt;
    set_products();
    set_softmax();
    p_.config = std::move(c_);
    return std::move(p_);
  }

 private:
  void set_config() {
    c_ = with_shared_defaults(user_);
    p_.depth = c_.depth;
    p_.ov_depth = *c_.ov_depth;
    p_.rope = p_.depth - k_columns(c_);
    p_.ragged = operand_form(c_.operand->kind).ragged_q;
    p_.results = RowResults(c_);
    p_.o_floats = *c_.out_dtype == DType::f32;
    p_.narrow = is_narrow(c_);
    p_.fp8 = is_fp8(c_.dtype);
    if (p_.fp8) p_.element_bytes = 1;
    p_.math = p_.narrow ? DType::fp16 : c_.dtype;  // one instruction widens two bytes to FP16, five to BF16
    p_.config = c_;                                // what the sizes below ask about
  }

  bool choose_rows() {
    if (!c_.BM) c_.BM = default_bm(c_);
    p_.BM = *c_.BM;
    if (p_.BM != 64 && p_.BM != 128 && p_.BM != 192) {
      refuse_("sm90_prefill", {"/BM"}, "BM is 64 rows for each of 1 to 3 consumer warpgroups",
              "64, 128, 192");
      return false;
    }
    const auto captured = captured_tile(c_);
    if (captured && p_.BM > captured->BM) {
      refuse_("sm90_prefill", {"/BM"},
              fmt::format("tensors of score_mod leave registers for {} rows here", captured->BM),
              std::to_string(captured->BM));
      return false;
    }
    p_.num_math_warpgroups = p_.BM / 64;
    // Three short-rowed warpgroups collide in the tensor cores unless they take turns; two leave gaps when
    // they do. One has nobody to take turns with.
    p_.ping_pong = c_.schedule ? asked_ping_pong_ : default_ping_pong(c_) && p_.num_math_warpgroups > 1;
    if (p_.ping_pong && p_.num_math_warpgroups == 1) {
      if (captured && captured->BM == 64) {
        refuse_("sm90_prefill_pingpong", {"/schedule"},
                "warpgroups take turns, and tensors of score_mod leave registers for one here",
                "sm90_prefill");
        return false;
      }
      refuse_("sm90_prefill_pingpong", {"/schedule", "/BM"}, "two or three consumer warpgroups take turns",
              "128, 192");
      return false;
    }
    c_.schedule = p_.ping_pong ? "sm90_prefill_pingpong" : "sm90_prefill";
    return true;
  }

  bool choose_keys() {
    if (!c_.BN) c_.BN = default_bn(c_, p_.num_math_warpgroups, p_.ragged);
    p_.BN = *c_.BN;
    if (!check_captured()) return false;
    if (!check_many_scales()) return false;
    if (p_.BN % 32 == 0) return true;
    if (c_.mask->kind == MaskConfig::Kind::custom) {
      refuse_("sm90_prefill", {"/BN", "/mask"}, "tiles of a custom mask begin at whole 32-bit words of it",
              multiple_of_32(p_.BN));
      return false;
    }
    if (p_.scales_by_token()) {
      refuse_("sm90_prefill", {"/BN", "/operand/quantization"},
              "a warp copies the scales of 32 keys at a time", multiple_of_32(p_.BN));
      return false;
    }
    return true;
  }

  /// Many scales a row leave registers for some tiles alone.
  bool check_many_scales() {
    if (!p_.narrow || !has_many_scales(c_)) return true;
    const int block = c_.operand->quantization->block, widest = widest_narrow(c_);
    if (p_.BN > widest)
      refuse_("sm90_prefill", {"/BN", "/operand/quantization/granularity"},
              fmt::format("scales of {} elements leave registers for {} keys here", block, widest),
              std::to_string(widest));
    const int columns = std::max(p_.plain_columns(), p_.ov_depth);
    if (columns <= 192) return out_.empty();
    // Past depth 192 two a row, and over pages of few rows one, are what O leaves registers for.
    if (has_pages_of_few_rows(c_)) {
      refuse_("sm90_prefill", {"/operand/quantization/granularity", "/operand/page_size"},
              fmt::format(
                  "past depth 192 scales of {} elements take more registers than O leaves beside pages of "
                  "fewer than 16 rows",
                  block),
              fmt::format("{}, per_token", align_up(columns, 16)));
    } else if (PrefillPlan::groups_of(c_, columns) > 2) {
      refuse_("sm90_prefill", {"/operand/quantization/granularity"},
              fmt::format("past depth 192 scales of {} elements take more registers than O leaves", block),
              fmt::format("{}, per_token", align_up(ceil_div(columns, 2), 16)));
    }
    return out_.empty();
  }

  /// Tensors of a score_mod leave registers for their tile.
  bool check_captured() {
    const auto captured = captured_tile(c_);
    if (!captured) return true;
    if (p_.BN > captured->BN) {
      refuse_("sm90_prefill", {"/BN"},
              fmt::format("tensors of score_mod leave registers for {} keys here", captured->BN),
              std::to_string(captured->BN));
      return false;
    }
    const bool custom = c_.mask->kind == MaskConfig::Kind::custom;
    if (!custom || c_.score_mod->tensors.size() <= 2 || std::max(p_.depth, p_.ov_depth) <= 192) return true;
    refuse_("sm90_prefill", {"/score_mod"},
            "past depth 192 a custom mask leaves registers for two tensors of score_mod", "none");
    return false;
  }

  /// Rows of K or V of one tensor copy.
  int box_rows() const {
    return MHAOperand::piece_rows(p_.BN, operand_form(c_.operand->kind).pages() ? *c_.operand->page_size : 0);
  }

  bool choose_swizzle() {
    const int row_bytes_gcd = std::gcd(p_.depth, p_.ov_depth) * p_.element_bytes;
    const int natural_span = span_of(row_bytes_gcd);
    // A tensor copy of a few rows of a page begins at whole 128 bytes of shared memory.
    const bool few_rows = !p_.narrow && box_rows() < p_.BN && box_rows() * natural_span % 128 != 0;
    const int chosen_span = few_rows ? 128 : natural_span;
    const SwizzleMode* mode = c_.swizzle ? std::get_if<SwizzleMode>(&*c_.swizzle) : nullptr;
    if (c_.swizzle && p_.narrow) {
      if (!mode || *mode != SwizzleMode::none) {
        refuse_("V20", {"/swizzle"}, "sm90_prefill copies bytes as they are and swizzles what it widens",
                "none");
        return false;
      }
      p_.span_bytes = natural_span;
    } else if (c_.swizzle) {
      p_.span_bytes = mode ? swizzle_span(*mode) : 0;
      if (p_.span_bytes == 0 || (p_.span_bytes > natural_span && p_.span_bytes != chosen_span)) {
        refuse_("V20", {"/swizzle"},
                fmt::format("sm90_prefill tiles rows of {} bytes into swizzle spans of 32, 64 or 128 bytes",
                            row_bytes_gcd),
                natural_span == 128  ? "128B, 64B, 32B"
                : natural_span == 64 ? "64B, 32B"
                                     : "32B");
        return false;
      }
    } else {
      p_.span_bytes = chosen_span;
    }
    p_.o_span = p_.fp8 ? span_of(2 * p_.ov_depth) : std::min(p_.span_bytes, natural_span);
    p_.padded_depth = align_up(p_.depth, p_.panel_columns());
    p_.padded_ov = align_up(p_.ov_depth, p_.panel_columns());
    p_.v_span = p_.fp8 ? span_of(p_.BN) : p_.span_bytes;
    c_.swizzle = p_.narrow              ? SwizzleMode::none
                 : p_.span_bytes == 128 ? SwizzleMode::b128
                 : p_.span_bytes == 64  ? SwizzleMode::b64
                                        : SwizzleMode::b32;
    return true;
  }

  bool choose_chunks() {
    if (!c_.num_qk_stages) c_.num_qk_stages = 1;
    p_.num_qk_stages = *c_.num_qk_stages;
    if (p_.narrow && p_.num_qk_stages != 1) {
      refuse_("sm90_prefill", {"/num_qk_stages", "/kv_dtype"}, "K of bytes is widened at once", "1");
      return false;
    }
    if (p_.fp8_tokens() && p_.num_qk_stages != 1) {
      refuse_("sm90_prefill", {"/num_qk_stages", "/operand/quantization"},
              "scales of keys come with a whole K", "1");
      return false;
    }
    if (p_.padded_depth != p_.depth && p_.num_qk_stages != 1) {
      refuse_("V26", {"/num_qk_stages", "/operand/page_size"},
              "rows that are no whole 128 bytes come at once from pages of so few rows", "1");
      return false;
    }
    const int panels = p_.padded_depth / p_.panel_columns();
    if (panels % p_.num_qk_stages != 0) {
      refuse_("V26", {"/num_qk_stages"},
              fmt::format("num_qk_stages divides the {} swizzle panels of a K row", panels),
              fmt::format("1, {}", panels));
      return false;
    }
    const int chunk = p_.padded_depth / p_.num_qk_stages;
    if (c_.BK && *c_.BK != chunk)
      refuse_("V8", {"/BK"}, "BK == padded depth / num_qk_stages on sm_90a", fmt::format("{}", chunk));
    c_.BK = chunk;
    return true;
  }

  bool choose_products() {
    const int step = p_.step_elements();
    const std::array<int, 3> shape{64, p_.BN, step};
    if (c_.mma_shape && *c_.mma_shape != shape) {
      refuse_("sm90_prefill", {"/mma_shape"},
              fmt::format("the matrix instruction of QK is m64 n(BN) k{}", step),
              fmt::format("[64, {}, {}]", p_.BN, step));
    }
    c_.mma_shape = shape;
    if (p_.BN % step == 0 && p_.BN >= step && p_.BN <= 256) return true;
    refuse_("V3", {"/BN"}, fmt::format("BN is a multiple of {} and at most 256 on sm_90a", step),
            fmt::format("{}", std::clamp((p_.BN + step / 2) / step * step, step, 256)));
    return false;
  }

  /// Every tile of queries has keys of its own, so blocks take them from a counter.
  bool own_tiles() const { return p_.mask->bounded_above() || p_.ragged; }

  /// Whether rows that V of hidden keys reached are repaired, and in line or in a function.
  void choose_hidden() {
    // O of more columns leaves no registers for a second way, and the depth and bytes none for one in line.
    const bool bytes = p_.narrow || p_.fp8;
    const bool table = operand_form(c_.operand->kind).table();
    // Nor do pages of wide rows of bytes beside the two ends of a window (ptxas 13.0).
    const bool crowded = bytes && p_.depth >= 128 && p_.mask->bounded_below() && table;
    // Nor, beside O of more than 128 columns, do items in registers and the two ends of a window or, past 192, sinks;
    // nor, in the wider tiles of depths below 256, pages or those two ends (bench/NOTES.md 157).
    const bool deep = p_.depth > 192;
    const bool wide = !bytes && p_.ov_depth > 128 &&
                      (p_.ragged ? deep && p_.depth < 256 && (table || p_.mask->bounded_below())
                                 : p_.mask->bounded_below() || (deep && *c_.sink));
    if (!crowded && !wide) p_.hidden = HiddenValues::of(c_, pack_name(*c_.out_dtype));
    if (bytes || p_.depth > 128) p_.hidden.set_apart();
  }

  /// What becomes of scores, and the blocks of a cluster: they walk the same KV tiles in step, so their query
  /// tiles must see the same keys.
  bool choose_cluster() {
    p_.cluster = c_.cluster.value_or(1);
    p_.mask.emplace(*c_.mask, mma_score_layout(p_.BN / 2));
    p_.modifier.emplace(*c_.score_mod, mma_score_layout(p_.BN / 2));
    choose_hidden();
    p_.dynamic = own_tiles();
    const bool alone = own_tiles() || p_.converts();
    if (p_.cluster == 1 || (p_.cluster == 2 && !alone)) return true;
    refuse_("sm90_prefill", {"/cluster"},
            "clusters of 2 blocks share K and V tiles of 16 bits, without bounded masks and ragged operands",
            alone ? "1" : "1, 2");
    return false;
  }

  bool choose_registers() {
    const bool three = p_.num_math_warpgroups == 3;
    const int limit = register_limit(c_, p_.num_math_warpgroups, p_.ragged);
    const int live = live_registers(c_, p_.BN), lent = lent_registers(c_, p_.num_math_warpgroups);
    const int most = three && !own_tiles() ? limit + RegisterLimits::kNextP : limit;
    // Scales of keys beside looked-up pages leave it none (ptxas 13.0).
    const bool crowded = p_.fp8_tokens() && p_.ragged && !operand_form(c_.operand->kind).ragged_k();
    p_.packed = p_.fp8 && !crowded && c_.exp_offload.value_or(0.0) == 0 && live + p_.BN / 8 <= most;
    // Tiles of keys that hold whole tiles of queries have none at equal lengths, and few otherwise. The widest
    // two-warpgroup kernels over ragged rows spill with it (ptxas 13.0).
    const int skipping = p_.ragged ? RegisterLimits::kWatchedTwoRagged : RegisterLimits::kWatchedTwo;
    p_.skips_tiles = p_.mask->bounded_above() && p_.num_math_warpgroups > 1 && p_.BN % p_.BM != 0 &&
                     (three || live <= skipping - lent);
    // A request beyond what the launch allocated never returns.
    p_.math_registers = (three ? RegisterLimits::kMathOfThree : RegisterLimits::kMathOfTwo) - lent;
    p_.producer_registers = (three ? RegisterLimits::kProducerOfThree : RegisterLimits::kProducerOfTwo) +
                            lent * p_.num_math_warpgroups;
    if (three && p_.ov_depth > RegisterLimits::kColumnsOfThree) {
      refuse_("sm90_prefill", {"/BM"},
              fmt::format(
                  "3 consumer warpgroups leave too few registers to multiply by {} columns of V, at most {}",
                  p_.ov_depth, RegisterLimits::kColumnsOfThree),
              "128");
      return false;
    }
    if (live <= limit) return true;
    const int step = p_.step_elements(), bn = (limit - p_.ov_depth / 2) * 4 / 3 / step * step;
    refuse_("sm90_prefill", {"/BN", "/BM"},
            fmt::format("O, S and P take {} registers a thread; {} consumer warpgroups leave {}", live,
                        p_.num_math_warpgroups, limit),
            user_.BN && bn >= step ? fmt::format("BN {}", bn) : "fewer BM rows");
    return false;
  }

  void choose_threads() {
    const int threads = p_.num_threads();
    if (c_.num_threads && *c_.num_threads != threads) {
      refuse_("sm90_prefill", {"/num_threads"}, "one producer warpgroup and BM/64 consumers",
              fmt::format("{}", threads));
    }
    c_.num_threads = threads;
  }

  void set_operand() {
    p_.raw_rows = comes_in_rows(c_, p_.BN);
    p_.operand.emplace(
        c_.operand->kind, c_.operand->page_size.value_or(0), p_.BN,
        OperandNames{p_.late("batch"), "work.kv_head", p_.late("k_start"), p_.late("seqlen_k"), "heads_kv"},
        p_.raw_rows ? 1 : 0);
  }

  void set_products() {
    p_.qk.emplace(p_.math, p_.BN, Wgmma::A::smem, false);
    if (p_.rope_apart()) p_.qk_rope.emplace(c_.dtype, p_.BN, Wgmma::A::smem, false);
    if (p_.rope_apart() && c_.dtype != p_.math) p_.qk_rope->name_type();
    p_.pv.emplace(p_.math, p_.ov_depth, Wgmma::A::registers, !p_.fp8);
  }

  void set_softmax() {
    OnlineSoftmax::Shape softmax;
    softmax.score_regs = p_.BN / 2;
    softmax.output_regs = p_.ov_depth / 2;
    softmax.exp_offload = c_.exp_offload.value_or(0.0);
    p_.watched_parts = p_.fp8 ? 0 : watched_parts(p_, c_);
    // P up to 2^5 leaves what grows a factor of 14 before 448 is passed, and what is small 2^11 above the
    // least of full precision.
    if (p_.fp8) softmax.top = 5, softmax.rescale_threshold = 3;
    softmax.watched_parts = p_.watched_parts;
    softmax.hides = (p_.watched_parts > 0 || p_.packed) && p_.hides_anywhere();
    softmax.weighted = p_.fp8_tokens();
    softmax.weights_end = p_.fp8_tokens() && p_.scale_tiles();
    if (p_.watched_parts > 0) softmax.curve = p_.modifier->enter_exponent();
    softmax.scale_log2 = p_.scale_joins_factor() ? "factor" : p_.modifier->scale_log2();
    softmax.scale = p_.scale_joins_factor() ? "(factor * 0.693147181f)" : p_.modifier->scale();
    if (p_.results.sink()) softmax.sink = {"sink[work.head]", "sink[work.head]"};
    p_.softmax.emplace(softmax);
  }

  const Config user_;
  Config c_;
  const bool asked_ping_pong_;
  const Refusals refuse_;
  Violations& out_;
  PrefillPlan p_;
};

}  // namespace

std::optional<PrefillPlan> plan_prefill(Config config, bool ping_pong, Violations& out) {
  if (!check_meaning(config, out)) return std::nullopt;
  return Planner(std::move(config), ping_pong, out).plan();
}

}  // namespace kiln::sm90
