#include "runtime/launch/problem.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace kiln {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

std::string show(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  return text + "]";
}

/// Collects broken rules, so that a caller sees all of them at once.
class Checker {
 public:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds)
      problems_ += (problems_.empty() ? "" : "\n") + fmt::format(format, std::forward<Args>(args)...);
  }
  bool ok() const { return problems_.empty(); }
  void done(const std::string& kernel) const {
    if (!ok()) throw Error(ErrorCode::bad_input, kernel + ": " + problems_);
  }

  /// Shape of the right rank with sane extents; the other rules rely on it.
  bool shaped(const char* name, const Tensor& tensor, std::size_t rank, const char* layout) {
    const bool right_rank = tensor.shape.size() == rank && tensor.strides.size() == rank;
    require(right_rank, "{} has shape {} and {} strides, {} is needed", name, show(tensor.shape),
            tensor.strides.size(), layout);
    if (!right_rank) return false;
    bool sane = true;
    std::int64_t elements = 1;
    for (std::int64_t extent : tensor.shape) {
      sane = sane && extent >= 0 && extent <= kMaxInt;
      if (sane && extent > 0) {
        sane = elements <= std::numeric_limits<std::int64_t>::max() / 16 / extent;
        elements *= sane ? extent : 1;
      }
    }
    require(sane, "{} has shape {}, extents must be 0 to {}", name, show(tensor.shape), kMaxInt);
    return sane;
  }

  void operand(const char* name, const Tensor& tensor, DType dtype, std::int64_t depth, bool mapped) {
    require(tensor.dtype == dtype, "{} is {}, the kernel takes {}", name, to_string(tensor.dtype),
            to_string(dtype));
    require(tensor.shape.back() == depth, "{} has depth {}, the kernel takes {}", name, tensor.shape.back(),
            depth);
    require(tensor.strides.back() == 1 || tensor.shape.back() == 1,
            "{} has stride {} in its last dimension, 1 is needed", name, tensor.strides.back());
    const bool empty =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>()) == 0;
    require(empty || tensor.address != 0, "{} has no memory (null address)", name);
    require(tensor.address % 16 == 0, "{} lies at {:#x}, a multiple of 16 is needed", name, tensor.address);
    for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
      const auto bytes = tensor.strides[i] * static_cast<std::int64_t>(size_of(dtype));
      require(tensor.shape[i] <= 1 || bytes % 16 == 0,
              "{} has stride {} in dimension {}, a multiple of {} is needed", name, tensor.strides[i], i,
              16 / size_of(dtype));
      require(!mapped || tensor.shape[i] <= 1 || (bytes >= 0 && bytes < (std::int64_t{1} << 40)),
              "{} has stride {} in dimension {}, 0 to 2^40 bytes can be mapped", name, tensor.strides[i], i);
    }
  }

 private:
  std::string problems_;
};

bool is_mapped(const Manifest& manifest, std::string_view role) {
  for (const KernelParam& param : manifest.params) {
    if (param.kind == KernelParam::Kind::tensor_map && param.role == role) return true;
  }
  return false;
}

