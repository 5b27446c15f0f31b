#include "generator/systems/hidden_values.hpp"

#include <algorithm>
#include <cctype>

#include "generator/emit/text_template.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln {
namespace {

/// Whether the expression has the variable `row`.
bool names_row(const std::string& expression) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = expression.find("row"); at != std::string::npos;
       at = expression.find("row", at + 1)) {
    const std::size_t after = at + 3;
    if ((at == 0 || !part(expression[at - 1])) && (after == expression.size() || !part(expression[after])))
      return true;
  }
  return false;
}

const char* halves_of(DType type) {
  return type == DType::bf16 ? "halves_bf16" : "halves_fp16";
}

}  // namespace

std::optional<HiddenValues> HiddenValues::of(const Config& resolved, std::string pack, ScoreDialect dialect) {
  if (!is_bounded(*resolved.mask) || size_of(*resolved.kv_dtype) != 2) return std::nullopt;
  return HiddenValues(
      {resolved.depth, *resolved.ov_depth, resolved.dtype, *resolved.out_dtype, std::move(pack)},
      *resolved.mask, *resolved.score_mod, std::move(dialect));
}

HiddenValues::Place HiddenValues::place_of(const Config& resolved, const Names& names) {
  const OperandKind kind = resolved.operand->kind;
  const MHAOperand operand(kind, resolved.operand->page_size.value_or(1), 1);
  const bool ragged_q = operand_form(kind).ragged_q;
  const auto query_row = [&](const std::string& tensor) {
    const std::string rows =
        "(" + (ragged_q ? names.q_start + " + " : "") + names.query + ") * " + tensor + "_stride_seq";
    return tensor + (ragged_q ? "" : " + " + names.batch + " * " + tensor + "_stride_batch") + " + " + rows +
           " + (" + names.head + ") * " + tensor + "_stride_head";
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
  if (operand.table()) place.page = operand.populate(names.batch, "key", "0", names.seqlen_k);
  if (*resolved.sink) place.sink = "sink[" + names.head + "]";
  place.batch = names.batch, place.seqlen_q = names.seqlen_q, place.seqlen_k = names.seqlen_k;
  return place;
}

HiddenValues::Place HiddenValues::place_of(const Config& resolved, Names names, const Packed& packed) {
  names.query = "row / group", names.head = names.kv_head + " * group + row % group";
  Place place = place_of(resolved, names);
  const std::string each =
      "((rows + " + std::to_string(packed.warps - 1) + ") / " + std::to_string(packed.warps) + ")";
  const auto row = [&](const std::string& number) {
    return packed.first + " + min(" + number + " * " + each + ", rows)";
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
  prelude.use(halves_of(shape_.type));
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
}

void HiddenValues::emit_look(Writer& w, const std::vector<std::string>& elements, const char* odd) {
  w.comment(
      "NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells");
  w.line("float odd_0 = 0.0f, odd_1 = 0.0f;");
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2)
    w.line("odd_{0} = fmaf({1}, {2}, odd_{0});", i / 2 % 2, elements[i], elements[i + 1]);
  w.line("{} = !((odd_0 + odd_1) * 0.0f == 0.0f);", odd);
}

void HiddenValues::emit_repair(Writer& w, const Place& place, const std::string& when,
                               const std::string& before) const {
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
  holes.number("ov_depth", shape_.ov_depth).number("k_words", shape_.depth / 2);
  holes.number("v_words", shape_.ov_depth / 2).number("out", (shape_.ov_depth + 63) / 64 * 2);
  holes.when("table", table).when("sink", !place.sink.empty());
  holes.when("floats", floats).when("bounded_below", mask_.bounded_below());
  w.raw(fill_template("hidden_values.cuh", "repair", holes));
}

}  // namespace kiln
