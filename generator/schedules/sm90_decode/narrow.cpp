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

/// A fragments of V' of a block of 64 columns, `v_frag_<block>`.
void emit_v_fragments(Writer& w, const DecodePlan& p, int block) {
  const int span = p.v_span, steps = p.BN / 16;
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
}

/// Their products with P.
void multiply_values(Writer& w, const DecodePlan& p, int block) {
  for (int step = 0; step < p.BN / 16; ++step)
    w.line(
        "{}(o_acc_{}, v_frag_{}[{}], v_frag_{}[{}], v_frag_{}[{}], v_frag_{}[{}], descriptor(p_desc + {}, "
        "{}));",
        p.pv->name(false), block, block, 4 * step, block, 4 * step + 1, block, 4 * step + 2, block,
        4 * step + 3, k_major_step(p.p_tile(), step), p.p_high());
}

/// The products with V of all blocks, once their fragments are there.
void emit_values_together(Writer& w, const DecodePlan& p) {
  for (int block = 0; block < p.out_blocks(); ++block) emit_v_fragments(w, p, block);
  w.line("wgmma_fence();");
  for (int block = 0; block < p.out_blocks(); ++block) multiply_values(w, p, block);
  w.line("wgmma_commit();");
  w.line("WGMMA_WAIT(0);  // the next fragments of K take the registers");
}

/// One block's fragments at a time.
void emit_values_in_turn(Writer& w, const DecodePlan& p) {
  for (int block = 0; block < p.out_blocks(); ++block) {
    emit_v_fragments(w, p, block);
    w.line("wgmma_fence();");
    multiply_values(w, p, block);
    w.line("wgmma_commit();");
    w.line("WGMMA_WAIT(0);");
  }
}

/// Registers of the fragments of all blocks from which on they are short.
constexpr int kShortOfRegisters = 64;

}  // namespace

void WidenedKeys::emit_descriptors(Writer& w) const {
  w.line("const u32 q_desc = (smem_q >> 4) | {:#x}u;", k_major_descriptor(p_.q_tile()).low);
  w.line("const u32 p_desc = (smem_p >> 4) | {:#x}u;", k_major_descriptor(p_.p_tile()).low);
}

void WidenedKeys::emit_store_q(Writer& w) const {
  emit_store_q_widened(w, p_, scales_);
  parts_.products->emit_store_q(w);
  emit_query_there(w, p_);
}

void WidenedKeys::emit_qk(Writer& w) const {
  w.comment("S' = K(n) Q'");
  p_.k->emit_wait(w, 0);
  parts_.products->emit_products(w);
  emit_qk_widened(w, p_, scales_);
  parts_.values->emit_k_read(w);
  parts_.values->emit_release_k(w, 0);
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

WidenedKeys::WidenedKeys(const Parts& parts)
    : KeysOnM(parts),
      values_(p_.BN / 4 * p_.out_blocks() >= kShortOfRegisters ? emit_values_in_turn : emit_values_together) {
}

void WidenedKeys::emit_v_products(Writer& w) const {
  w.line("const u32 v_at = {} + lane * {};", p_.v->slot(), p_.v_span);
  values_(w, p_);
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
  parts_.products->use(prelude);
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
