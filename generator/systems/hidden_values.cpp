#include "generator/systems/hidden_values.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/ascii.hpp"
#include "base/integers.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln {
namespace {

/// Whether the expression has the variable `row`.
bool names_row(const std::string& expression) {
  return find_word(expression, "row") != std::string::npos;
}

/// Section of the prelude that reads two neighbours of this type.
const char* pairs_of(DType type) {
  if (type == DType::fp8_e4m3fnuz) return "bytes_fp8_fnuz";
  if (type == DType::fp4_e2m1) return "nibbles_e2m1";
  if (size_of(type) == 1) return type == DType::int8 ? "bytes_int8" : "bytes_fp8";
  return type == DType::bf16 ? "halves_bf16" : "halves_fp16";
}

/// How scales of a row are stored, the function that makes a float of one ("": it is one), and the end of that name which
/// looks at several.
struct ScaleType {
  const char *element, *value, *plural;
};
ScaleType scale_type(DType type) {
  if (type == DType::ue8m0) return {"u8", "ue8m0_value", "ue8m0"};
  if (type == DType::fp8_e4m3) return {"u8", "low_byte", "e4m3"};
  return {"float", "", "floats"};
}

/// Scales that a row of so many elements has.
int groups_of(const Quantization& quantization, int columns) {
  return quantization.granularity == Quantization::Granularity::per_block
             ? ceil_div(columns, quantization.block)
             : 1;
}

/// Members of an item, `s.x.y` and `work.x`, as variables: of a structure a function captures all.
class OwnVariables {
 public:
  void rename(std::string& text) {
    for (const std::string_view owner : {"s.", "work."}) {
      for (std::size_t at = text.find(owner); at != std::string::npos; at = text.find(owner, at + 1)) {
        if (at > 0 && is_ascii_word(text[at - 1])) continue;
        std::size_t end = at;
        while (end < text.size() && (is_ascii_word(text[end]) || text[end] == '.')) ++end;
        text.replace(at, end - at, name_of(text.substr(at, end - at)));
      }
    }
  }
  /// The declarations of those that `text` names, one a line.
  std::string lines(std::string_view text) const {
    std::string out;
    for (const auto& [name, line] : lines_)
      if (names(text, name)) out += "  " + line + "\n";
    return out;
  }

 private:
  std::string name_of(const std::string& member) {
    std::string name = "its_" + member;
    std::replace(name.begin(), name.end(), '.', '_');
    const std::string line = fmt::format("const int {} = {};", name, member);
    const auto known =
        std::any_of(lines_.begin(), lines_.end(), [&](const auto& l) { return l.first == name; });
    if (!known) lines_.emplace_back(name, line);
    return name;
  }
  static bool names(std::string_view text, std::string_view name) {
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1))
      if (at + name.size() == text.size() || !is_ascii_word(text[at + name.size()])) return true;
    return false;
  }
  std::vector<std::pair<std::string, std::string>> lines_;  ///< name and declaration
};

}  // namespace

std::optional<HiddenValues> HiddenValues::of(const Config& resolved, std::string pack, ScoreDialect dialect) {
  const auto& scales = resolved.operand->quantization;
  const bool by_row = scales_by_row(scales);
  if (!is_bounded(*resolved.mask) || (*resolved.kv_dtype == DType::int8 && !by_row)) return std::nullopt;
  // By hand the code of NaN reads as 480: there only scales of rows have special values.
  const bool by_hand = resolved.target == Target::gfx90a || resolved.target == Target::gfx942;
  if (by_hand && *resolved.kv_dtype == DType::fp8_e4m3) return std::nullopt;
  // 130 registers would leave a SIMD three waves, not four (bench/NOTES.md 150).
  const bool wave_less = resolved.target == Target::gfx942 && resolved.operation == Operation::decode &&
                         !by_row && size_of(resolved.dtype) == 2;
  if (wave_less && *resolved.kv_dtype == DType::fp8_e4m3fnuz) return std::nullopt;
  Shape shape{resolved.depth, *resolved.ov_depth, resolved.dtype, *resolved.out_dtype, std::move(pack)};
  shape.kv = *resolved.kv_dtype;
  shape.row_scales = by_row;
  shape.rope = resolved.depth - k_columns(resolved);
  if (by_row && scales->granularity == Quantization::Granularity::per_block) shape.block = scales->block;
  if (scales) shape.scale = scales->scale_dtype;
  return HiddenValues(shape, *resolved.mask, *resolved.score_mod, std::move(dialect));
}