void check_lse(Checker& check, const Manifest& manifest, const AttentionArgs& args, const Problem& problem) {
  if (!manifest.writes_lse) return;
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
    if (static_cast<double>((count + group - 1) / group) * head_bytes <= kSectionBytes)
      best = std::max(best, count);
  };
  for (std::int64_t low = 1; low * low <= heads; ++low) {
    if (heads % low != 0) continue;
    consider(low);
    consider(heads / low);
  }
  return best;
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
  problem.ragged = manifest.operand == OperandKind::ragged;
  if (manifest.operand != OperandKind::contiguous && !problem.ragged) {
    throw Error(ErrorCode::bad_input, manifest.name + ": operands of kind " +
                                          std::string(to_string(manifest.operand)) +
                                          " cannot be launched yet");
  }
  const std::size_t rank = problem.ragged ? 3 : 4;
  const char* layout = problem.ragged ? "[total, heads, depth]" : "[batch, seqlen, heads, depth]";
  bool shaped = check.shaped("q", args.q, rank, layout);
  shaped = check.shaped("k", args.k, rank, layout) && shaped;
  shaped = check.shaped("v", args.v, rank, layout) && shaped;
  shaped = check.shaped("o", args.o, rank, layout) && shaped;
  if (!shaped) check.done(manifest.name);

  check.operand("q", args.q, manifest.dtype, manifest.depth, is_mapped(manifest, "q"));
  check.operand("k", args.k, manifest.kv_dtype, manifest.depth, is_mapped(manifest, "k"));
  check.operand("v", args.v, manifest.kv_dtype, manifest.ov_depth, is_mapped(manifest, "v"));
  check.operand("o", args.o, manifest.out_dtype, manifest.ov_depth, is_mapped(manifest, "o"));

  const auto leading = [](const Tensor& tensor) {
    return std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end() - 1);
  };
  check.require(leading(args.o) == leading(args.q), "o has shape {}, it must match q's {} but for the depth",
                show(args.o.shape), show(args.q.shape));
  check.require(leading(args.v) == leading(args.k), "v has shape {}, it must match k's {} but for the depth",
                show(args.v.shape), show(args.k.shape));
  problem.heads_q = args.q.shape[rank - 2];
  problem.heads_kv = args.k.shape[rank - 2];
  check.require(problem.heads_kv > 0 && problem.heads_q % problem.heads_kv == 0,
                "{} query heads cannot share {} key heads evenly", problem.heads_q, problem.heads_kv);

  if (problem.ragged) {
    problem.total_q = args.q.shape[0];
    problem.total_k = args.k.shape[0];
    problem.seqlen_q = args.max_seqlen_q;
    problem.seqlen_k = args.max_seqlen_k;
    if (args.cu_seqlens_q && !args.cu_seqlens_q->shape.empty())
      problem.batch = args.cu_seqlens_q->shape[0] - 1;
    check.require(problem.batch >= 0, "cu_seqlens_q is empty, [batch + 1] is needed");
    check_lengths(check, "cu_seqlens_q", args.cu_seqlens_q, problem.seqlen_q, problem.total_q, problem.batch);
    check_lengths(check, "cu_seqlens_k", args.cu_seqlens_k, problem.seqlen_k, problem.total_k, problem.batch);
  } else {
    problem.batch = args.q.shape[0];
    problem.seqlen_q = args.q.shape[1];
    problem.seqlen_k = args.k.shape[1];
    problem.total_q = problem.batch * problem.seqlen_q;
    problem.total_k = problem.batch * problem.seqlen_k;
    check.require(args.k.shape[0] == problem.batch, "k has batch {}, q has {}", args.k.shape[0],
                  problem.batch);
  }
  check_lse(check, manifest, args, problem);

  const double scale = args.scale.value_or(manifest.scale);
  check.require(std::isfinite(scale), "scale is not a finite number");
  problem.scale = static_cast<float>(scale);
  problem.scale_log2 = static_cast<float>(scale * 1.4426950408889634074);

  const std::int64_t rows = std::max(manifest.grid.block_rows, 1);
  problem.num_m_blocks = (problem.seqlen_q + rows - 1) / rows;
  const bool fits =
      problem.num_m_blocks == 0 || problem.heads_q == 0 || problem.batch == 0 ||
      problem.heads_q <= kMaxInt / problem.num_m_blocks / std::max<std::int64_t>(problem.batch, 1);
  check.require(fits && problem.total_q <= kMaxInt && problem.total_k <= kMaxInt,
                "the problem is too large: {} sequences of {} rows and {} heads", problem.batch,
                problem.seqlen_q, problem.heads_q);
  if (fits) problem.num_tiles = problem.num_m_blocks * problem.heads_q * problem.batch;
  check.require(
      manifest.grid.kind != GridRule::Kind::tiles || (problem.heads_q <= 65535 && problem.batch <= 65535),
      "{} heads in a batch of {}: this kernel's grid takes 65535 of each", problem.heads_q, problem.batch);
  check.done(manifest.name);
  if (!problem.empty()) problem.section_heads = section_heads(manifest, problem);
  return problem;
}

}  // namespace kiln
