// Roles to values. A new role is one line in the table of its kind.
#include "runtime/launch/pack.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generator/config/quantization.hpp"
#include "generator/expression/expression.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln {
namespace {

template <class Value>
struct Role {
  std::string_view name;
  Value (*get)(const Problem&);
};
struct PointerRole {
  std::string_view name;
  Operand operand;
};
struct ScratchRole {
  std::string_view name;
  std::uint64_t ScratchAddresses::*member;
};

const Tensor* tensor_of(const AttentionArgs& args, std::string_view role) {
  if (role == "q") return &args.q;
  if (role == "k") return &args.k;
  if (role == "v") return &args.v;
  if (role == "o") return &args.o;
  if (role == "k_rope") return args.k_rope ? &*args.k_rope : &args.k;
  if (role == "k_scale") return args.k_scale ? &*args.k_scale : &args.k;
  if (role == "v_scale") return args.v_scale ? &*args.v_scale : &args.v;
  return nullptr;
}

/// The operand that tensor_of() gives, for roles of tensor maps.
Operand operand_of(const AttentionArgs& args, std::string_view role) {
  if (role == "q") return Operand::q;
  if (role == "v") return Operand::v;
  if (role == "o") return Operand::o;
  if (role == "k_rope" && args.k_rope) return Operand::k_rope;
  if (role == "k_scale" && args.k_scale) return Operand::k_scale;
  if (role == "v_scale") return args.v_scale ? Operand::v_scale : Operand::v;
  return Operand::k;
}

constexpr PointerRole kPointers[] = {
    {"q", Operand::q},
    {"k", Operand::k},
    {"k_rope", Operand::k_rope},
    {"v", Operand::v},
    {"o", Operand::o},
    {"lse", Operand::lse},
    {"cu_seqlens_q", Operand::cu_seqlens_q},
    {"cu_seqlens_k", Operand::cu_seqlens_k},
    {"page_table", Operand::page_table},
    {"seqlens_k", Operand::seqlens_k},
    {"q_scale", Operand::q_scale},
    {"k_scale", Operand::k_scale},
    {"v_scale", Operand::v_scale},
    {"sink", Operand::sink},
    {"mask_bits", Operand::mask_bits},
    {"first_keys", Operand::first_keys},
    {"kv_factors", Operand::kv_factors},
    {"query_ends", Operand::query_ends},
    {"rotary_cos", Operand::captured_0},  // of append kernels, which have no expression
    {"rotary_sin", Operand::captured_1},
    {"rotary_seqlens", Operand::captured_2},
};
constexpr ScratchRole kScratch[] = {
    {"tile_counter", &ScratchAddresses::tile_counter},
    {"item_counters", &ScratchAddresses::item_counters},
    {"workspace", &ScratchAddresses::workspace},
};

constexpr Role<std::int64_t> kIntegers[] = {
    {"batch", [](const Problem& p) { return p.batch; }},
    {"heads_q", [](const Problem& p) { return p.heads_q; }},
    {"heads_kv", [](const Problem& p) { return p.heads_kv; }},
    {"seqlen_q", [](const Problem& p) { return p.seqlen_q; }},
    {"seqlen_k", [](const Problem& p) { return p.seqlen_k; }},
    {"num_m_blocks", [](const Problem& p) { return p.num_m_blocks; }},
    {"num_tiles", [](const Problem& p) { return p.num_tiles; }},
    {"section_heads", [](const Problem& p) { return p.section_heads; }},
    {"total_q", [](const Problem& p) { return p.total_q; }},
    {"total_k", [](const Problem& p) { return p.total_k; }},
    {"team_heads", [](const Problem& p) { return p.team_heads; }},
    {"key_capacity", [](const Problem& p) { return p.key_capacity; }},
    {"page_table_stride", [](const Problem& p) { return p.page_table_stride; }},
    {"num_pages", [](const Problem& p) { return p.num_pages; }},
    {"page_size", [](const Problem& p) { return p.page_size; }},
    {"k_page_eights", [](const Problem& p) { return p.k_page_eights; }},
    {"v_page_eights", [](const Problem& p) { return p.v_page_eights; }},
    {"k_page_rows", [](const Problem& p) { return p.k_rows.page_rows; }},
    {"k_token_rows", [](const Problem& p) { return p.k_rows.token_rows; }},
    {"k_head_columns", [](const Problem& p) { return p.k_rows.head_columns; }},
    {"v_page_rows", [](const Problem& p) { return p.v_rows.page_rows; }},
    {"v_token_rows", [](const Problem& p) { return p.v_rows.token_rows; }},
    {"v_head_columns", [](const Problem& p) { return p.v_rows.head_columns; }},
    {"k_rope_page_rows", [](const Problem& p) { return p.rope_rows.page_rows; }},
    {"k_rope_token_rows", [](const Problem& p) { return p.rope_rows.token_rows; }},
    {"k_rope_head_columns", [](const Problem& p) { return p.rope_rows.head_columns; }},
    {"mask_stride_batch", [](const Problem& p) { return p.mask_stride_batch; }},
    {"mask_stride_head", [](const Problem& p) { return p.mask_stride_head; }},
    {"mask_words", [](const Problem& p) { return p.mask_words; }},
    {"window_left", [](const Problem& p) { return p.window_left; }},
    {"window_right", [](const Problem& p) { return p.window_right; }},
    {"window_chunk", [](const Problem& p) { return p.window_chunk; }},
    {"rotary_half", [](const Problem& p) { return p.rotary_half; }},
    {"rotary_positions", [](const Problem& p) { return p.rotary_positions; }},
    {"num_kv_stages", [](const Problem& p) { return p.num_kv_stages; }},
    {"launch_before", [](const Problem& p) { return static_cast<std::int64_t>(p.before); }},
};

constexpr Role<float> kFloats[] = {
    {"scale", [](const Problem& p) { return p.scale; }},
    {"scale_log2", [](const Problem& p) { return p.scale_log2; }},
};

template <class R, std::size_t N>
const R* find(const R (&table)[N], std::string_view name) {
  for (const R& role : table) {
    if (role.name == name) return &role;
  }
  return nullptr;
}

/// Rows whole, cut into eights, of all pages by their numbers, or twice: those of a box, and the place behind its last
/// (clip_rows).
bool is_row_axis(std::string_view axis) {
  return axis == "seq" || axis == "row" || axis == "eight" || axis == "gathered" || axis == "tail" ||
         axis == "end";
}

bool is_axis(std::string_view axis) {
  return axis == "depth" || axis == "panel" || axis == "head" || is_row_axis(axis) || axis == "batch" ||
         axis == "page";
}

bool is_scale(std::string_view tensor) {
  return tensor == "k_scale" || tensor == "v_scale";
}

/// Position of an axis in the shape of a tensor (or of its scales), or -1 for one that it has not.
int axis_index(std::string_view axis, std::string_view tensor, OperandKind kind) {
  // Scales by head: [batch or page, heads, seq], ragged [heads, seq]. Of others only the first axis is asked.
  if (is_scale(tensor) && (axis == "head" || axis == "seq"))
    return (axis == "head" ? 1 : 2) - (operand_form(kind).ragged_k() ? 1 : 0);
  const bool query = tensor == "q" || tensor == "o";
  const bool pages = !query && operand_form(kind).table();
  const bool ragged = query ? operand_form(kind).ragged_q : operand_form(kind).ragged_k();
  if (axis == "depth") return ragged ? 2 : 3;
  if (axis == "head") return ragged ? 1 : 2;
  if (is_row_axis(axis)) return ragged ? 0 : 1;
  if (axis == "batch") return ragged || pages ? -1 : 0;
  if (axis == "page") return pages ? 0 : -1;
  return -1;
}

/// "k_stride_head" as tensor and axis.
struct StrideRole {
  std::string_view tensor, axis;
};
std::optional<StrideRole> parse_stride(std::string_view role) {
  constexpr std::string_view kInfix = "_stride_";
  const std::size_t at = role.find(kInfix);
  if (at == std::string_view::npos) return std::nullopt;
  const StrideRole parsed{role.substr(0, at), role.substr(at + kInfix.size())};
  const bool leading = parsed.axis == "batch" || parsed.axis == "page";
  if (!leading && parsed.axis != "head" && (is_scale(parsed.tensor) || parsed.axis != "seq"))
    return std::nullopt;
  return parsed;
}

/// Byte stride of an axis. That of an axis of one element (or of none: `axis` < 0), or of a tensor of none,
/// is free, and callers leave anything there: take one that the driver accepts.
std::uint64_t stride_bytes(const Tensor& tensor, int axis) {
  const std::uint64_t element = size_of(tensor.dtype);
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  if (axis >= 0 && !empty && tensor.shape[static_cast<std::size_t>(axis)] > 1) {
    return static_cast<std::uint64_t>(tensor.strides[static_cast<std::size_t>(axis)]) * element;
  }
  std::uint64_t span = static_cast<std::uint64_t>(tensor.shape.back()) * element;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    if (tensor.shape[i] <= 1) continue;
    span = std::max(span, static_cast<std::uint64_t>(tensor.shape[i] * tensor.strides[i]) * element);
  }
  return std::max<std::uint64_t>((span + 15) / 16 * 16, 16);
}

