// The end of a work item of sm90_prefill: O / row_sum by way of shared memory and a tensor copy, or as floats from the
// registers; LSE; and the repair of rows that V of hidden keys has reached.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

// 16 rows of O from this warp's staging to global memory: a box per panel. In a ragged tensor the rows after
// a sequence belong to the next one, so the warp that holds its end stores row by row.
void emit_store(Writer& w, const PrefillPlan& p) {
  const std::string row = p.late("m_start") + " + 64 * consumer + 16 * warp", head = p.late("head");
  if (p.ragged) {
    const int chunks = p.o_span / 16;
    w.line("const int store_rows = {} - ({});", p.late("seqlen_q"), row);
    w.open("if (store_rows < 16)");
    w.open("for (int i = lane; i < {} * store_rows; i += 32)", chunks);
    w.line("const int r = i / {0}, c = i % {0};", chunks);
    const std::string xor_bits = swizzle_bits(p.o_span, "r");
    w.line("u16* const out = o + ({} + {} + r) * o_stride_seq + {} * o_stride_head + 8 * c;",
           p.late("q_start"), row, head);
    for (int panel = 0; panel < p.ov_depth / p.o_panel_columns(); ++panel) {
      w.line("copy_16_bytes(out + {}, o_warp + {} + r * {} + ((c ^ {}) << 4));", panel * p.o_panel_columns(),
             panel * p.o_tile().panel_bytes(), p.o_span, xor_bits);
    }
    w.close();
    if (!p.separate_o) w.line("__syncwarp();  // before lane 0 hands the rows back to Q");
    w.close();
  }
  w.open("if (lane == 0)");
  if (p.ragged) w.open("if (store_rows >= 16)");
  for (int panel = 0; panel < p.ov_depth / p.o_panel_columns(); ++panel) {
    const std::string at =
        p.ragged
            ? fmt::format("{}, {} + {}, {}, 0", panel * p.o_panel_columns(), p.late("q_start"), row, head)
            : fmt::format("{}, {}, work.head, work.batch", panel * p.o_panel_columns(), row);
    w.line("tma_store(&o_map, o_warp + {}, {});", panel * p.o_tile().panel_bytes(), at);
  }
  w.line("bulk_commit();");
  if (p.ragged) w.close();
  if (!p.separate_o) {
    w.line("bulk_wait_read();");
    w.line("mbarrier_arrive(mbar_q_empty + 8 * consumer);");
  }
  w.close();
}

// Rows of floats: from the registers, a lane two neighbouring columns of two rows.
void emit_store_floats(Writer& w, const PrefillPlan& p, const char* scale) {
  w.line("float* const out = o + {}row_0) * o_stride_seq + {} * o_stride_head + 2 * (lane & 3);",
         p.ragged ? fmt::format("({} + ", p.late("q_start")) : "work.batch * o_stride_batch + (",
         p.late("head"));
  for (int r = 0; r < 2; ++r) {
    w.open("if (row_0 + {} < {})", 8 * r, p.late("seqlen_q"));
    for (int i = 0; i < p.ov_depth / 2; i += 4)
      w.line("{}", store_two(DType::f32, fmt::format("out + {} * o_stride_seq + {}", 8 * r, 2 * i),
                             fmt::format("o_acc[{}] * {}_{}", i + 2 * r, scale, r),
                             fmt::format("o_acc[{}] * {}_{}", i + 2 * r + 1, scale, r)));
    w.close();
  }
}

// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const PrefillPlan& p) {
  HiddenValues::Place place =
      HiddenValues::place_of(p.config, {p.late("batch"), p.late("head"), "work.kv_head", p.late("q_start"),
                                        p.late("k_start"), p.late("seqlen_q"), p.late("seqlen_k")});
  if (p.part) place.seqlen_q = p.aligned_rows();
  place.first_row = p.late("m_start") + " + 64 * consumer + 16 * warp";
  place.end_row = fmt::format("min({} + 16, {})", place.first_row, p.late("seqlen_q"));
  place.visited_begin = fmt::format("{} * {}", p.first_block(), p.BN);
  place.visited_end = fmt::format("min(work.num_blocks * {}, {})", p.BN, p.late("seqlen_k"));
  p.hidden.emit_repair(
      w, place, "any_lane(odd)",
      p.o_floats ? "__syncwarp();" : "bulk_wait();  // the store has been written\n__syncwarp();");
}

}  // namespace

