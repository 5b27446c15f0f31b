// Keys on the M side of sm90_decode. Per KV tile:
//
//   S' = K Q'             a lane holds keys (lane >> 2) + 8 i, rows 2 (lane & 3) + {0, 1} + 8 j
//   maximum of each row   over the lane's keys, the warp (shuffles), the four warps (shared memory)
//   P = exp2(S' - max)    to shared memory, transposed: P is the B operand of O' += V' P'
//
// The product of tile n runs while that of K with the next tile is issued; both are waited for together.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {

void KeysOnM::emit_addresses(Writer& w) const {
  w.line("const u32 smem_p = smem + {};", p_.smem_p);
}

void KeysOnM::emit_descriptors(Writer& w) const {
  w.line("const u32 q_desc = (smem_q >> 4) | {:#x}u;", k_major_descriptor(p_.q_tile()).low);
  w.line("const u32 p_desc = (smem_p >> 4) | {:#x}u;", k_major_descriptor(p_.p_tile()).low);
  p_.k->emit_construct(w);
  p_.v->emit_construct(w);
}

void KeysOnM::emit_names(Writer& w) const {
  emit_descriptors(w);
  scales_.emit_query_scale(w);
  const bool eight = p_.BM == 8;  // lanes from 16 on give no address then
  w.comment(
      "stmatrix addresses, transposed: row lane % 8{}, 16-byte chunk 2 * warp + (lane / 8) % 2, swizzled",
      eight ? "" : " + 8 * (lane / 16)");
  w.line("const u32 transposed_at = {} * 128 + (((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);",
         eight ? "(lane & 7)" : "((lane & 7) + 8 * (lane >> 4))");
  w.line("float* const row_exchange = (float*)(smem_bytes + {});", p_.smem_max);
}

void KeysOnM::emit_state(Writer& w) const {
  for (int i = 0; i < p_.key_blocks(); ++i)
    w.line("float s_acc_{}[{}];  // S': keys {} to {}", i, p_.s_regs(), 64 * i, 64 * i + 63);
  parts_.products->emit_state(w);
  for (int j = 0; j < p_.out_blocks(); ++j)
    w.line("float o_acc_{}[{}];  // O': columns {} to {} of V", j, p_.s_regs(), 64 * j, 64 * j + 63);
  w.line("float row_max[{0}], row_sum[{0}];", p_.columns());
  w.line("bool steep;  // some row of the warp has scores that are too large for a rounded base");
}

void KeysOnM::emit_store_q(Writer& w) const {
  emit_copy_q(w, p_);
  emit_query_there(w, p_);
}

void KeysOnM::emit_reset(Writer& w) const {
  for (int c = 0; c < p_.columns(); ++c) w.line("row_max[{0}] = -kInfinity; row_sum[{0}] = 0.0f;", c);
  w.line("steep = false;");
  for (int j = 0; j < p_.out_blocks(); ++j) {
    for (int i = 0; i < p_.s_regs(); i += 4)
      w.line("o_acc_{0}[{1}] = o_acc_{0}[{2}] = o_acc_{0}[{3}] = o_acc_{0}[{4}] = 0.0f;", j, i, i + 1, i + 2,
             i + 3);
  }
}

void KeysOnM::emit_chunk(Writer& w, int qk) const {
  for (int i = 0; i < p_.key_blocks(); ++i) {
    for (int step = p_.qk_step(qk); step < p_.qk_step(qk + 1); ++step) {
      w.line("{}(s_acc_{}, descriptor(k_low + {}, {}), descriptor(q_desc + {}, {}));", p_.qk->name(step == 0),
             i, p_.k->row_step(64 * i) + p_.k->step(step), p_.k->descriptor_high(),
             k_major_step(p_.q_tile(), step), p_.q_high());
    }
  }
}

void KeysOnM::emit_qk(Writer& w) const {
  emit_k(w, "S' = K(n) Q'");
  emit_chunks(w);
  emit_wait_chunks(w);
  emit_release_before(w);
}

void KeysOnM::emit_probabilities(Writer& w) const {
  emit_scores(w, parts_);
  emit_column_max(w, p_);
  w.comment("P(n) = exp2(S' - max), and its row sums");
  scales_.emit_wait_values(w);
  scales_.emit_real_keys(w);
  for (int i = 0; i < p_.key_blocks(); ++i) {
    emit_column_exp(w, p_, i);
    emit_store_p(w, i);
  }
  emit_zero_tail(w);
  emit_fence(w);
  sync(w);
}

void KeysOnM::emit_store_p(Writer& w, int block) const {
  scales_.emit_probabilities(w, block);
  emit_transposed(w, p_, fmt::format("smem_p + {} + transposed_at", block * p_.BM * 128),
                  fmt::format("s_acc_{}", block), pack_name(p_.math), "");
}

void KeysOnM::emit_pv(Writer& w) const {
  w.comment("O' += V(n)' P(n)'");
  scales_.emit_wait_v(w);
  w.line("const u32 v_low = {};", p_.v->get());
  w.line("wgmma_fence();");
  for (int j = 0; j < p_.out_blocks(); ++j) {
    for (int step = 0; step < p_.BN / 16; ++step) {
      w.line("{}(o_acc_{}, descriptor(v_low + {}, {}), descriptor(p_desc + {}, {}));", p_.pv->name(false), j,
             p_.v->panel_step(j) + p_.v->step(step), p_.v->descriptor_high(), k_major_step(p_.p_tile(), step),
             p_.p_high());
    }
  }
  w.line("wgmma_commit();");
}