/// An axis of panels cuts the columns, which are whole ones, into those of the box.
void fold_columns(const TensorMapSpec& spec, TensorMapRequest& request) {
  for (std::size_t i = 1; i < spec.dims.size(); ++i) {
    if (spec.dims[i].axis != "panel") continue;
    request.extents[i] = request.extents[0] / request.box[0];
    request.strides[i - 1] = request.box[0] * size_of(request.dtype);
    request.extents[0] = request.box[0];
  }
}

/// Eights of rows run over all pages, whose distance is a whole number of them.
void fold_rows(const TensorMapSpec& spec, const Problem& problem, std::int64_t page_eights,
               TensorMapRequest& request) {
  for (std::size_t i = 1; i < spec.dims.size(); ++i) {
    if (spec.dims[i].axis == "row") request.extents[i] = 8;
    if (spec.dims[i].axis != "eight") continue;
    request.extents[i] =
        static_cast<std::uint64_t>((problem.num_pages - 1) * page_eights + problem.page_size / 8);
    request.strides[i - 1] *= 8;
  }
}

/// Rows that a kernel names by number: those of all pages, as wide as the columns of all heads.
void number_rows(const TensorMapSpec& spec, const Tensor& tensor, const GatheredRows& rows,
                 TensorMapRequest& request) {
  if (spec.dims.size() != 2 || spec.dims[1].axis != "gathered") return;
  const std::uint64_t element = size_of(tensor.dtype);
  const auto heads = static_cast<std::uint64_t>(std::max<std::int64_t>(tensor.shape[2], 1));
  request.extents[0] +=
      (heads - 1) * static_cast<std::uint64_t>(rows.head_columns) * element / size_of(request.dtype);
  request.extents[1] = static_cast<std::uint64_t>(rows.rows);
  if (rows.stride > 0) request.strides[0] = static_cast<std::uint64_t>(rows.stride) * element;
}

