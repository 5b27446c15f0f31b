#include "runtime/launch/problem.hpp"

#include <algorithm>
#include <limits>

#include <kiln/config.hpp>

#include "base/grid.hpp"
#include "generator/modifiers/modifier.hpp"
#include "generator/operands/operand_form.hpp"
#include "runtime/launch/checker.hpp"

namespace kiln {
namespace {

bool is_mapped(const Manifest& manifest, std::string_view role) {
  return manifest.takes(role, KernelParam::Kind::tensor_map);
}

void check_lse(Checker& check, const Manifest& manifest, const AttentionArgs& args, const Problem& problem) {
  if (!manifest.writes_lse) {
    check.require(!args.lse, "lse was given, but the kernel writes none (\"lse\": true in the config)");
    return;
  }
  check.require(args.lse.has_value(), "the kernel writes the log-sum-exp and was given no lse");
  if (!args.lse) return;
  const Tensor& lse = *args.lse;
  const std::vector<std::int64_t> shape =
      problem.ragged ? std::vector<std::int64_t>{problem.heads_q, problem.total_q}
                     : std::vector<std::int64_t>{problem.batch, problem.heads_q, problem.seqlen_q};
  check.require(lse.dtype == DType::f32, "lse is {}, f32 is needed", to_string(lse.dtype));
  check.require(lse.shape == shape, "lse has shape {}, {} is needed", show(lse.shape), show(shape));
  const Tensor dense = Tensor::dense(lse.address, lse.dtype, lse.shape);
  check.require(lse.strides == dense.strides, "lse must be dense");
  check.require(lse.address != 0 && lse.address % 4 == 0, "lse lies at {:#x}, a multiple of 4 is needed",
                lse.address);
}

void check_lengths(Checker& check, const char* name, const std::optional<Tensor>& offsets,
                   std::int64_t longest, std::int64_t total, std::int64_t batch) {
  check.require(offsets.has_value(), "a ragged problem needs {}", name);
  if (!offsets) return;
  check.require(offsets->dtype == DType::i32, "{} is {}, i32 is needed", name, to_string(offsets->dtype));
  check.require(offsets->shape.size() == 1 && offsets->shape[0] == batch + 1,
                "{} has shape {}, [batch + 1] = [{}] is needed", name, show(offsets->shape), batch + 1);
  check.require(offsets->strides.size() == 1 && (offsets->strides[0] == 1 || batch == 0), "{} must be dense",
                name);
  check.require(offsets->address != 0 && offsets->address % 4 == 0,
                "{} lies at {:#x}, a multiple of 4 is needed", name, offsets->address);
  check.require(longest >= 0 && longest <= total,
                "the longest length given with {} is {}, 0 to {} is possible", name, longest, total);
  check.require(longest > 0 || total == 0, "the longest length given with {} is 0 but there are {} rows",
                name, total);
}

/// The largest divisor of batch * heads_q whose K and V (shared inside a group of query heads) fit in
/// `kSectionBytes`.
std::int64_t section_heads(const Manifest& manifest, const Problem& problem) {
  constexpr double kSectionBytes = 32 << 20;
  const std::int64_t heads = problem.batch * problem.heads_q, group = problem.heads_q / problem.heads_kv;
  const double head_bytes = static_cast<double>(problem.seqlen_k) * (manifest.depth + manifest.ov_depth) *
                            static_cast<double>(size_of(manifest.kv_dtype));
  std::int64_t best = 1;
  const auto consider = [&](std::int64_t count) {
    const std::int64_t kv_heads = (count + group - 1) / group;
    if (static_cast<double>(kv_heads) * head_bytes <= kSectionBytes) best = std::max(best, count);
  };
  for (std::int64_t low = 1; low * low <= heads; ++low) {
    if (heads % low != 0) continue;
    consider(low);
    consider(heads / low);
  }
  return best;
}

bool heads_divide(const Problem& problem) {
  return problem.heads_kv > 0 && problem.heads_q % problem.heads_kv == 0;
}

/// Which tensors the kernel takes, their ranks, and the words for their shapes.
struct OperandForms {
  std::size_t rank = 4, kv_rank = 4;
  const char* layout = "[batch, seqlen, heads, depth]";
  const char* kv_layout = layout;
  bool own_v = true;      ///< false where V lies in K's columns
  bool own_rope = false;  ///< rotary columns of K in a tensor of their own
};

OperandForms operand_forms(const Manifest& manifest, const Problem& problem) {
  OperandForms forms;
  if (problem.ragged) {
    forms.rank = 3;
    forms.layout = "[total, heads, depth]";
  }
  if (operand_form(manifest.operand).ragged_k()) forms.kv_rank = 3;
  forms.kv_layout = problem.has_pages() ? "[num_pages, page_size, heads, depth]" : forms.layout;
  forms.own_v = manifest.takes("v");
  forms.own_rope = manifest.own_rope() && manifest.takes("k_rope");
  return forms;
}

/// Ranks first: nothing else can be said about tensors without them.
void check_ranks(Checker& check, const Manifest& manifest, const AttentionArgs& args,
                 const OperandForms& forms) {
  bool shaped = check.shaped("q", args.q, forms.rank, forms.layout);
  shaped = check.shaped("k", args.k, forms.kv_rank, forms.kv_layout) && shaped;
  if (forms.own_v) shaped = check.shaped("v", args.v, forms.kv_rank, forms.kv_layout) && shaped;
  check.require(forms.own_rope == args.k_rope.has_value(), "{}",
                forms.own_rope ? "the kernel needs k_rope, the rotary columns of K"
                               : "k_rope was given, but the kernel takes none");
  if (forms.own_rope)
    shaped = args.k_rope && check.shaped("k_rope", *args.k_rope, forms.kv_rank, forms.kv_layout) && shaped;
  shaped = check.shaped("o", args.o, forms.rank, forms.layout) && shaped;
  if (!shaped) check.done(manifest.name);
}

void check_operands(Checker& check, const Manifest& manifest, const AttentionArgs& args,
                    const OperandForms& forms) {
  check.operand("q", args.q, manifest.dtype, manifest.depth, is_mapped(manifest, "q"));
  check.operand("k", args.k, manifest.kv_dtype, manifest.k_row(), is_mapped(manifest, "k"));
  if (forms.own_v) check.operand("v", args.v, manifest.kv_dtype, manifest.v_row(), is_mapped(manifest, "v"));
  if (forms.own_rope)
    check.operand("k_rope", *args.k_rope, manifest.rope->dtype, manifest.rope->depth,
                  is_mapped(manifest, "k_rope"));
  check.operand("o", args.o, manifest.out_dtype, manifest.ov_depth, is_mapped(manifest, "o"));

  const auto match = [&check](const char* name, const Tensor& tensor, const char* like_name,
                              const Tensor& like) {
    const bool same =
        std::equal(tensor.shape.begin(), tensor.shape.end() - 1, like.shape.begin(), like.shape.end() - 1);
    check.require(same, "{} has shape {}, it must match {}'s {} but for the depth", name, show(tensor.shape),
                  like_name, show(like.shape));
  };
  match("o", args.o, "q", args.q);
  if (forms.own_v) match("v", args.v, "k", args.k);
  if (forms.own_rope) match("k_rope", *args.k_rope, "k", args.k);
}

void set_heads(Checker& check, const Manifest& manifest, const AttentionArgs& args, const OperandForms& forms,
               Problem& problem) {
  problem.heads_q = args.q.shape[forms.rank - 2];
  problem.heads_kv = args.k.shape[forms.kv_rank - 2];
  check.require(heads_divide(problem), "{} query heads cannot share {} key heads evenly", problem.heads_q,
                problem.heads_kv);
  const auto made_for = [&check](const char* name, std::int64_t heads, int made) {
    check.require(made == 0 || heads == made, "{} has {} heads, the kernel is made for {}", name, heads,
                  made);
  };
  made_for("q", problem.heads_q, manifest.num_q_heads);
  made_for("k", problem.heads_kv, manifest.kv_num_heads);
}

/// Lengths of sequences that follow one another: offsets give the batch, the caller the longest ones.
void set_ragged_lengths(Checker& check, const AttentionArgs& args, Problem& problem) {
  const bool pages = problem.has_pages();
  problem.total_q = args.q.shape[0];
  problem.total_k = pages ? args.k.shape[0] * args.k.shape[1] : args.k.shape[0];
  problem.seqlen_q = args.max_seqlen_q;
  problem.seqlen_k = args.max_seqlen_k;
  if (args.cu_seqlens_q && !args.cu_seqlens_q->shape.empty()) problem.batch = args.cu_seqlens_q->shape[0] - 1;
  check.require(problem.batch >= 0, "cu_seqlens_q is empty, [batch + 1] is needed");
  check_lengths(check, "cu_seqlens_q", args.cu_seqlens_q, problem.seqlen_q, problem.total_q, problem.batch);
  if (!pages)
    check_lengths(check, "cu_seqlens_k", args.cu_seqlens_k, problem.seqlen_k, problem.total_k, problem.batch);
}

void set_lengths(Checker& check, const AttentionArgs& args, Problem& problem) {
  check.require(args.max_seqlen_q >= 0 && args.max_seqlen_k >= 0,
                "max_seqlen_q is {} and max_seqlen_k {}, lengths are 0 or more", args.max_seqlen_q,
                args.max_seqlen_k);
  const std::string_view kind = to_string(problem.kind);
  check.require(problem.ragged || !args.cu_seqlens_q,
                "cu_seqlens_q was given, but the kernel takes {} operands", kind);
  check.require((problem.ragged && !problem.has_pages()) || !args.cu_seqlens_k,
                "cu_seqlens_k was given, but the kernel takes {} operands", kind);
  if (problem.ragged) return set_ragged_lengths(check, args, problem);
  problem.batch = args.q.shape[0];
  problem.seqlen_q = args.q.shape[1];
  problem.seqlen_k = args.k.shape[1];
  problem.total_q = problem.batch * problem.seqlen_q;
  problem.total_k = problem.batch * problem.seqlen_k;
  check.require(args.k.shape[0] == problem.batch, "k has batch {}, q has {}", args.k.shape[0], problem.batch);
}

void set_scale(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem) {
  const double scale = args.scale.value_or(manifest.scale);
  // Kernels take the maximum before they scale.
  constexpr double kLog2E = 1.4426950408889634074;
  const bool fits = scale * kLog2E <= std::numeric_limits<float>::max() &&
                    scale >= std::numeric_limits<float>::denorm_min();
  check.require(fits, "scale must be a finite number above 0 that fits 32-bit floating point, not {}", scale);
  if (!fits) return;
  problem.scale = static_cast<float>(scale);
  problem.scale_log2 = static_cast<float>(scale * kLog2E);
}

/// Kernels with a block for each tile, head and sequence (append, merge and most prefill kernels) or with a cluster for
/// each work item: what a grid takes. Others have as many blocks as the device runs at once.
void check_grid(Checker& check, const Manifest& manifest, const Problem& problem) {
  const std::int64_t blocks = problem.num_tiles * std::max(manifest.cluster[0], 1);
  check.require(manifest.grid.kind != GridRule::Kind::items || blocks <= kMaxInt,
                "{} work items are {} blocks: this kernel's grid takes {}", problem.num_tiles, blocks,
                kMaxInt);
  if (manifest.grid.kind != GridRule::Kind::tiles) return;
  check.require(problem.heads_q <= kMostOfGridAxis && problem.batch <= kMostOfGridAxis,
                "{} heads in a batch of {}: this kernel's grid takes {} of each", problem.heads_q,
                problem.batch, kMostOfGridAxis);
  constexpr std::int64_t kMostThreads = (std::int64_t{1} << 32) - 1;  // of x on AMD devices
  const std::int64_t threads = std::max(manifest.num_threads, 1);
  check.require(!manifest.target.starts_with("gfx") || problem.num_m_blocks <= kMostThreads / threads,
                "{} rows are {} blocks of {} threads: an AMD grid takes {} threads", problem.seqlen_q,
                problem.num_m_blocks, threads, kMostThreads);
}

/// Score expressions are checked to stay within 32 bits for variables up to these.
void check_expression(Checker& check, const Manifest& manifest, const Problem& problem) {
  constexpr std::int64_t kMostRows = (std::int64_t{1} << 24) - 1;
  const bool small = problem.heads_q <= kMostOfGridAxis && problem.batch <= kMostOfGridAxis &&
                     problem.seqlen_q <= kMostRows && problem.seqlen_k <= kMostRows;
  if (small || !manifest.takes("scale", KernelParam::Kind::f32)) return;
  const auto mod = parse_config(manifest.config_json, manifest.name).score_mod;
  check.require(
      !mod || !modifier_kind(*mod).is_expression(),
      "{} heads in a batch of {}, {} rows and {} keys: an expression of scores is made for {} heads and "
      "sequences, {} rows and keys",
      problem.heads_q, problem.batch, problem.seqlen_q, problem.seqlen_k, kMostOfGridAxis, kMostRows);
}

/// Tiles of query rows and of keys, and that all of them can be counted in 32 bits.
void set_tiles(Checker& check, const Manifest& manifest, Problem& problem) {
  // A stream_k kernel packs the query heads of a KV head into the rows of one tile.
  const bool packs = manifest.grid.kind == GridRule::Kind::stream_k;
  const std::int64_t group = packs && heads_divide(problem) ? problem.heads_q / problem.heads_kv : 1;
  const std::int64_t heads = packs ? problem.heads_kv : problem.heads_q;
  const std::int64_t rows = std::max(manifest.grid.block_rows, 1);
  problem.num_m_blocks = (problem.seqlen_q * group + rows - 1) / rows;
  const bool fits = problem.num_m_blocks == 0 || heads == 0 || problem.batch == 0 ||
                    heads <= kMaxInt / problem.num_m_blocks / std::max<std::int64_t>(problem.batch, 1);
  check.require(fits && problem.total_q <= kMaxInt && problem.total_k <= kMaxInt,
                "the problem is too large: {} sequences of {} rows and {} heads", problem.batch,
                problem.seqlen_q, problem.heads_q);
  if (fits) problem.num_tiles = problem.num_m_blocks * heads * problem.batch;
  if (packs && fits) {
    // An empty sequence takes one tile too: somebody must write its zeros.
    const std::int64_t keys = std::max(manifest.grid.block_keys, 1);
    problem.kv_tiles = std::max<std::int64_t>(1, (problem.seqlen_k + keys - 1) / keys);
    check.require(problem.num_tiles == 0 || problem.kv_tiles <= kMaxInt / problem.num_tiles,
                  "the problem is too large: {} work items of {} KV tiles", problem.num_tiles,
                  problem.kv_tiles);
  }
  check_grid(check, manifest, problem);
  check_expression(check, manifest, problem);
}

}  // namespace

Tensor Tensor::dense(std::uint64_t address, DType dtype, std::vector<std::int64_t> shape) {
  Tensor tensor{address, dtype, std::move(shape), {}};
  tensor.strides.resize(tensor.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    tensor.strides[i] = stride;
    stride *= std::max<std::int64_t>(tensor.shape[i], 1);
  }
  return tensor;
}

Problem make_problem(const Manifest& manifest, const AttentionArgs& args) {
  Checker check;
  Problem problem;
  problem.kind = manifest.operand;
  problem.ragged = operand_form(manifest.operand).ragged_q;
  const OperandForms forms = operand_forms(manifest, problem);
  check_ranks(check, manifest, args, forms);
  check_operands(check, manifest, args, forms);
  set_heads(check, manifest, args, forms, problem);
  set_lengths(check, args, problem);
  check_pages(check, manifest, args, problem);
  check_scales(check, manifest, args, problem);
  check_modifiers(check, manifest, args, problem);
  check_lse(check, manifest, args, problem);
  set_scale(check, manifest, args, problem);
  set_tiles(check, manifest, problem);
  check.done(manifest.name);
  if (!problem.empty()) problem.section_heads = section_heads(manifest, problem);
  return problem;
}

}  // namespace kiln
