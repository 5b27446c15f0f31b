// K and V of one byte an element in sm90_decode: shared memory -> registers -> FP16 -> A operand of wgmma.
//
// K': a lane owns keys lane >> 2 and + 8 of each 16. It reads 16 neighbouring columns of a key at once, which
// hold the elements of four contraction steps if the contraction runs in the order
//     k = 64 load + 16 s + 2 t + 8 h + e    for column 16 (loads t + load) + 4 s + 2 h + e    of lane t =
//     lane & 3
// of a panel. Q is stored in that order, so nothing is shuffled. Lanes of neighbouring keys read different
// banks.
//
// V': ldmatrix.trans moves pairs of bytes: a lane gets columns 2 (lane >> 2) + {0, 1} of keys 2 t + {0, 1}.
// One byte permutation separates the columns, which become rows lane >> 2 and + 8 of the A operand. So
// register half h of O' is column 2 (lane >> 2) + h of a warp's 16.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {
namespace {

/// 16-byte loads of a lane for one key of a panel.
int loads_of(int span) {
  return span / 64;
}

/// What the rotary columns add to S', while the others are widened.
void emit_qk_rope(Writer& w, const DecodePlan& p) {
  if (p.rope == 0) return;
  const SmemTile tile = p.rope_tile();
  const auto k = k_major_descriptor(tile);
  w.comment("rotary columns, as they are");
  w.line("const u32 rope_low = {} | {:#x}u;",
         descriptor_base(fmt::format("{} + {}", p.k->slot(), p.k->rope_offset()), 1), k.low);
  w.line("wgmma_fence();");
  for (int block = 0; block < p.key_blocks(); ++block) {
    for (int step = 0; step < p.rope / 16; ++step) {
      w.line("{}(rope_acc_{}, descriptor(rope_low + {}, {:#x}u), descriptor(q_desc + {}, {}));",
             p.qk_rope->name(step == 0), block, (64 * 128 * block >> 4) + k_major_step(tile, step), k.high,
             k_major_step(p.q_tile(), p.padded_depth() / 16 + step), p.q_high());
    }
  }
  w.line("wgmma_commit();");
}

/// Q, converted to FP16 and permuted along the depth as the fragments of K are.
void emit_store_q_widened(Writer& w, const DecodePlan& p, const KeyScales& scales) {
  const int loads = loads_of(p.k_span), chunks = p.padded_depth() / 8, real = p.k_depth / 8;
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; in FP16, permuted as K will be "
      "read");
  open_query_chunks(w, p, chunks, real);
  if (p.config.dtype == DType::bf16) w.line("x = bf16_to_fp16(x);");
  scales.emit_sign(w, "0x80008000u");
  w.line("const int t = c / {} % 4, load = c / 2 % {};", 2 * loads, loads);
  w.line("const u32 at = smem_q + (c / {} * {} + load) * {} + r * 128 + 4 * t;", 8 * loads, loads,
         p.BM * 128);
  w.line("const int chunk = 4 * (c % 2);");
  const char* members[] = {"x", "y", "z", "w"};
  for (int i = 0; i < 4; ++i)
    w.line("store_shared(at + (((chunk + {}) ^ (r % 8)) << 4), x.{});", i, members[i]);
  w.close();
}

/// Its rotary columns, as they are, behind the others.
void emit_store_q_rope(Writer& w, const DecodePlan& p) {
  if (p.rope == 0) return;
  const int chunks = 8 * p.rope_panels(), real = p.rope / 8;
  w.comment("Q's rotary columns");
  open_query_chunks(w, p, chunks, real, p.k_depth);
  w.line("store_shared_16(smem_q + {} + c / 8 * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4), x);",
         p.padded_depth() / 64 * p.q_tile().panel_bytes(), p.BM * 128);
  w.close();
}

