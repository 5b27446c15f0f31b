// Rules over the operands that serving adds to a launch: page tables, lengths on the device, scales of
// quantised K and V, sinks and bit masks. What lies on the device (page numbers, lengths) is the caller's
// promise: looking at it would cost a synchronisation.
#include <algorithm>
#include <numeric>

#include "generator/config/quantization.hpp"
#include "generator/operands/operand_form.hpp"
#include "runtime/launch/checker.hpp"

namespace kiln {
namespace {

constexpr auto kPointer = KernelParam::Kind::pointer;

/// Common to all small operands: type, alignment, shape.
void check_small(Checker& check, const char* name, const Tensor& tensor, DType dtype,
                 const std::vector<std::int64_t>& shape, const char* form) {
  check.require(tensor.dtype == dtype, "{} is {}, {} is needed", name, to_string(tensor.dtype),
                to_string(dtype));
  check.require(tensor.shape == shape && tensor.strides.size() == shape.size(),
                "{} has shape {}, {} = {} is needed", name, show(tensor.shape), form, show(shape));
  const auto element = static_cast<std::uint64_t>(size_of(dtype));
  check.require(tensor.address != 0 && tensor.address % element == 0,
                "{} lies at {:#x}, a multiple of {} is needed", name, tensor.address, element);
}

void check_dense(Checker& check, const char* name, const Tensor& tensor, std::size_t first) {
  const Tensor dense = Tensor::dense(tensor.address, tensor.dtype, tensor.shape);
  bool holds = tensor.strides.size() == dense.strides.size();
  for (std::size_t i = first; holds && i < dense.strides.size(); ++i)
    holds = tensor.shape[i] <= 1 || tensor.strides[i] == dense.strides[i];
  check.require(holds, "{} must be dense{}", name, first > 0 ? " but for its first dimension" : "");
}

void check_page_table(Checker& check, const AttentionArgs& args, Problem& problem) {
  check.require(args.page_table.has_value(), "{} operands need a page_table", to_string(problem.kind));
  if (!args.page_table) return;
  const Tensor& table = *args.page_table;
  const bool continuous = operand_form(problem.kind).block();
  const std::int64_t pages = table.shape.size() == 2 ? table.shape[1] : 0;
  const std::vector<std::int64_t> wanted{problem.batch, continuous ? 1 : pages};
  check_small(check, "page_table", table, DType::i32, wanted,
              continuous ? "[batch, 1]" : "[batch, max_pages]");
  if (table.shape != wanted || table.strides.size() != 2) return;
  const bool rows = problem.batch <= 1 || (table.strides[0] >= pages && table.strides[0] <= kMaxInt);
  check.require(rows && (pages <= 1 || table.strides[1] == 1),
                "page_table has strides {}, rows of {} entries one after the other are needed",
                show(table.strides), pages);
  problem.page_table_stride = problem.batch <= 1 ? pages : table.strides[0];
  const std::int64_t capacity =
      problem.page_size > 0 && pages > kMaxInt / problem.page_size ? kMaxInt : pages * problem.page_size;
  check.require(problem.seqlen_k >= 0 && problem.seqlen_k <= capacity,
                "max_seqlen_k is {}, the page table holds 0 to {} ({} pages of {})", problem.seqlen_k,
                capacity, pages, problem.page_size);
  if (problem.seqlen_k == 0) problem.seqlen_k = capacity;
  problem.key_capacity = capacity;
}

/// Shape of the scales of one operand, of whose rows `columns` are read.
std::vector<std::int64_t> scale_shape(const Quantization& q, const Tensor& operand, int columns,
                                      std::int64_t batch, std::int64_t heads_kv) {
  using Granularity = Quantization::Granularity;
  std::vector<std::int64_t> shape(operand.shape.begin(), operand.shape.end() - 1);
  switch (q.granularity) {
    case Granularity::per_tensor:
      return {1};
    case Granularity::per_head:
      return {shape.back()};
    case Granularity::per_sequence:
      return {batch, heads_kv};
    case Granularity::per_token:
      if (q.layout == Quantization::Layout::head_major) std::swap(shape.back(), shape[shape.size() - 2]);
      return shape;
    case Granularity::per_block:
      break;
  }
  shape.push_back((columns + q.block - 1) / q.block);
  return shape;
}

/// Kernels that copy eights of rows reach a page by a number of them: from page to page, of `tensor`.
std::int64_t page_eights(Checker& check, const char* name, const Tensor& tensor) {
  const std::int64_t pages = tensor.shape[0], rows = tensor.shape[1];
  if (pages <= 1) return rows / 8;
  const std::int64_t page = tensor.strides[0], row = tensor.strides[1];
  const bool whole = row > 0 && page > 0 && page % (8 * row) == 0;
  check.require(
      whole,
      "{} has pages {} elements apart and rows {} apart; a kernel with tma_fold chunk_inner needs pages a "
      "multiple of 8 rows apart{}",
      name, page, row,
      row > 0 && page > 0 ? fmt::format(": {}", (page + 8 * row - 1) / (8 * row) * (8 * row)) : "");
  const std::int64_t eights = whole ? page / (8 * row) : rows / 8;
  check.require(eights <= kMaxInt / pages, "{} has {} pages {} rows apart, more rows than a kernel can name",
                name, pages, 8 * eights);
  return eights;
}

GatheredRows gathered_rows(Checker& check, const char* name, const Tensor& tensor) {
  const std::int64_t pages = tensor.shape[0], tokens = tensor.shape[1], heads = tensor.shape[2];
  const std::int64_t page = pages > 1 ? tensor.strides[0] : 0, token = tokens > 1 ? tensor.strides[1] : 0;
  const std::int64_t stride = std::gcd(page, token);
  GatheredRows out;
  if (heads > 1) out.head_columns = tensor.strides[2];
  out.stride = stride, out.rows = 1;
  if (pages * tokens <= 1 || tensor.shape[3] == 0) return out;
  check.require(page >= 0 && token >= 0 && stride > 0, "{} has pages {} elements apart and rows {} apart",
                name, page, token);
  if (stride <= 0) return out;
  out.page_rows = page / stride, out.token_rows = token / stride;
  out.rows = (pages - 1) * out.page_rows + (tokens - 1) * out.token_rows + 1;
  check.require(out.rows <= kMaxInt && out.head_columns * heads <= kMaxInt,
                "{} has {} rows of {} columns, more than a kernel with gather4 can name", name, out.rows,
                out.head_columns * heads);
  return out;
}

}  // namespace

void check_pages(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem) {
  if (problem.has_pages()) {
    if (manifest.takes("k_page_eights")) problem.k_page_eights = page_eights(check, "k", args.k);
    if (manifest.takes("v_page_eights")) problem.v_page_eights = page_eights(check, "v", args.v);
    if (manifest.takes("k_head_columns")) problem.k_rows = gathered_rows(check, "k", args.k);
    if (manifest.takes("v_head_columns")) problem.v_rows = gathered_rows(check, "v", args.v);
    if (manifest.takes("k_rope_head_columns") && args.k_rope)
      problem.rope_rows = gathered_rows(check, "k_rope", *args.k_rope);
    problem.num_pages = args.k.shape[0];
    problem.page_size = args.k.shape[1];
    check.require(manifest.page_size == 0 || problem.page_size == manifest.page_size,
                  "k has pages of {} rows, the kernel takes {}", problem.page_size, manifest.page_size);
    check.require(problem.page_size > 0, "k has pages of no rows");
    check_page_table(check, args, problem);
    check.require(args.seqlens_k.has_value(), "{} operands need seqlens_k", to_string(problem.kind));
  } else {
    check.require(!args.page_table, "page_table was given, but the kernel takes {} operands",
                  to_string(problem.kind));
  }
  const bool part = operand_form(problem.kind).ragged_k() && manifest.takes("seqlens_k", kPointer);
  check.require(
      !part || args.seqlens_k.has_value(),
      "a kernel of parts needs seqlens_k, the key position behind the last query row of each sequence");
  if (!args.seqlens_k) return;
  const bool takes = problem.has_pages() || manifest.takes("seqlens_k", kPointer);
  check.require(takes, "seqlens_k was given, but the kernel takes {} operands without it",
                to_string(problem.kind));
  if (!takes) return;
  check_small(check, "seqlens_k", *args.seqlens_k, DType::i32, {problem.batch}, "[batch]");
  check_dense(check, "seqlens_k", *args.seqlens_k, 0);
}

namespace {

/// Scales by head: rows of tokens, wherever they begin. Copies of tiles (`mapped`) take whole 16 bytes.
void check_head_rows(Checker& check, const char* name, const Tensor& scale, bool mapped) {
  constexpr std::int64_t kUnit = 4;  // scales of 16 bytes
  check.require(scale.strides.back() == 1 || scale.shape.back() <= 1,
                "{} has stride {} in its last dimension, 1 is needed", name, scale.strides.back());
  check.require(!mapped || scale.address % 16 == 0, "{} lies at {:#x}, a multiple of 16 is needed", name,
                scale.address);
  if (std::find(scale.shape.begin(), scale.shape.end(), 0) != scale.shape.end()) return;
  for (std::size_t i = 0; i + 1 < scale.shape.size(); ++i) {
    const std::int64_t stride = scale.strides[i];
    if (scale.shape[i] <= 1) continue;
    check.require(!mapped || stride % kUnit == 0,
                  "{} has stride {} in dimension {}, a multiple of {} is needed: pad it to {}", name, stride,
                  i, kUnit, (stride + kUnit - 1) / kUnit * kUnit);
    check.require(stride >= 0 && stride < (std::int64_t{1} << 38),
                  "{} has stride {} in dimension {}, 0 to 2^40 bytes can be mapped", name, stride, i);
  }
}

/// Scales of a byte: those of a row are loaded in words as wide as their number allows.
void check_block_scales(Checker& check, const char* name, const Tensor& scale) {
  const std::int64_t unit = std::gcd(scale.shape.back(), std::int64_t{4});
  check.require(scale.address % static_cast<std::uint64_t>(unit) == 0,
                "{} lies at {:#x}, a multiple of {} is needed", name, scale.address, unit);
  check.require(scale.shape.front() <= 1 || scale.strides.front() % unit == 0,
                "{} has stride {} in its first dimension, a multiple of {} is needed", name,
                scale.strides.front(), unit);
}

}  // namespace

void check_scales(Checker& check, const Manifest& manifest, const AttentionArgs& args,
                  const Problem& problem) {
  const auto one = [&](const char* name, const std::optional<Tensor>& scale, const Tensor& operand) {
    const bool asked = manifest.takes(name);
    check.require(asked || !scale, "{} was given, but the kernel takes none", name);
    check.require(!asked || scale, "the kernel needs {}", name);
    if (!asked || !scale) return;
    const Quantization given = manifest.quantization.value_or(Quantization{});
    const bool own = name[0] != 'q' || given.granularity == Quantization::Granularity::per_sequence;
    const Quantization q = own ? given : Quantization{};
    const std::vector<std::int64_t> shape =
        scale_shape(q, operand, name[0] == 'v' ? manifest.ov_depth : manifest.k_columns(), problem.batch,
                    problem.heads_kv);
    check_small(check, name, *scale, q.scale_dtype, shape, "one scale for each group of values");
    if (scale->shape != shape || scale->strides.size() != shape.size()) return;
    if (q.layout == Quantization::Layout::head_major) {
      check_head_rows(check, name, *scale, manifest.takes(name, KernelParam::Kind::tensor_map));
    } else {
      check_dense(check, name, *scale, shape.size() > 2 ? 1 : 0);
    }
    if (has_block_scales(q)) check_block_scales(check, name, *scale);
  };
  one("q_scale", args.q_scale, args.q);
  one("k_scale", args.k_scale, args.k);
  one("v_scale", args.v_scale, args.v);
  const bool factors = manifest.takes("kv_factors");
  check.require(factors == args.kv_factors.has_value(), "{}",
                factors ? "the kernel needs kv_factors, of K and of V"
                        : "kv_factors was given, but the kernel takes none");
  if (!factors || !args.kv_factors) return;
  check_small(check, "kv_factors", *args.kv_factors, DType::f32, {2}, "[K's, V's]");
  check_dense(check, "kv_factors", *args.kv_factors, 0);
}

namespace {

/// What an index that is a variable alone runs to; 0: not known here.
std::int64_t extent_of(std::string_view index, const AttentionArgs& args, const Problem& problem) {
  if (index == "b") return problem.batch;
  if (index == "h") return problem.heads_q;
  if (index == "q") return problem.seqlen_q;
  // What a page table can name may be more than any sequence has.
  if (index == "k") return problem.has_pages() && args.max_seqlen_k == 0 ? 0 : problem.seqlen_k;
  return 0;
}

void check_one_captured(Checker& check, const Manifest::Captured& wanted, const Tensor& tensor,
                        const AttentionArgs& args, const Problem& problem) {
  const std::string name = "captured '" + wanted.name + "'";
  check.require(tensor.dtype == wanted.dtype, "{} is {}, {} is needed", name, to_string(tensor.dtype),
                to_string(wanted.dtype));
  const std::size_t rank = wanted.indices.size();
  const bool ranked = tensor.shape.size() == rank && tensor.strides.size() == rank;
  check.require(ranked, "{} has shape {}, the expression has {} ind{} for it", name, show(tensor.shape), rank,
                rank == 1 ? "ex" : "ices");
  if (!ranked) return;
  const auto element = static_cast<std::uint64_t>(size_of(tensor.dtype));
  check.require(tensor.address != 0 && tensor.address % element == 0,
                "{} lies at {:#x}, a multiple of {} is needed", name, tensor.address, element);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t needed = extent_of(wanted.indices[d], args, problem);
    const std::int64_t extent = tensor.shape[d];
    check.require(extent >= 1 && extent <= kMaxInt, "{} has {} elements in dimension {}", name, extent, d);
    check.require(extent <= 1 || extent >= needed,
                  "{} has {} elements in dimension {}, where the index is {}: 1 or at least {} are needed",
                  name, extent, d, wanted.indices[d], needed);
    check.require(extent <= 1 || (tensor.strides[d] >= 0 && tensor.strides[d] < (std::int64_t{1} << 40)),
                  "{} has stride {} in dimension {}", name, tensor.strides[d], d);
  }
}

void check_captured(Checker& check, const Manifest& manifest, const AttentionArgs& args,
                    const Problem& problem) {
  for (std::size_t i = 0; i < args.captured.size(); ++i) {
    const bool takes = i < manifest.captured.size();
    check.require(takes || !args.captured[i], "captured has tensor {}, but the kernel takes {}", i,
                  manifest.captured.size());
    if (!takes) continue;
    check.require(args.captured[i].has_value(), "the kernel needs captured '{}'", manifest.captured[i].name);
    if (args.captured[i]) check_one_captured(check, manifest.captured[i], *args.captured[i], args, problem);
  }
}

}  // namespace

