#include "generator/systems/stream_k.hpp"

#include <utility>
#include <vector>

#include "generator/operands/operand_form.hpp"
#include "generator/systems/mask.hpp"

namespace kiln {

std::string StreamK::times_parts() const {
  return fixed() ? fmt::format(" * {}", shape_.parts) : "";
}

std::vector<StreamK::Member> StreamK::members() const {
  std::vector<Member> m;
  if (ragged_q()) m.push_back({"const int*", "cu_seqlens_q"});
  if (operand_form(shape_.kind).ragged_k()) m.push_back({"const int*", "cu_seqlens_k"});
  if (!operand_form(shape_.kind).ragged_k()) m.push_back({"const int*", "seqlens_k"});
  if (positions_) m.push_back({"const int*", "query_ends"});
  for (const char* role : {"batch", "heads_q", "heads_kv", "seqlen_q"}) m.push_back({"int", role});
  if (operand_form(shape_.kind).batch_keys()) m.push_back({"int", "seqlen_k"});
  if (has_pages()) m.push_back({"int", "key_capacity"});
  if (!by_rows()) m.push_back({"int", "team_heads"});
  if (!shape_.before_lengths.empty()) m.push_back({"int", "launch_before"});
  if (shape_.mask.left_padding) m.push_back({"const int*", "first_keys"});
  for (const char* side : Mask(shape_.mask, {}).launch_sides()) m.push_back({"int", side});
  return m;
}

std::vector<StreamK::Member> StreamK::of_segments() const {
  if (by_rows())
    return {{"int", "range.round"},       {"int", "range.total"}, {"int", "range.batch"},
            {"int", "range.batch_start"}, {"int", "s.kv_head"},   {"int", "s.sequence.q_start"}};
  std::vector<Member> m;
  for (const char* role : {"range.position", "range.end", "range.total", "range.teams", "range.cell",
                           "range.batch_start", "s.item_start"})
    m.push_back({"unsigned", role});
  for (const char* role : {"range.slots", "range.m_blocks", "range.batch", "range.first", "s.batch",
                           "s.kv_head", "s.item", "s.whole", "s.sequence.q_start", "s.sequence.num_tiles"})
    m.push_back({"int", role});
  m.push_back({"int", fixed() ? "s.part" : "s.second_slot"});
  return m;
}

void StreamK::use(Prelude& prelude) {
  prelude.use("warp_names");
}

std::string StreamK::wait_for_lengths() const {
  if (shape_.before_lengths.empty()) return {};
  return fmt::format(
      "// 0: the launch before may yet write the lengths; 1: not them; 2: nothing that this one touches\n"
      "if (problem.launch_before == 0{}) {}\n",
      operand_form(shape_.kind).batch_keys() && !shape_.mask.left_padding ? " && problem.seqlens_k != nullptr"
                                                                          : "",
      shape_.before_lengths);
}

Holes StreamK::holes() const {
  std::string lines;
  for (const Member& m : members()) lines += fmt::format("{} {};\n", m.type, m.role);
  const Mask mask(shape_.mask, {});
  const std::string first_row = fmt::format("s.m_block * {} / group", shape_.BM);
  Holes out;
  out.number("BM", shape_.BM).number("BN", shape_.BN).number("parts", shape_.parts);
  out.number("dynamic_from", kDynamicFrom);
  out.text("members", std::move(lines)).text("wait_for_lengths", wait_for_lengths());
  out.text("block", block()).text("blocks", of_clusters("grid_blocks()"));
  out.text("uniform", std::string(shape_.uniform)).text("times_parts", times_parts());
  const std::string before = fmt::format("(before + {})", first_row), seqlen_k = "s.sequence.seqlen_k";
  out.text("first_key", mask.first_read(before, seqlen_k, "s.batch", "problem."));
  out.text("end_key", mask.end_key("(before + last)", seqlen_k, "s.batch", "problem."));
  // What the first query sees; of a part, which may end before it, no more than the last key.
  out.text("first_of_all",
           positions_
               ? fmt::format("min({}, max(s.seqlen_k - 1, 0))",
                             mask.first_read("s.seqlen_k - s.aligned_rows", "s.seqlen_k", "b", "problem."))
               : mask.first_read("s.seqlen_k - s.seqlen_q", "s.seqlen_k", "b", "problem."));
  out.when("positions", positions_);
  out.when("by_rows", by_rows()).when("fixed", fixed()).when("dynamic", shape_.dynamic);
  out.when("split", shape_.split).when("separate", shape_.separate);
  out.when("ragged_q", ragged_q()).when("ragged_k", operand_form(shape_.kind).ragged_k());
  out.when("pages", has_pages());
  out.when("bounded_above", mask.bounded_above()).when("bounded_below", mask.bounded_below());
  return out;
}

void StreamK::emit_functions(Writer& w) const {
  const Holes values = holes();
  const auto emit = [&](const char* section) { w.raw(fill_template("stream_k.cuh", section, values)); };
  emit("problem");
  if (by_rows()) {
    emit("sequence_of");
    return emit("whole_items");
  }
  emit("ranges");
  emit("sequence_of");
  emit("first_range");
  emit(fixed() ? "next_part" : "next_segment");
}

std::string StreamK::part(int floats, SlotNumber number) const {
  if (fixed()) return fmt::format("workspace + (s.item * {}ll + s.part) * {}", shape_.parts, floats);
  const std::string cell =
      fmt::format("(range.cell * problem.team_heads + (int){} % problem.team_heads)", block());
  if (number == SlotNumber::bits_32)
    return fmt::format("workspace + (long long)({} * 2 + s.second_slot) * {}", cell, floats);
  return fmt::format("workspace + ({} * 2ll + s.second_slot) * {}", cell, floats);
}

void StreamK::emit_parts(Writer& w, int floats) const {
  if (fixed()) {
    w.line("constexpr int stride = {}, shift = 0;", floats);
    w.line("const float* const parts = workspace + s.item * {}ll;",
           static_cast<long long>(shape_.parts) * floats);
    return;
  }
  w.line("const long long stride = problem.team_heads * 2ll * {};", floats);
  w.line(
      "const float* const parts = workspace + (split.first_cell * problem.team_heads + (int){} % "
      "problem.team_heads) * 2ll * {};",
      block(), floats);
  w.line("const int shift = split.first_second ? {} : 0;  // part 0 may be the second of its block", floats);
}

void StreamK::emit_loop_open(Writer& w) const {
  w.line("Segment s;");
  if (shape_.dynamic) {
    w.line("#pragma unroll 1");
    w.open("for (bool more = range.position < range.end; more;)");
  }
  w.line("#pragma unroll 1");
  w.open("while (next_segment(problem, range, s))");
}

void StreamK::emit_loop_close(Writer& w, const StagedPipeline& ring, bool fetches, bool slots_free) const {
  w.close();
  if (!shape_.dynamic) return;
  w.line("more = range.cells > range.teams;");
  w.open("if (more)");
  if (fetches) {
    w.comment("the next cell; the last fetch of the launch leaves the counter as it was found");
    w.line("int cell = 0;");
    w.open("if (lane == 0)");
    w.line(
        "int* const next = item_counters + problem.batch * problem.team_heads * range.slots + {} % "
        "problem.team_heads;",
        block());
    w.line("cell = range.teams + atomicAdd(next, 1);");
    w.line("if (cell == range.cells + range.teams - 1) atomicExch(next, 0);");
    w.close();
    w.line("cell = broadcast(cell, 0);");
    if (!slots_free) ring.emit_wait_empty_by_warp(w, 0);
    w.open("if (lane == 0)");
    w.line("cell_slots[{}] = cell;", ring.stage());
    w.line("mbarrier_arrive({});", ring.full(0));
    w.close();
  } else {
    ring.emit_wait_full(w, 0);
    if (slots_free) {
      w.line("const int cell = broadcast(lane == 0 ? cell_slots[{}] : 0, 0);", ring.stage());
    } else {
      w.line("const int cell = cell_slots[{}];", ring.stage());
      w.line("__syncwarp();");
      w.line("if (lane == 0) mbarrier_arrive({});", ring.empty(0));
    }
  }
  ring.emit_step(w);
  w.line("more = cell < range.cells;");
  w.open("if (more)");
  w.line("range.cell = cell;");
  w.line("range.position = start_of(range, cell);");
  w.line("range.end = min(range.position + range.chunk, range.total);");
  w.line("range.first = true;");
  w.line("seek(problem, range);");
  w.close();
  w.close();
  w.close();
}

}  // namespace kiln