void emit_epilogue(Writer& w, const PrefillPlan& p) {
  p.hidden.emit_look(w, HiddenValues::first_rows("o_acc", p.ov_depth / 2));
  w.banner("epilogue: O / row_sum, LSE");
  p.softmax->emit_finish(w);
  if (p.head_scale()) {
    w.line("const float value_scale = v_scale[{}];", p.head_of_scales());
    w.line("const float out_scale_0 = inv_sum_0 * value_scale, out_scale_1 = inv_sum_1 * value_scale;");
  }
  const char* scale = p.head_scale() ? "out_scale" : "inv_sum";
  if (p.results.lse()) {
    w.open("if ((lane & 3) == 0)");
    if (p.ragged) {
      w.line("float* const lse_row = lse + (long long){} * total_q + {} + row_0;", p.late("head"),
             p.late("q_start"));
    } else {
      w.line(
          "float* const lse_row = lse + ((long long)work.batch * heads_q + work.head) * seqlen_q + row_0;");
    }
    for (int r = 0; r < 2; ++r) {
      w.line("if (row_0 + {0} < {2}) lse_row[{0}] = {1};", 8 * r, p.softmax->lse(r), p.late("seqlen_q"));
    }
    w.close();
  }
  if (p.o_floats) {
    emit_store_floats(w, p, scale);
    return emit_repair(w, p);
  }
  const char* pack = pack_name(*p.config.out_dtype);
  const int chunks = p.o_span / 16;  // 16-byte chunks of a span; two of them per stmatrix of 16 columns
  w.comment(
      "This warp's 16 rows: registers to shared memory, swizzled, then one box per panel to global memory.");
  if (p.separate_o) {
    w.line("if (lane == 0) bulk_wait_read();  // the store of the item before");
    w.line("__syncwarp();");
  } else {
    w.line("named_barrier_sync({} + consumer, 128);  // O takes Q's place: every warp has finished reading Q",
           1 + 3);
  }
  for (int step = 0; step < p.ov_depth / 16; ++step) {
    const int panel = step * 16 / p.o_panel_columns();
    const int chunk = (step * 2) % chunks;
    const int i = 8 * step;
    const auto pair = [&](int r) {
      return fmt::format("{0}(o_acc[{1}] * {3}_{4}, o_acc[{2}] * {3}_{4})", pack, i + r, i + r + 1, scale,
                         r / 2 % 2);
    };
    w.line("stmatrix_x4(o_row + {} + ({} ^ o_swizzle), {}, {},", panel * p.o_tile().panel_bytes(), chunk * 16,
           pair(0), pair(2));
    w.line("            {}, {});", pair(4), pair(6));
  }
  w.line("fence_proxy_async();");
  w.line("__syncwarp();");
  emit_store(w, p);
  emit_repair(w, p);
}

void emit_output_addresses(Writer& w, const PrefillPlan& p) {
  if (p.o_floats) return;
  const int span = p.o_span;
  w.comment(
      "stmatrix addresses: row lane % 16 of this warp's 16 rows, chunk lane / 16, swizzled within the span");
  w.line("const u32 o_warp = smem + {} + consumer * {} + warp * {};", p.smem_o, p.o_stride(), 16 * span);
  w.line("const u32 o_row = o_warp + (lane & 15) * {};", span);
  w.line("const u32 o_swizzle = (((u32)lane >> 4) ^ {}) << 4;", swizzle_bits(span, "lane"));
}

}  // namespace kiln::sm90