std::vector<std::string> KeysOnM::first_rows() const {
  std::vector<std::string> elements;
  for (int j = 0; j < p_.out_blocks(); ++j)
    for (int r : {0, 2}) elements.push_back(fmt::format("o_acc_{}[{}]", j, r));
  return elements;
}

void KeysOnM::emit_row_sums(Writer& w) const {
  for (int step : {4, 8, 16})
    for (int c = 0; c < p_.columns(); ++c)
      w.line("row_sum[{0}] += __shfl_xor_sync(0xffffffffu, row_sum[{0}], {1});", c, step);
  w.open("if (lane < 4)");
  for (int c = 0; c < p_.columns(); c += 2)
    w.line("*(float2*)(row_exchange + warp * {} + {} + 2 * lane) = make_float2(row_sum[{}], row_sum[{}]);",
           p_.BM, row_of(c), c, c + 1);
  w.close();
  sync(w);
  for (int c = 0; c < p_.columns(); ++c)
    w.line(
        "row_sum[{0}] = row_exchange[{1} + 2 * (lane & 3)] + row_exchange[{2} + 2 * (lane & 3)] + "
        "row_exchange[{3} + 2 * (lane & 3)] + row_exchange[{4} + 2 * (lane & 3)];",
        c, row_of(c), p_.BM + row_of(c), 2 * p_.BM + row_of(c), 3 * p_.BM + row_of(c));
}

void KeysOnM::emit_finish_rows(Writer& w) const {
  w.line("float inv_sum[{}];", p_.columns());
  for (int c = 0; c < p_.columns(); ++c) {
    const std::string row = fmt::format("({} + 2 * (lane & 3))", row_of(c));
    emit_finish_row(w, parts_, row, fmt::format("row_max[{}]", c), fmt::format("row_sum[{}]", c),
                    fmt::format("inv_sum[{}]", c), "threadIdx.x < 4 && ");
  }
}

void KeysOnM::emit_floats(Writer& w) const {
  for (int c = 0; c < p_.columns(); ++c) {
    const std::string row = fmt::format("({} + 2 * (lane & 3))", row_of(c));
    w.open("if ({} < rows)", row);
    w.line("const int packed = s.m_block * {} + {};", p_.BM, row);
    w.line("float* const at = {} + {};", output_address(p_), lane_column());
    for (int j = 0; j < p_.out_blocks(); ++j) emit_two_floats(w, j, c, lane_registers(c)[0]);
    w.close();
  }
}

void KeysOnM::emit_two_floats(Writer& w, int j, int c, int a) const {
  for (int e = 0; e < 2; ++e)
    w.line("{}at[{}] = o_acc_{}[{}] * inv_sum[{}];", column_exists(64 * j + 8 * e, 64 - 8 * e),
           64 * j + 8 * e, j, a + 2 * e, c);
}

std::string KeysOnM::column_exists(int from, int columns) const {
  if (from + columns <= p_.ov_depth) return "";
  return fmt::format("if ({} + {} < {}) ", lane_column(), from, p_.ov_depth);
}

void KeysOnM::emit_staged(Writer& w) const {
  for (int j = 0; j < p_.out_blocks(); ++j)
    emit_transposed(w, p_, fmt::format("smem_o + {} + transposed_at", j * p_.BM * 128),
                    fmt::format("o_acc_{}", j), pack_name(*p_.config.out_dtype), "inv_sum");
}

void KeysOnM::emit_part(Writer& w) const {
  for (int c = 0; c < p_.columns(); ++c) {
    w.open("if ({} + 2 * (lane & 3) < rows)", row_of(c));
    w.line("float* const at = part + ({} + 2 * (lane & 3)) * {} + {};", row_of(c), p_.padded_ov(),
           lane_column());
    for (int j = 0; j < p_.out_blocks(); ++j) emit_two_of_part(w, j, lane_registers(c)[0]);
    w.line(
        "if (threadIdx.x < 4) *(float2*)(part + {} + 2 * ({} + 2 * lane)) = make_float2(row_max[{}], "
        "row_sum[{}]);",
        p_.BM * p_.padded_ov(), row_of(c), c, c);
    w.close();
  }
}

void KeysOnM::emit_two_of_part(Writer& w, int j, int a) const {
  w.line("at[{}] = o_acc_{}[{}]; at[{}] = o_acc_{}[{}];", 64 * j, j, a, 64 * j + 8, j, a + 2);
}

void KeysOnM::use(Prelude& prelude) const {
  prelude.use(p_.BM == 8 ? "stmatrix_x2_trans" : "stmatrix_trans");
  prelude.use("copy_async_16");
  if (p_.q_by_rows()) prelude.use("thread_here");
  p_.qk->add_to(prelude, true), p_.qk->add_to(prelude, false);
  p_.pv->add_to(prelude, false);
}

void KeysOnM::expect(Manifest& manifest) const {
  expect_wgmma(manifest, p_.BM, 16, p_.key_blocks() * products_of_depth() + p_.out_blocks() * p_.BN / 16);
}

}  // namespace kiln::sm90
