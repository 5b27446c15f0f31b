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

/// Rows whole, cut into eights, or twice: those of a box, and the place behind its last (clip_rows).
bool is_row_axis(std::string_view axis) {
  return axis == "seq" || axis == "row" || axis == "eight" || axis == "tail" || axis == "end";
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

}  // namespace

void PackedParams::add_bytes(const void* data, std::size_t size, std::size_t align) {
  const std::size_t offset = (bytes_.size() + align - 1) / align * align;
  if (offsets_.size() == LaunchParams::kMaxParams || offset + size > LaunchParams::kMaxBytes) {
    throw Error(ErrorCode::internal, "a kernel asks for more parameters than a launch can carry");
  }
  bytes_.resize(offset + size);
  std::memcpy(bytes_.data() + offset, data, size);
  offsets_.push_back(offset);
  sizes_.push_back(static_cast<std::uint32_t>(size));
}

void PackedParams::add_pointer(Operand operand) {
  add(std::uint64_t{0});
  pointers_.push_back({last_offset(), operand});
}

void PackedParams::add_struct(const std::vector<std::byte>& bytes,
                              const std::vector<std::pair<std::size_t, Operand>>& operands) {
  add_bytes(bytes.data(), bytes.size(), alignof(std::uint64_t));
  for (const auto& [offset, operand] : operands) pointers_.push_back({last_offset() + offset, operand});
}

void PackedParams::add_scratch(std::uint64_t ScratchAddresses::*member) {
  add(std::uint64_t{0});
  scratch_.push_back({last_offset(), member});
}

void PackedParams::add_map(Operand operand, std::uint64_t shift, const TensorMapRequest& request) {
  const TensorMapBytes open{};
  add_bytes(open.data(), open.size(), 64);
  maps_.push_back({last_offset(), operand, shift, request});
}

const TensorMapBytes& PackedParams::encoded(Map& map, std::uint64_t address, Device& device) {
  for (const Encoded& known : map.recent) {
    if (known.valid && known.address == address) return known.bytes;
  }
  Encoded& slot = map.recent[map.next];
  map.next = (map.next + 1) % map.recent.size();
  slot.valid = false;
  map.request.address = address;
  slot.bytes = device.encode(map.request);
  slot.address = address;
  slot.valid = true;
  return slot.bytes;
}

ParamView PackedParams::fill(const std::array<std::uint64_t, kOperands>& addresses,
                             const ScratchAddresses& scratch, Device& device, LaunchParams& out) {
  std::memcpy(out.bytes.data(), bytes_.data(), bytes_.size());
  for (const Pointer& pointer : pointers_) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(pointer.operand)];
    std::memcpy(out.bytes.data() + pointer.offset, &address, sizeof address);
  }
  for (const ScratchPointer& pointer : scratch_) {
    const std::uint64_t address = scratch.*pointer.member;
    std::memcpy(out.bytes.data() + pointer.offset, &address, sizeof address);
  }
  for (Map& map : maps_) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(map.operand)] + map.shift;
    const TensorMapBytes& bytes = encoded(map, address, device);
    std::memcpy(out.bytes.data() + map.offset, bytes.data(), bytes.size());
  }
  for (std::size_t i = 0; i < offsets_.size(); ++i) out.addresses[i] = out.bytes.data() + offsets_[i];
  return {{out.addresses.data(), offsets_.size()}, sizes_};
}