/// S' of the tile, between the wait for K and the commit.
void emit_qk_widened(Writer& w, const DecodePlan& p, const KeyScales& scales) {
  const int span = p.k_span, loads = loads_of(span);
  w.line("const u32 k_at = {} + (16 * warp + (lane >> 2)) * {};", p.k->slot(), span);
  for (int load = 0; load < loads; ++load)
    w.line("const u32 k_chunk_{} = (({} * (lane & 3) + {}) ^ {}) << 4;", load, loads, load,
           swizzle_bits(span, "(lane >> 2)"));
  // Long rows: one panel's fragments at a time.
  const int held = p.k_fragment_registers(), steps = held / 4;
  w.line("u32 k_frag[{}];", held);
  for (int block = 0; block < p.key_blocks(); ++block) {
    w.comment("keys {} to {}", 64 * block, 64 * block + 63);
    if (block > 0) w.line("WGMMA_WAIT(0);  // the fragments are free again");
    for (int panel = 0; panel < p.k_panels; ++panel) {
      for (int load = 0; load < loads; ++load) {
        w.open("");
        const int at = panel * p.BN * span + 64 * block * span;
        w.line(
            "const uint4 low = load_shared_16(k_at + {} + k_chunk_{}), high = load_shared_16(k_at + {} + "
            "k_chunk_{});",
            at, load, at + 8 * span, load);
        const char* members[] = {"x", "y", "z", "w"};
        for (int s = 0; s < 4; ++s) {
          const int i = 4 * (4 * (panel * loads + load) + s) % held;
          w.line(
              "k_frag[{0}] = narrow_to_fp16(low.{4}); k_frag[{1}] = narrow_to_fp16(high.{4}); k_frag[{2}] = "
              "narrow_to_fp16(low.{4} >> 16); k_frag[{3}] = narrow_to_fp16(high.{4} >> 16);",
              i, i + 1, i + 2, i + 3, members[s]);
        }
        w.close();
      }
      const int done = 4 * loads * (panel + 1);
      if (done % steps != 0) continue;
      if (done == p.padded_depth() / 16) scales.emit_of_block(w, block);
      w.line("wgmma_fence();");
      for (int step = done - steps; step < done; ++step) {
        const int i = 4 * step % held;
        w.line("{}(s_acc_{}, k_frag[{}], k_frag[{}], k_frag[{}], k_frag[{}], descriptor(q_desc + {}, {}));",
               p.qk->name(step == 0), block, i, i + 1, i + 2, i + 3, k_major_step(p.q_tile(), step),
               p.q_high());
      }
      w.line("wgmma_commit();");
      if (done < p.padded_depth() / 16) w.line("WGMMA_WAIT(0);  // the fragments are free again");
    }
  }
}

/// A fragments of V' of the tile, `v_<block>_<step>[4]`, and the products.
void emit_pv_widened(Writer& w, const DecodePlan& p) {
  const int span = p.v_span, steps = p.BN / 16;
  w.line("const u32 v_at = {} + lane * {};", p.v->slot(), span);
  // Where registers are short, one block's fragments at a time.
  const bool in_turn = p.BN / 4 * p.out_blocks() >= 64;
  const auto multiply = [&](int block) {
    for (int step = 0; step < steps; ++step)
      w.line(
          "{}(o_acc_{}, v_frag_{}[{}], v_frag_{}[{}], v_frag_{}[{}], v_frag_{}[{}], descriptor(p_desc + {}, "
          "{}));",
          p.pv->name(false), block, block, 4 * step, block, 4 * step + 1, block, 4 * step + 2, block,
          4 * step + 3, k_major_step(p.p_tile(), step), p.p_high());
  };
  for (int block = 0; block < p.out_blocks(); ++block) {
    w.comment("columns {} to {} of V", 64 * block, 64 * block + 63);
    const int chunk = 4 * block % (span / 16), panel = 4 * block / (span / 16);
    w.line("u32 v_frag_{}[{}];", block, 4 * steps);
    w.line("const u32 v_chunk_{} = (({} + warp) ^ {}) << 4;", block, chunk, swizzle_bits(span, "lane"));
    for (int keys = 0; keys < p.BN / 32; ++keys) {
      w.open("");
      w.line("u32 x[4];");
      w.line("ldmatrix_x4_trans(x, v_at + {} + v_chunk_{});", panel * p.BN * span + 32 * keys * span, block);
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (2 * keys + i / 2) + 2 * (i % 2);
        w.line(
            "x[{0}] = __byte_perm(x[{0}], 0, 0x3120); v_frag_{1}[{2}] = narrow_to_fp16(x[{0}]); "
            "v_frag_{1}[{3}] = narrow_to_fp16(x[{0}] >> 16);",
            i, block, at, at + 1);
      }
      w.close();
    }
    if (in_turn) {
      w.line("wgmma_fence();");
      multiply(block);
      w.line("wgmma_commit();");
      w.line("WGMMA_WAIT(0);");
    }
  }
  if (in_turn) return;
  w.line("wgmma_fence();");
  for (int block = 0; block < p.out_blocks(); ++block) multiply(block);
  w.line("wgmma_commit();");
  w.line("WGMMA_WAIT(0);  // the next fragments of K take the registers");
}

}  // namespace

void WidenedKeys::emit_descriptors(Writer& w) const {
  w.line("const u32 q_desc = (smem_q >> 4) | {:#x}u;", k_major_descriptor(p_.q_tile()).low);
  w.line("const u32 p_desc = (smem_p >> 4) | {:#x}u;", k_major_descriptor(p_.p_tile()).low);
}

void WidenedKeys::emit_rope_state(Writer& w) const {
  if (!p_.rope_apart()) return;
  for (int i = 0; i < p_.key_blocks(); ++i)
    w.line("float rope_acc_{}[{}];  // of S' what the rotary columns add", i, p_.s_regs());
}