HiddenValues::Place HiddenValues::place_of(const Config& resolved, const Names& names) {
  const OperandKind kind = resolved.operand->kind;
  const MHAOperand operand(kind, resolved.operand->page_size.value_or(1), 1);
  const bool ragged_q = operand_form(kind).ragged_q;
  const auto query_row = [&](const std::string& tensor) {
    const std::string rows =
        factor((ragged_q ? names.q_start + " + " : "") + names.query) + " * " + tensor + "_stride_seq";
    return tensor + (ragged_q ? "" : " + " + names.batch + " * " + tensor + "_stride_batch") + " + " + rows +
           " + " + factor(names.head) + " * " + tensor + "_stride_head";
  };
  const std::string column = *resolved.head_dim_offset == 0 ? "" : std::to_string(*resolved.head_dim_offset);
  const auto key_row = [&](const char* tensor) {
    return operand.base(tensor, names.batch, names.k_start, names.kv_head, column) + " + " +
           operand.row_offset(tensor, "page", "key");
  };
  Place place;
  place.query = names.query, place.head = names.head;
  place.q = query_row("q"), place.o = query_row("o");
  place.k = key_row("k"), place.v = resolved.v_from_k.value_or(false) ? place.k : key_row("v");
  if (has_rope_tensor(resolved)) place.k_rope = key_row("k_rope");
  if (has_rope_tail(resolved))
    place.k_rope =
        place.k + " + " +
        std::to_string(*resolved.rope->padded_depth / static_cast<int>(size_of(*resolved.kv_dtype)));
  if (operand.table()) place.page = operand.populate(names.batch, "key", "0", names.seqlen_k);
  if (const auto& scales = resolved.operand->quantization) {
    const std::string v = resolved.v_from_k.value_or(false) ? "k" : "v";
    const std::string head = "_scale[" + scale_of_head(*scales, names.batch, names.kv_head) + "]";
    place.k_scale = "k" + head, place.v_scale = v + head;
    if (scales_by_row(scales)) {
      const KeyNames of{names.batch, names.kv_head, names.k_start};
      place.k_scale = scales_of_key(*resolved.operand, "k", of, groups_of(*scales, k_columns(resolved)));
      place.v_scale = scales_of_key(*resolved.operand, v, of, groups_of(*scales, *resolved.ov_depth));
    }
    if (*resolved.kv_dtype == DType::fp4_e2m1)
      place.q_scale = " * kv_factors[0]", place.v_factor = " * kv_factors[1]";
    if (is_fp8(resolved.dtype))
      place.q_scale = " * q_scale[" + scale_of_query(*scales, names.batch, names.kv_head) + "]";
    // AMD's factors of scores hold the one scale of a head.
    if (is_amd(resolved.target) && !scales_by_row(scales)) place.k_scale.clear(), place.q_scale.clear();
  }
  if (*resolved.sink) place.sink = "sink[" + names.head + "]";
  place.batch = names.batch, place.seqlen_q = names.seqlen_q, place.seqlen_k = names.seqlen_k;
  return place;
}

HiddenValues::Place HiddenValues::place_of(const Config& resolved, Names names, const Packed& packed) {
  names.query = "row / group", names.head = names.kv_head + " * group + row % group";
  Place place = place_of(resolved, names);
  const std::string each = "((" + packed.rows + " + " + std::to_string(packed.warps - 1) + ") / " +
                           std::to_string(packed.warps) + ")";
  const auto row = [&](const std::string& number) {
    return packed.first + " + min(" + number + " * " + each + ", " + packed.rows + ")";
  };
  place.first_row = row(packed.warp), place.end_row = row("(" + packed.warp + " + 1)");
  const std::string keys = " * " + std::to_string(packed.keys);
  place.visited_begin = "s.sequence.first_tile" + keys;
  place.visited_end =
      "min((s.sequence.first_tile + s.sequence.num_tiles)" + keys + ", " + names.seqlen_k + ")";
  return place;
}