namespace {

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

std::int64_t most_blocks(const Manifest& manifest, int num_sms) {
  return std::int64_t{std::max(num_sms, 1)} * std::max(manifest.grid.ctas_per_sm, 1);
}

namespace {

/// Keys and values that a stream_k launch reads, at most `megabytes` for each multiprocessor.
bool reads_at_most(int megabytes, const Manifest& manifest, const Problem& problem, int num_sms) {
  const bool v_in_k = std::none_of(manifest.params.begin(), manifest.params.end(),
                                   [](const KernelParam& param) { return param.role == "v"; });
  const std::int64_t tile_bytes = std::int64_t{manifest.grid.block_keys} *
                                  (manifest.depth + (v_in_k ? 0 : manifest.ov_depth)) *
                                  static_cast<std::int64_t>(size_of(manifest.kv_dtype));
  return problem.num_tiles * problem.kv_tiles * tile_bytes <=
         (std::int64_t{megabytes} << 20) * std::max(num_sms, 1);
}

/// Parts of 64 rows of a latent cache's output, sm_90a's two warpgroups, which all blocks add up together.
bool has_large_parts(const Manifest& manifest) {
  return manifest.target == "sm_90a" && manifest.grid.block_rows >= 64 && manifest.ov_depth > 256;
}

}  // namespace

void settle_stages(const Manifest& manifest, int num_sms, Residency residency, Problem& problem) {
  if (!manifest.stages) return;
  const Manifest::Stages& stages = *manifest.stages;
  problem.alone =
      residency == Residency::alone || (residency == Residency::by_work && problem.max_blocks == 0 &&
                                        reads_at_most(stages.alone_megabytes, manifest, problem, num_sms));
  problem.num_kv_stages = problem.alone ? stages.alone : stages.shared;
}

std::int64_t stream_blocks(const Manifest& manifest, const Problem& problem, int num_sms) {
  constexpr std::int64_t kFewTiles = 4;
  const std::int64_t most = most_blocks(manifest, num_sms);
  const bool few =
      problem.alone || (manifest.target == "sm_90a" && !manifest.stages && size_of(manifest.kv_dtype) > 1 &&
                        problem.num_tiles * problem.kv_tiles < kFewTiles * most);
  const std::int64_t blocks = few ? std::max(num_sms, 1) : most;
  return problem.max_blocks > 0 ? std::min(blocks, problem.max_blocks) : blocks;
}

std::int64_t choose_team(const Manifest& manifest, const Problem& problem, int num_sms) {
  if (manifest.grid.kind != GridRule::Kind::stream_k || !manifest.takes("team_heads")) return 1;
  const std::int64_t blocks = stream_blocks(manifest, problem, num_sms);
  const std::int64_t tiles = problem.heads_kv * std::max<std::int64_t>(problem.num_m_blocks, 1);
  for (std::int64_t team = std::min(tiles, blocks); team > 1; --team) {
    if (tiles % team == 0 && 25 * (blocks % team) <= blocks) return team;
  }
  return 1;
}

std::int64_t even_blocks(const Manifest& manifest, const Problem& problem, int num_sms) {
  const int most_megabytes = has_large_parts(manifest) ? 16 : 4;  // bench/NOTES.md 107, 118
  constexpr std::int64_t kMostParts = 32;
  const std::int64_t blocks = stream_blocks(manifest, problem, num_sms);
  const std::int64_t team = std::max<std::int64_t>(problem.team_heads, 1);
  const std::int64_t teams = blocks / team, items = problem.num_tiles / team;
  constexpr std::int64_t kFewTiles = 4;
  if (has_large_parts(manifest) && items > 0 && problem.max_blocks == 0 && items <= teams) {
    // As few parts as leave the longest as short: of few tiles, one more is a large share.
    const std::int64_t each = (problem.kv_tiles + teams / items - 1) / (teams / items);
    const std::int64_t parts = (problem.kv_tiles + each - 1) / each;
    if (each <= kFewTiles || 20 * items * parts >= 19 * teams) return items * parts * team;
  }
  if (items == 0 || problem.max_blocks > 0 || !reads_at_most(most_megabytes, manifest, problem, num_sms))
    return blocks;
  for (std::int64_t t = teams; 20 * t >= 19 * teams && t > 0; --t) {
    const bool whole = items % t == 0, divided = t % items == 0 && t / items <= kMostParts;
    if (whole || divided) return t * team;
  }
  return blocks;
}

bool waits_for_launch_before(const Manifest& manifest) {
  return std::any_of(
      manifest.expectations.begin(), manifest.expectations.end(),
      [](const Manifest::Expectation& e) { return e.instruction == "griddepcontrol.wait" && e.count > 0; });
}

std::array<MemoryRange, kLaunchTables> tables_of(const AttentionArgs& args) {
  std::array<MemoryRange, kLaunchTables> ranges{};
  std::size_t count = 0;
  for (const auto* tensor : {&args.cu_seqlens_q, &args.cu_seqlens_k, &args.seqlens_k, &args.page_table,
                             &args.first_keys, &args.query_ends}) {
    if (!*tensor) continue;
    const Tensor& t = **tensor;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < t.shape.size(); ++i) elements += (t.shape[i] - 1) * t.strides[i];
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(elements, 0)) * size_of(t.dtype);
    ranges[count++] = {t.address, bytes};
  }
  return ranges;
}

LaunchGeometry make_geometry(const Manifest& manifest, const Problem& problem, int num_sms) {
  LaunchGeometry geometry;
  const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const std::array<int, 3>& cluster = manifest.cluster;
  if (manifest.grid.kind == GridRule::Kind::tiles) {
    geometry.grid = {narrow(problem.num_m_blocks), narrow(problem.heads_q), narrow(problem.batch)};
  } else if (manifest.grid.kind == GridRule::Kind::stream_k) {
    const std::int64_t tiles = problem.num_tiles * problem.kv_tiles;
    geometry.grid = {narrow(std::min(tiles, even_blocks(manifest, problem, num_sms))), 1, 1};
  } else {
    // A work item belongs to a whole cluster; at least one cluster even where the device claims fewer SMs.
    const std::int64_t size = std::max(cluster[0], 1);
    const std::int64_t all = std::int64_t{num_sms} * std::max(manifest.grid.ctas_per_sm, 1);
    const std::int64_t slots =
        (problem.max_blocks > 0 ? std::min(all, problem.max_blocks) : all) / size * size;
    geometry.grid = {narrow(std::min(problem.num_tiles * size, std::max(slots, size))), 1, 1};
  }
  for (std::size_t i = 0; i < 3; ++i) {
    // Whole clusters only: blocks past the last tile find nothing to do.
    const auto size = static_cast<std::uint32_t>(std::max(cluster[i], 1));
    geometry.cluster[i] = size;
    geometry.grid[i] = (geometry.grid[i] + size - 1) / size * size;
  }
  geometry.block = {static_cast<std::uint32_t>(manifest.num_threads), 1, 1};
  const bool shared = manifest.stages && !problem.alone;
  geometry.smem_bytes =
      static_cast<std::uint32_t>(shared ? manifest.stages->shared_smem_bytes : manifest.smem_bytes);
  geometry.programmatic = waits_for_launch_before(manifest);
  geometry.before = problem.before;
  return geometry;
}

}  // namespace kiln