/// Boxes that end with a sequence: rows from as many before the first as a box has, and one place more than there are
/// rows. How far the map begins before the tensor, in bytes.
std::uint64_t clip_rows(const TensorMapSpec& spec, TensorMapRequest& request) {
  std::uint64_t before = 0;
  for (std::size_t i = 1; i < spec.dims.size(); ++i) {
    if (spec.dims[i].axis == "end") ++request.extents[i];
    if (spec.dims[i].axis != "tail") continue;
    request.extents[i] = request.box[i];
    before = request.box[i] * request.strides[i - 1];
  }
  return before;
}

void add_map(const Manifest& manifest, const KernelParam& param, const AttentionArgs& args,
             const Problem& problem, PackedParams& out) {
  const TensorMapSpec& spec = param.map;
  const std::string_view role = param.role;
  const Tensor& tensor = *tensor_of(args, role);
  // Of longer rows the map shows just the columns that are read: copies past them bring zeros.
  const bool rope = role == "k_rope" && !manifest.own_rope();
  const bool window = manifest.cache_depth > 0 && (rope || role == "k" || role == "v");
  TensorMapRequest request;
  std::uint64_t shift = 0;
  if (window) shift += static_cast<std::uint64_t>(manifest.head_dim_offset) * size_of(tensor.dtype);
  if (rope) shift += static_cast<std::uint64_t>(manifest.rope->padded_depth);
  request.dtype = rope ? manifest.rope->dtype : tensor.dtype;
  request.rank = static_cast<int>(spec.dims.size());
  request.swizzle_bytes = spec.swizzle_bytes;
  request.l2_promotion_bytes = spec.l2_promotion_bytes;
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    const int axis = axis_index(spec.dims[i].axis, role, problem.kind);
    request.extents[i] =
        axis < 0 ? 1 : static_cast<std::uint64_t>(tensor.shape[static_cast<std::size_t>(axis)]);
    request.box[i] = static_cast<std::uint32_t>(spec.dims[i].box);
    if (i > 0) request.strides[i - 1] = stride_bytes(tensor, axis);
  }
  if (window) {
    request.extents[0] = static_cast<std::uint64_t>(rope          ? manifest.rope->depth
                                                    : role == "k" ? manifest.k_columns()
                                                                  : manifest.ov_depth);
  }
  fold_columns(spec, request);
  fold_rows(spec, problem, role == "v" ? problem.v_page_eights : problem.k_page_eights, request);
  number_rows(spec, tensor,
              role == "v"                 ? problem.v_rows
              : role == "k_rope" && !rope ? problem.rope_rows
                                          : problem.k_rows,
              request);
  shift -= clip_rows(spec, request);
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  if (empty) {
    // A block asks for one tile even of no keys, so that O gets written, and uses nothing of what comes. The
    // driver refuses extent 0: one chunk of Q stands for the tensor, and the rest is past its ends.
    request.extents.fill(1);
    request.extents[0] = 16 / size_of(request.dtype);
    out.add_map(Operand::q, 0, request);
    return;
  }
  out.add_map(operand_of(args, role), shift, request);
}