namespace {

/// Tables of an append kernel that rotates, which come in the places of captured tensors.
void check_rotary(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem) {
  const auto& [cosines, sines, positions, none] = args.captured;
  check.require(cosines && sines, "the kernel rotates: rotary_cos and rotary_sin are needed");
  if (!cosines || !sines) return;
  const bool ranked = cosines->shape.size() == 2 && cosines->shape[0] > 0;
  const std::int64_t half = ranked ? cosines->shape[1] : 0;
  check.require(
      half > 0 && half % 8 == 0 && 2 * half <= manifest.depth,
      "rotary_cos has shape {}; [positions, columns / 2] is needed, columns a multiple of 16 up to {}",
      show(cosines->shape), manifest.depth);
  if (half == 0) return;
  for (const auto& [name, table] : {std::pair{"rotary_cos", &*cosines}, std::pair{"rotary_sin", &*sines}}) {
    check_small(check, name, *table, manifest.dtype, cosines->shape, "that of rotary_cos");
    check_dense(check, name, *table, 0);
  }
  if (positions) {
    check_small(check, "rotary_seqlens", *positions, DType::i32, {problem.batch}, "[batch]");
    check_dense(check, "rotary_seqlens", *positions, 0);
  }
  problem.rotary_half = half;
  problem.rotary_positions = cosines->shape[0];
}

/// A position of each sequence.
void check_positions(Checker& check, const Manifest& manifest, const Problem& problem, const char* name,
                     const std::optional<Tensor>& given) {
  const bool takes = manifest.takes(name, kPointer);
  check.require(takes || !given, "{} was given, but the kernel takes none", name);
  check.require(!takes || given.has_value(), "the kernel needs {}", name);
  if (!takes || !given) return;
  check_small(check, name, *given, DType::i32, {problem.batch}, "[batch]");
  check_dense(check, name, *given, 0);
}

/// Sides of the mask that the launch gives, left padding, and where a part's rows stand.
void check_window(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;  // further than any key
  const auto side = [&](const char* name, std::int64_t value, std::int64_t least) {
    if (manifest.takes(name, KernelParam::Kind::i32)) {
      check.require(value >= least && value < kFar, "{} is {}; {} to {} is needed", name, value, least,
                    kFar - 1);
    } else {
      check.require(value == least, "{} was given, but the kernel's mask takes none", name);
    }
    return value < 0 ? kFar : value;
  };
  problem.window_left = side("window_left", args.window.left, -1);
  problem.window_right = side("window_right", args.window.right, -1);
  problem.window_chunk = side("window_chunk", args.window.chunk, 0);
  check_positions(check, manifest, problem, "first_keys", args.first_keys);
  check_positions(check, manifest, problem, "query_ends", args.query_ends);
}

}  // namespace