void HiddenValues::emit_look_at(Writer& w, const std::string& four) {
  w.line("odd = odd || !(fmaf({0}.x, {0}.y, {0}.z * {0}.w) * 0.0f == 0.0f);", four);
}

void HiddenValues::emit_block_repair(Writer& w, const Place& place, const std::string& flag,
                                     const std::string& sync) const {
  // Causality hides nothing from the last position.
  w.open("if (same({}))", mask_.bounded_below() ? "1" : place.seqlen_q + " > 1");
  w.line("if (any_lane(odd) && lane == 0) {} = 1;", flag);
  w.line("{}", sync);
  w.line("const int again = {};", flag);
  emit_repair(w, place, "again", "");
  w.open("if (same(again))");
  w.line("{}", sync);
  w.line("if (thread_id() == 0) {} = 0;", flag);
  w.close();
  w.close();
}

std::vector<std::string> HiddenValues::first_rows(const char* array, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; i += 4)
    for (int e = 0; e < 2; ++e) out.push_back(fmt::format("{}[{}]", array, i + e));
  return out;
}

ScoreLayout HiddenValues::one_score() {
  ScoreLayout layout;
  layout.registers = 1, layout.rows = 1, layout.columns = 1;
  layout.row = layout.column = [](int) { return 0; };
  layout.array = "score";
  return layout;
}

void HiddenValues::use(Prelude& prelude) const {
  prelude.use("lane_floats");
  prelude.use(pairs_of(shape_.type));
  prelude.use(pairs_of(shape_.kv));
  if (shape_.scale == DType::ue8m0) prelude.use("ue8m0_value"), prelude.use("finite_ue8m0");
  if (shape_.scale == DType::fp8_e4m3) prelude.use("bytes_fp8"), prelude.use("finite_e4m3");
  prelude.use("exp2_approx");
  prelude.use("rcp_approx");
  modifier_.use(prelude);
}

void HiddenValues::add_params(std::vector<KernelParam>& params, const Config& resolved) {
  using Kind = KernelParam::Kind;
  const auto add = [&](const KernelParam& added) {
    const bool there = std::any_of(params.begin(), params.end(), [&](const KernelParam& param) {
      return param.role == added.role && param.kind != Kind::tensor_map;
    });
    if (!there) params.push_back(added);
  };
  const OperandKind kind = resolved.operand->kind;
  for (const std::string tensor : {"q", "o"}) {
    add({Kind::pointer, tensor, {}});
    for (const char* axis : {"batch", "seq", "head"})
      if (operand_form(kind).batch_keys() || std::string_view(axis) != "batch")
        add({Kind::i64, tensor + "_stride_" + axis, {}});
  }
  const bool alias = resolved.v_from_k.value_or(false);
  for (const KernelParam& param : MHAOperand(kind, 1, 1).params())
    if (!alias || param.role.front() != 'v') add(param);
  if (has_rope_tensor(resolved))
    for (KernelParam param : MHAOperand(kind, 1, 1).params())
      if (param.role.front() == 'k') param.role = "k_rope" + param.role.substr(1), add(param);
  if (!resolved.operand->quantization) return;
  std::vector<KernelParam> scales;
  add_scale_pointers(scales, !alias);
  if (scales_by_row(resolved.operand->quantization)) add_scale_strides(scales, *resolved.operand, !alias);
  for (const KernelParam& param : scales) add(param);
}

void HiddenValues::emit_look(Writer& w, const std::vector<std::string>& elements, const char* odd) {
  w.comment(
      "NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells");
  w.line("float odd_0 = 0.0f, odd_1 = 0.0f;");
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2)
    w.line("odd_{0} = fmaf({1}, {2}, odd_{0});", i / 2 % 2, elements[i], elements[i + 1]);
  w.line("{} = !((odd_0 + odd_1) * 0.0f == 0.0f);", odd);
}