void WidenedKeys::emit_store_q(Writer& w) const {
  emit_store_q_widened(w, p_, scales_);
  emit_store_q_rope(w, p_);
  emit_query_there(w, p_);
}

void WidenedKeys::emit_qk(Writer& w) const {
  w.comment("S' = K(n) Q'");
  p_.k->emit_wait(w, 0);
  emit_qk_rope(w, p_);
  emit_qk_widened(w, p_, scales_);
  // What holds V, too, is read on and released later.
  if (!p_.v_in_k) w.line("__syncwarp();  // every lane has read its part of K");
  emit_release_k(w, 0);
  w.line("WGMMA_WAIT(0);");
  p_.k->ring().emit_step(w);
}

void WidenedKeys::emit_pv(Writer& w) const {
  w.comment("O' += V(n)' P(n)'");
  scales_.emit_wait_v(w);
  emit_v_products(w);
  w.line("__syncwarp();  // every lane has read its part of V");
  p_.v->emit_arrivals(w);
  p_.v->ring().emit_step(w);
}

void WidenedKeys::emit_v_products(Writer& w) const {
  emit_pv_widened(w, p_);
}

void WidenedKeys::emit_two_floats(Writer& w, int j, int c, int a) const {
  const auto value = [&](int r) { return fmt::format("o_acc_{}[{}] * inv_sum[{}]", j, r, c); };
  w.line("{}{}", column_exists(64 * j, 64),
         store_two(DType::f32, fmt::format("at + {}", 64 * j), value(a), value(a + 2)));
}

void WidenedKeys::emit_two_of_part(Writer& w, int j, int a) const {
  w.line("*(float2*)(at + {0}) = make_float2(o_acc_{1}[{2}], o_acc_{1}[{3}]);", 64 * j, j, a, a + 2);
}

void WidenedKeys::emit_staged(Writer& w) const {
  w.comment("a lane holds two neighbouring columns of a query row");
  const char* pack = pack_name(*p_.config.out_dtype);
  for (int c = 0; c < p_.columns(); ++c) {
    const int a = 4 * (c / 2) + c % 2;
    w.open("");
    w.line("const int r = {} + 2 * (lane & 3);", row_of(c));
    w.line(
        "const u32 at = smem_o + r * 128 + (((2 * warp + (lane >> 4)) ^ (r & 7)) << 4) + ((lane >> 2) & 3) * "
        "4;");
    for (int j = 0; j < p_.out_blocks(); ++j)
      w.line("store_shared(at + {0}, {1}(o_acc_{2}[{3}] * inv_sum[{5}], o_acc_{2}[{4}] * inv_sum[{5}]));",
             j * p_.BM * 128, pack, j, a, a + 2, c);
    w.close();
  }
}

void WidenedKeys::use(Prelude& prelude) const {
  prelude.use(p_.BM == 8 ? "stmatrix_x2_trans" : "stmatrix_trans");
  prelude.use("shared_words"), prelude.use("ldmatrix_trans");
  prelude.use(*p_.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
  if (p_.config.dtype == DType::bf16) prelude.use("bf16_to_fp16");
  p_.qk->add_to(prelude, true), p_.qk->add_to(prelude, false);
  p_.pv->add_to(prelude, false);
  if (p_.rope_apart()) p_.qk_rope->add_to(prelude, true), p_.qk_rope->add_to(prelude, false);
}

void BytesOfQ::emit_descriptors(Writer& w) const {
  WidenedKeys::emit_descriptors(w);
  p_.k->emit_construct(w);
}

void BytesOfQ::emit_store_q(Writer& w) const {
  const int span = p_.k_span, per_row = span / 16, chunks = per_row * p_.k_panels, real = p_.depth / 16;
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; rows past the last are zeros");
  open_query_chunks(w, p_, chunks, real);
  scales_.emit_sign(w, "0x80808080u");
  w.line("store_shared_16(smem_q + c / {0} * {1} + r * {2} + (((c % {0}) ^ {3}) << 4), x);", per_row,
         p_.BM * span, span, swizzle_bits(span, "r"));
  w.close();
  emit_query_there(w, p_);
}

void BytesOfQ::emit_qk(Writer& w) const {
  emit_k(w, "S' = K(n) Q'");
  emit_chunks(w);
  emit_wait_chunks(w);
}

void BytesOfQ::use(Prelude& prelude) const {
  WidenedKeys::use(prelude);
  prelude.use("byte_type");
}

void BytesOfQ::expect(Manifest& manifest) const {
  expect_wgmma(manifest, p_.BM, 32, p_.key_blocks() * p_.qk_steps());
  expect_wgmma(manifest, p_.BM, 16, p_.out_blocks() * p_.BN / 16);
}

}  // namespace kiln::sm90