void check_modifiers(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem) {
  if (manifest.takes("rotary_cos", kPointer)) {
    check_rotary(check, manifest, args, problem);
  } else {
    check_captured(check, manifest, args, problem);
  }
  check_window(check, manifest, args, problem);
  if (manifest.takes("sink", kPointer)) {
    check.require(args.sink.has_value(), "the kernel needs sink, a logit for each query head");
    if (args.sink) {
      check_small(check, "sink", *args.sink, DType::f32, {problem.heads_q}, "[heads_q]");
      check_dense(check, "sink", *args.sink, 0);
    }
  } else {
    check.require(!args.sink, "sink was given, but the kernel takes none");
  }
  if (!manifest.takes("mask_bits", kPointer)) {
    check.require(!args.mask_bits, "mask_bits was given, but the kernel takes none");
    return;
  }
  check.require(args.mask_bits.has_value(), "the kernel needs mask_bits");
  if (!args.mask_bits) return;
  const Tensor& mask = *args.mask_bits;
  const bool ranked = mask.shape.size() == 4;
  const auto one_or = [&](std::size_t i, std::int64_t all) {
    return ranked && mask.shape[i] == 1 ? std::int64_t{1} : all;
  };
  const std::vector<std::int64_t> shape{one_or(0, problem.batch), one_or(1, problem.heads_q),
                                        problem.seqlen_q, (problem.seqlen_k + 31) / 32};
  check_small(check, "mask_bits", mask, DType::i32, shape,
              "[batch or 1, heads_q or 1, seqlen_q, ceil(seqlen_k / 32)]");
  if (mask.shape != shape || mask.strides.size() != 4) return;
  check.require(mask.strides[3] == 1 || mask.shape[3] <= 1, "mask_bits has stride {} in its last dimension",
                mask.strides[3]);
  const auto stride = [&](std::size_t i) { return mask.shape[i] > 1 ? mask.strides[i] : 0; };
  problem.key_capacity = std::min(problem.key_capacity, problem.seqlen_k);  // the words hold no more
  problem.mask_stride_batch = stride(0);
  problem.mask_stride_head = stride(1);
  problem.mask_words = stride(2);
  for (std::size_t i = 0; i < 3; ++i)
    check.require(stride(i) >= 0 && stride(i) <= kMaxInt, "mask_bits has stride {} in dimension {}",
                  mask.strides[i], i);
}

}  // namespace kiln