void HiddenValues::add_types(Holes& holes, const Place& place) const {
  const bool bytes = size_of(shape_.kv) == 1, q_bytes = size_of(shape_.type) == 1;
  const bool halves = shape_.kv == DType::fp4_e2m1;  // of a byte
  holes.text("word", halves ? "u8" : bytes ? "u16" : "u32").text("q_word", q_bytes ? "u16" : "u32");
  holes.text("low", halves ? "low_nibble" : bytes ? "low_byte" : "low_half");
  holes.text("high", halves ? "high_nibble" : bytes ? "high_byte" : "high_half");
  holes.text("q_low", q_bytes ? "low_byte" : "low_half").text("q_high", q_bytes ? "high_byte" : "high_half");
  std::string finite;
  if (shape_.kv != DType::int8 && !halves)
    finite = fmt::format("finite_{}((const u32*)({}), {})", bytes ? "bytes" : "halves", place.v,
                         shape_.ov_depth / (bytes ? 4 : 2));
  if (shape_.row_scales) {
    const int scales = shape_.block > 0 ? ceil_div(shape_.ov_depth, shape_.block) : 1;
    const std::string row =
        fmt::format("finite_{}({}, {})", scale_type(shape_.scale).plural, place.v_scale, scales);
    finite = finite.empty() ? row : fmt::format("({} && {})", finite, row);
  }
  holes.text("finite", finite);
}

void HiddenValues::add_scales(Holes& holes, const Place& place) const {
  const bool rows = shape_.row_scales, one = !rows && !place.k_scale.empty(), parts = shape_.block > 0;
  const bool one_of_v = !rows && !place.v_scale.empty();
  const auto group = [&](const std::string& pair) {
    return parts ? fmt::format("2 * ({}) / {}", pair, shape_.block) : std::string("0");
  };
  const std::string pair = fmt::format("min(lane_32 + 16 * i, {})", shape_.ov_depth / 2 - 1);
  const ScaleType type = scale_type(shape_.scale);
  const auto pointer = [&](const char* name, const std::string& at) {
    return fmt::format("const {}* const {} = {};", type.element, name, at);
  };
  const auto value = [&](const char* name, const std::string& index) {
    const std::string element = fmt::format("{}[{}]", name, index);
    return *type.value == '\0' ? element : fmt::format("{}({})", type.value, element);
  };
  holes.text("key_scales", parts ? pointer("key_scales", place.k_scale) : "");
  holes.text("value_scales", rows ? pointer("value_scales", place.v_scale) : "");
  holes.text("by_key", parts ? " * " + value("key_scales", group("i")) : "");
  holes.text("by_value", rows ? " * (seen ? " + value("value_scales", group(pair)) + " : 0.0f)" : "");
  holes.text("scale_score",
             parts  ? (place.q_scale.empty() ? "" : "score[0] *= " + place.q_scale.substr(3) + ";")
             : one  ? "score[0] *= " + place.k_scale + place.q_scale + ";"
             : rows ? "score[0] *= *(" + place.k_scale + ")" + place.q_scale + ";"
                    : "");
  holes.text("by_head", one_of_v ? " * " + place.v_scale : place.v_factor);
}

