// The end of a segment of sm90_decode. A whole item is written at once. Of a split item each block leaves a
// part
//
//   part: O' not yet divided by the sum, [BM][ov] floats, then (maximum, sum) of each row
//
// in its workspace and arrives at the item's counter. Parts are added up in their order by the last block to arrive, or
// by all that have nothing else to do, each some of the rows (row_sums.cpp) or of the columns, too (unit_sums.cpp).
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {

void emit_transposed(Writer& w, const DecodePlan& p, const std::string& at, const std::string& acc,
                     const char* pack, const std::string& factor) {
  const auto reg = [&](int r) {
    return factor.empty() ? fmt::format("{}[{}]", acc, r)
                          : fmt::format("{}[{}] * {}[{}]", acc, r, factor, 2 * (r / 4) + r % 2);
  };
  const auto pair = [&](int r) { return fmt::format("{}({}, {})", pack, reg(r), reg(r + 1)); };
  if (p.s_regs() == 4) return w.line("stmatrix_x2_trans({}, {}, {});", at, pair(0), pair(2));
  for (int r = 0; r < p.s_regs(); r += 8)
    w.line("stmatrix_x4_trans({} + {}, {}, {}, {}, {});", at, 2 * r * 128, pair(r), pair(r + 2), pair(r + 4),
           pair(r + 6));
}

void emit_finish_row(Writer& w, const Parts& parts, const std::string& row, const std::string& top,
                     const std::string& sum, const std::string& inverse, const std::string& writer) {
  const DecodePlan& p = parts.plan;
  w.open("");
  if (p.results.sink() || p.results.lse())
    w.line("const int packed = s.m_block * {} + {}, head = s.kv_head * group + packed % group;", p.BM, row);
  // In natural units: in log2 units a logit near the largest float is none.
  const std::string natural = top + " * (factor * 0.693147181f)";
  if (!p.results.sink())
    w.line("const float {}sum = {};", p.results.lse() ? fmt::format("top = {}, ", natural) : "", sum);
  if (p.results.sink()) {
    w.line("float top = {}, sum = {};", natural, sum);
    w.comment("the sink is one more logit, without a value");
    w.line("const float logit = {} < rows ? sink[head] : 0.0f, higher = fmaxf(top, logit);", row);
    w.line(
        "const bool visible = sum != 0.0f;  // some key is, though it may count for nothing beside the sink");
    w.line(
        "const float own = !visible ? 0.0f : top == higher ? 1.0f : exp2_approx((top - higher) * "
        "1.44269504f);");
    w.line("sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));");
    w.line("top = higher;");
  }
  w.line("{} = sum != 0.0f ? {} / sum : 0.0f;", inverse,
         parts.scales->output_factor(p.results.sink() ? "own" : ""));
  if (p.results.lse()) {
    w.line(
        "if ({}{} < rows) lse[{}{} + packed / group] = {} ? top + log2_approx(sum) * 0.693147181f : "
        "-kInfinity;",
        writer, row, p.separate ? "(long long)s.part * heads_q * total_q + " : "",
        p.stream->ragged_q() ? "(long long)head * total_q + s.sequence.q_start"
                             : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
        p.results.sink() ? "visible" : "sum != 0.0f");
  }
  w.close();
}

void emit_walk(Writer& w, const DecodePlan& p, const std::string& first, int step) {
  w.line("const int step_position = {0} / group, step_of_group = {0} % group;", step);
  w.line("int position = (s.m_block * {0} + {1}) / group, of_group = (s.m_block * {0} + {1}) % group;", p.BM,
         first);
}

void emit_walk_on(Writer& w) {
  w.line("position += step_position; of_group += step_of_group;");
  w.line("if (of_group >= group) { of_group -= group; ++position; }");
}

std::string output_address(const DecodePlan& p, const std::string& position, const std::string& of_group) {
  return fmt::format(
      "o + {}({}s.sequence.q_start + {}) * o_stride_seq + (s.kv_head * group + {}) * o_stride_head",
      p.stream->ragged_q() ? "" : "s.batch * o_stride_batch + ",
      p.separate ? "(long long)s.part * total_q + " : "", position, of_group);
}

void Consumer::emit_repair(Writer& w) const {
  HiddenValues::Packed packed{fmt::format("s.m_block * {}", p_.BM), 4 * p_.warpgroups, p_.BN};
  if (p_.shares_rows()) packed.first += " + own_first", packed.rows = "own_rows";
  if (p_.warpgroups > 1) packed.warp = "((int)threadIdx.x / 32)";
  p_.hidden.emit_block_repair(w, p_.config, HiddenValues::names_of_item(p_.stream->aligned_rows()), packed,
                              p_.odd_flag(),
                              fmt::format("named_barrier_sync(1, {});", p_.consumer_threads()));
}

int Consumer::rows_at_once() const {
  const int chunks = p_.ov_depth / 8, threads = p_.consumer_threads();
  return threads % chunks == 0 ? std::min(threads / chunks, p_.BM) : p_.BM;
}

void Consumer::emit_store_by_chunks(Writer& w, const std::string& from) const {
  const int chunks = p_.ov_depth / 8, step = rows_at_once();
  w.open("");
  w.comment("a thread has one chunk of each row, {} rows apart", step);
  w.line("const int thread = thread_here(), first = thread / {0}, c = thread % {0};", chunks);
  emit_walk(w, p_, "first", step);
  w.line("#pragma unroll 1");
  w.open("for (int r = first; r < rows; r += {})", step);
  w.line("copy_16_bytes({} + 8 * c, {});", output_address(p_, "position", "of_group"), from);
  emit_walk_on(w);
  w.close();
  w.close();
}

void Consumer::emit_store_any(Writer& w, const std::string& from) const {
  const int chunks = p_.ov_depth / 8;
  w.line("#pragma unroll 1");
  w.open("for (int i = threadIdx.x; i < rows * {}; i += {})", chunks, p_.consumer_threads());
  w.line("const int r = i / {0}, c = i % {0}, packed = s.m_block * {1} + r;", chunks, p_.BM);
  w.line("copy_16_bytes({} + 8 * c, {});", output_address(p_), from);
  w.close();
}

void Consumer::emit_store_rows(Writer& w) const {
  emit_staged(w);
  sync(w);
  const std::string from =
      fmt::format("smem_o + (c / 8) * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4)", p_.BM * 128);
  stores_by_chunks() ? emit_store_by_chunks(w, from) : emit_store_any(w, from);
  emit_staging_free(w);
}

void Consumer::emit_whole(Writer& w) const {
  // Whether V of some key has made a column of O NaN or infinite: that of all rows.
  p_.hidden.emit_look(w, first_rows(), "odd");
  w.comment("the whole item{}",
            p_.o_floats() ? "" : ": through shared memory, so that rows leave in 16-byte words");
  emit_finish_rows(w);
  p_.o_floats() ? emit_floats(w) : emit_store_rows(w);
}

void Consumer::emit_split(Writer& w) const {
  w.comment("this block's part");
  w.line("float* const part = {};", p_.stream->part(p_.partial_floats()));
  emit_part(w);
  sync(w);
  w.line("const Split split = split_of(range, s);");
  emit_sum_of_parts(w);
}

void Consumer::emit_epilogue(Writer& w) const {
  w.banner("row sums over the lanes and warps");
  emit_row_sums(w);
  w.banner("output");
  p_.hidden.emit_odd(w);
  if (p_.hidden.on() && p_.shares_rows())
    w.line("int own_first = 0, own_rows = rows;  // of O, that this block stores");
  w.open("if (s.whole)");
  emit_whole(w);
  if (p_.stream->splits()) {
    w.reopen("else");
    emit_split(w);
  }
  w.close();
  emit_repair(w);
}

}  // namespace kiln::sm90
