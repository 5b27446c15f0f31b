#include "generator/schedules/common/sm100_packed_rows.hpp"

#include <fmt/ranges.h>

#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/schedules/common/decode_text.hpp"

namespace kiln::sm100 {

void PackedRows::add_params(std::vector<KernelParam>& params, const Mask& mask,
                            const ScoreModifier& modifier) const {
  add_problem_params(params, stream);
  results.add_total(params, stream.ragged_q());
  add_query_strides(params, stream.ragged_q());
  add_score_params(params, mask, modifier);
  for (const char* name : modifier.factors()) params.push_back({KernelParam::Kind::f32, name, {}});
  hidden.add_params(params, config);
}

void PackedRows::add_holes(Holes& holes) const {
  const bool ragged = stream.ragged_q();
  const int ov_depth = *config.ov_depth;
  std::vector<std::string> members;
  for (const auto& m : stream.members()) members.emplace_back(m.role);
  holes.text("members", fmt::format("{}", fmt::join(members, ", ")));
  holes.text(
      "q_at",
      fmt::format(
          "q + {}(s.sequence.q_start + row_query[r]) * q_stride_seq + row_head[r] * q_stride_head + {} * c",
          ragged ? "" : "s.batch * q_stride_batch + ", q_chunk));
  holes.text("o_batch", ragged ? "" : "s.batch * o_stride_batch + ");
  holes.text("lse_row",
             ragged
                 ? "(long long)row_head[row] * total_q + s.sequence.q_start + row_query[row]"
                 : "((long long)s.batch * heads_q + row_head[row]) * s.sequence.seqlen_q + row_query[row]");
  holes.text("top_shift", top_shift).text("value_factor", value_factor).text("value_scale", value_scale);
  holes.number("ov_depth", ov_depth).number("quads", ov_depth / 4).number("part_rows", rows * ov_depth);
  holes.text("part", stream.part(part_floats)).text("own_part", own_part);
  holes.lines("parts", lines_of([&](Writer& w) { stream.emit_parts(w, part_floats); }));
  holes.lines("look_at_sum", lines_of([&](Writer& w) { hidden.emit_look_at(w, "out"); }));
  holes.text("store_four", store_four(*config.out_dtype, "output_row(row) + 4 * c", "out.x * inverse",
                                      "out.y * inverse", "out.z * inverse", "out.w * inverse"));
  holes.when("splits", stream.splits()).when("sink", results.sink()).when("lse", results.lse());
  holes.when("hidden", hidden.on());
  for (const char* section : {"finish_row", "sum_of_parts"})
    holes.lines(section, fill_section("sm100_packed_rows.cuh", section, holes));
}

}  // namespace kiln::sm100