/// Of q, k, v and o by their columns, of scales by their tokens, where those of a head are contiguous.
bool known_map(const Manifest& manifest, const KernelParam& param) {
  const bool scale = is_scale(param.role);
  if (tensor_of({}, param.role) == nullptr || param.map.dims.empty() || param.map.dims.size() > 5)
    return false;
  const bool rope = param.role == "k_rope" && manifest.rope;
  if (scale ? !scales_by_head(manifest.quantization) : param.role.size() != 1 && !rope) return false;
  for (std::size_t i = 0; i < param.map.dims.size(); ++i) {
    const std::string& axis = param.map.dims[i].axis;
    if (!is_axis(axis) || (scale && (axis == "depth" || axis == "panel"))) return false;
    if (i == 0 && axis != (scale ? "seq" : "depth")) return false;
  }
  return true;
}

static_assert(kCaptured == expression::kMaxTensors);

/// struct Captured of the emitted source: KernelParam says what lies where.
void add_captured(const Manifest& manifest, const AttentionArgs& args, PackedParams& out) {
  std::vector<std::byte> bytes;
  std::vector<std::pair<std::size_t, Operand>> operands;
  const auto add = [&bytes](const auto& value) {
    const std::size_t at = (bytes.size() + sizeof value - 1) / sizeof value * sizeof value;
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return at;
  };
  for (std::size_t i = 0; i < manifest.captured.size(); ++i) {
    const Tensor& tensor = *args.captured[i];
    operands.emplace_back(add(std::uint64_t{0}), captured_operand(i));
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      add(tensor.shape[d] > 1 ? tensor.strides[d] : std::int64_t{0});
    for (const std::int64_t extent : tensor.shape) add(static_cast<std::int32_t>(extent - 1));
  }
  bytes.resize((bytes.size() + 7) / 8 * 8);
  out.add_struct(bytes, operands);
}

}  // namespace

void check_roles(const Manifest& manifest) {
  std::size_t bytes = 0;
  for (const KernelParam& param : manifest.params) {
    bool known = false;
    switch (param.kind) {
      case KernelParam::Kind::tensor_map: {
        known = known_map(manifest, param);
        bytes += 128;
        break;
      }
      case KernelParam::Kind::pointer:
        known = find(kPointers, param.role) != nullptr || find(kScratch, param.role) != nullptr;
        break;
      case KernelParam::Kind::i32:
        known = find(kIntegers, param.role) != nullptr;
        break;
      case KernelParam::Kind::f32:
        known = find(kFloats, param.role) != nullptr;
        break;
      case KernelParam::Kind::captured:
        known = param.role == "captured" && !manifest.captured.empty();
        bytes += kCaptured * (8 + expression::kMaxRank * 12);
        break;
      case KernelParam::Kind::i64: {
        const auto stride = parse_stride(param.role);
        known =
            stride && (stride->tensor != "k_rope" || manifest.own_rope()) &&
            tensor_of({}, stride->tensor) != nullptr &&
            (stride->axis != "head" || !is_scale(stride->tensor) || scales_by_head(manifest.quantization));
        break;
      }
    }
    bytes += 8;
    if (!known) {
      throw Error(ErrorCode::bad_input, fmt::format("{}: the runtime does not know the parameter role \"{}\"",
                                                    manifest.name, param.role));
    }
  }
  if (manifest.params.size() > LaunchParams::kMaxParams || bytes + 64 > LaunchParams::kMaxBytes) {
    throw Error(ErrorCode::bad_input, manifest.name + ": more parameters than a launch can carry");
  }
}

void pack_params(const Manifest& manifest, const AttentionArgs& args, const Problem& problem,
                 PackedParams& out) {
  for (const KernelParam& param : manifest.params) {
    switch (param.kind) {
      case KernelParam::Kind::tensor_map:
        add_map(manifest, param, args, problem, out);
        break;
      case KernelParam::Kind::pointer:
        if (const ScratchRole* scratch = find(kScratch, param.role); scratch != nullptr) {
          out.add_scratch(scratch->member);
        } else {
          out.add_pointer(find(kPointers, param.role)->operand);
        }
        break;
      case KernelParam::Kind::i32:
        out.add(static_cast<std::int32_t>(find(kIntegers, param.role)->get(problem)));
        break;
      case KernelParam::Kind::f32:
        out.add(find(kFloats, param.role)->get(problem));
        break;
      case KernelParam::Kind::captured:
        add_captured(manifest, args, out);
        break;
      case KernelParam::Kind::i64: {
        const StrideRole role = *parse_stride(param.role);
        const int axis = axis_index(role.axis, role.tensor, problem.kind);
        const Tensor& tensor = *tensor_of(args, role.tensor);
        out.add(axis < 0 ? std::int64_t{0} : tensor.strides[static_cast<std::size_t>(axis)]);
        break;
      }
    }
  }
}

}  // namespace kiln