void HiddenValues::emit_repair(Writer& w, const Place& at, const std::string& when,
                               const std::string& before) const {
  Place place = at;
  OwnVariables own;
  if (shape_.apart) {
    for (std::string* text :
         {&place.first_row,   &place.end_row,  &place.query, &place.head,     &place.visited_begin,
          &place.visited_end, &place.q,        &place.o,     &place.page,     &place.k,
          &place.v,           &place.k_rope,   &place.sink,  &place.k_scale,  &place.v_scale,
          &place.q_scale,     &place.v_factor, &place.batch, &place.seqlen_q, &place.seqlen_k})
      own.rename(*text);
  }
  ScoreContext context;
  context.rows = {{place.query, place.head}};
  context.batch = place.batch;
  context.seqlen_q = place.seqlen_q, context.seqlen_k = place.seqlen_k;
  Writer rows, scores;
  modifier_.emit_rows(rows, context);
  modifier_.emit_apply(scores, context, "key");
  const auto lines = [](const Writer& writer) {
    std::string text = writer.text();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  };
  const std::string position = "(" + place.query + " + " + place.seqlen_k + " - " + place.seqlen_q + ")";
  const bool floats = shape_.out == DType::f32;
  Holes holes;
  holes.text("when", when).text("before", before);
  holes.text("first_row", place.first_row).text("end_row", place.end_row);
  holes.text("visited_begin", place.visited_begin).text("visited_end", place.visited_end);
  const std::string first_key = mask_.first_key(position, place.batch);
  const std::string end_key = mask_.end_key(position, place.seqlen_k, place.batch);
  holes.text("first_key", first_key).text("end_key", end_key);
  // A window that is open to one side has an end that no row changes.
  holes.text("end_row_name", names_row(end_key) || names_row(place.visited_end) ? "row = row_begin, " : "");
  holes.text("first_row_name", names_row(first_key) ? "row = row_end - 1, " : "");
  // A page that does not exist has rows of zeros: of another one instead, which are then not taken.
  const bool table = !place.page.empty();
  holes.text("page", table ? "const int found = " + place.page + ", page = max(found, 0);" : "");
  holes.text("there", table ? "found < 0 || " : "").text("exists", table ? "found >= 0 && " : "");
  holes.text("q", place.q).text("k", place.k).text("v", place.v).text("o", place.o);
  holes.text("modifier_rows", lines(rows)).text("modifier", lines(scores));
  holes.text("factor", modifier_.scale_log2()).text("sink", place.sink);
  holes.text("element", floats ? "float" : "u16").text("pack", shape_.pack);
  add_types(holes, place);
  add_scales(holes, place);
  holes.number("ov_depth", shape_.ov_depth).number("k_words", (shape_.depth - shape_.rope) / 2);
  holes.when("rope", shape_.rope > 0).number("rope_words", shape_.rope / 2).text("k_rope", place.k_rope);
  holes.number("v_words", shape_.ov_depth / 2).number("out", (shape_.ov_depth + 63) / 64 * 2);
  holes.when("table", table).when("sink", !place.sink.empty());
  holes.when("apart", shape_.apart);
  holes.when("floats", floats).when("bounded_below", mask_.bounded_below());
  const Lines text = fill_template("hidden_values.cuh", "repair_rows", holes);
  w.raw(fill_template("hidden_values.cuh", "repair", holes));
  w.raw(own.lines(text.text()));
  w.raw(text);
}

void HiddenGuard::use(Prelude& prelude) const {
  if (values_) values_->use(prelude);
}

void HiddenGuard::add_params(std::vector<KernelParam>& params, const Config& resolved) const {
  if (values_) HiddenValues::add_params(params, resolved);
}

void HiddenGuard::emit_page_functions(Writer& w, const Config& resolved) const {
  const auto& operand = *resolved.operand;
  if (values_) MHAOperand(operand.kind, operand.page_size.value_or(1), 1).emit_functions(w);
}

void HiddenGuard::emit_flag(Writer& w, const std::string& flag, const std::string& when) const {
  if (values_) w.line("{}{} = 0;", when.empty() ? "" : fmt::format("if ({}) ", when), flag);
}

void HiddenGuard::emit_odd(Writer& w) const {
  if (values_) w.line("bool odd = false;  // some column of O is not finite");
}

void HiddenGuard::emit_look(Writer& w, const std::vector<std::string>& elements, const char* odd) const {
  if (values_) HiddenValues::emit_look(w, elements, odd);
}

void HiddenGuard::emit_look_at(Writer& w, const std::string& four) const {
  if (values_) HiddenValues::emit_look_at(w, four);
}

void HiddenGuard::emit_block_repair(Writer& w, const Config& resolved, const HiddenValues::Names& names,
                                    const HiddenValues::Packed& packed, const std::string& flag,
                                    const std::string& sync) const {
  if (values_) values_->emit_block_repair(w, HiddenValues::place_of(resolved, names, packed), flag, sync);
}

void HiddenGuard::emit_repair(Writer& w, const HiddenValues::Place& place, const std::string& when,
                              const std::string& before) const {
  if (values_) values_->emit_repair(w, place, when, before);
}

}  // namespace kiln
