// 8-bit K and V with a scale for every n elements of a row in sm90_decode. A scale is neither of a query row
// nor of a key alone, so products are scaled group by group, in f32:
//
//   S'  = sum over groups of K's depth  scale_k[key][group] * (K_group Q_group')
//   O'  = V' (scale_v[key][group of the column] * P)'     one P for each group, in shared memory
//
// Warps of a warpgroup hold columns of different groups, which wgmma cannot tell apart; mma.sync takes the
// same fragments (m16n8k16, a warp's 16 keys or columns on the M side) and gives each warp its own P.
//
// K: the contraction of 16 columns is ordered k = 2 t + 8 h + e for column 4 t + 2 h + e, so that a lane's
// four elements of a key are one 32-bit word. Q is stored in that order.
#include <algorithm>

#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {
namespace {

constexpr const char* kMembers[] = {"x", "y", "z", "w"};

/// B fragments of 16 query rows and contraction step `step` of a tile of rows like Q and P: ldmatrix's
/// address.
std::string b_fragments(const std::string& tile, const DecodePlan& p, int rows, int step) {
  return fmt::format("{} + b_row + {} + b_chunk_{}", tile, step / 4 * p.BM * 128 + rows * 128, step % 4);
}

/// d[BM / 2] += or = the step's product, `a` four registers.
void emit_step(Writer& w, const DecodePlan& p, const std::string& d, const std::string& a,
               const std::string& tile, int step, bool first) {
  for (int rows = 0; rows < p.BM; rows += 16) {
    w.line("ldmatrix_x4(b_frag, {});", b_fragments(tile, p, rows, step));
    for (int half = 0; half < 2; ++half) {
      w.line("mma_fp16{}({} + {}, {}, b_frag + {});", first ? "_first" : "", d, rows / 2 + 4 * half, a,
             2 * half);
    }
  }
}

}  // namespace

void GroupedKeys::emit_descriptors(Writer& w) const {
  w.comment("ldmatrix addresses of query rows: lane & 7 of matrices (rows 0, k 0), (0, 8), (8, 0), (8, 8)");
  w.line("const u32 b_row = ((lane & 7) + 8 * (lane >> 4)) * 128;");
  for (int i = 0; i < 4; ++i)
    w.line("const u32 b_chunk_{0} = (({1} + ((lane >> 3) & 1)) ^ (lane & 7)) << 4;", i, 2 * i);
}

void GroupedKeys::emit_store_q(Writer& w) const {
  const int chunks = p_.padded_depth() / 8, real = p_.depth / 8;
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; in FP16, each 16 columns "
      "permuted as "
      "K will be read");
  open_query_chunks(w, p_, chunks, real);
  if (p_.config.dtype == DType::bf16) w.line("x = bf16_to_fp16(x);");
  w.line("const u32 at = smem_q + c / 8 * {} + r * 128 + 8 * (c % 2);", p_.BM * 128);
  w.line("const int chunk = c / 2 % 4 * 2;");
  for (int i = 0; i < 4; ++i)
    w.line("store_shared(at + (((chunk + {}) ^ (r % 8)) << 4) + {}, x.{});", i % 2, i / 2 * 4, kMembers[i]);
  w.close();
  sync(w);
}

void GroupedKeys::emit_qk(Writer& w) const {
  w.comment("S' = K(n) Q'");
  p_.k->emit_wait(w, 0);
  const int span = p_.k_span, per_panel = span / 16, steps = p_.depth / 16;
  const int group_steps = p_.config.operand->quantization->block / 16;  // of the last group: what is left
  w.line("const u32 k_at = {} + (16 * warp + (lane >> 2)) * {} + 4 * (lane & 3);", p_.k->slot(), span);
  w.line("const int k_row = {};", span == 128 ? "(lane >> 2) & 7" : "(lane >> 3) & 3");
  w.line("u32 k_frag[4], b_frag[4];");
  w.line("float part[{}];", p_.s_regs());
  for (int block = 0; block < p_.key_blocks(); ++block) {
    for (int group = 0; group < p_.k_groups; ++group) {
      const int first = group * group_steps, end = std::min(first + group_steps, steps);
      w.comment("keys {} to {}, columns {} to {}", 64 * block, 64 * block + 63, 16 * first, 16 * end - 1);
      for (int step = first; step < end; ++step) {
        w.open("");
        w.line("const u32 at = k_at + {} + (({} ^ k_row) << 4);",
               step / per_panel * p_.BN * span + 64 * block * span, step % per_panel);
        w.line("const u32 low = load_shared(at), high = load_shared(at + {});", 8 * span);
        w.line(
            "k_frag[0] = narrow_to_fp16(low); k_frag[1] = narrow_to_fp16(high); k_frag[2] = "
            "narrow_to_fp16(low "
            ">> 16); k_frag[3] = narrow_to_fp16(high >> 16);");
        emit_step(w, p_, "part", "k_frag", "smem_q", step, step == first);
        w.close();
      }
      w.open("");
      w.line("const float low = load_shared_float({0} + {1}), high = load_shared_float({0} + {2});",
             scales_.address(true, group), 256 * block, 256 * block + 32);
      for (int r = 0; r < p_.s_regs(); ++r) {
        const char* scale = r / 2 % 2 == 0 ? "low" : "high";
        if (group == 0) {
          w.line("s_acc_{0}[{1}] = {2} * part[{1}];", block, r, scale);
        } else {
          w.line("s_acc_{0}[{1}] = fmaf({2}, part[{1}], s_acc_{0}[{1}]);", block, r, scale);
        }
      }
      w.close();
    }
  }
  w.line("__syncwarp();  // every lane has read its part of K");
  parts_.values->emit_release_k(w, 0);
  p_.k->ring().emit_step(w);
}

void GroupedKeys::emit_store_p(Writer& w, int block) const {
  for (int group = 0; group < p_.v_groups; ++group) {
    w.open("");
    w.line("const float low = load_shared_float({0} + {1}), high = load_shared_float({0} + {2});",
           scales_.address(false, group), 256 * block, 256 * block + 32);
    const auto pair = [&](int r) {
      const char* scale = r / 2 % 2 == 0 ? "low" : "high";
      return fmt::format("pack_fp16(s_acc_{0}[{1}] * {3}, s_acc_{0}[{2}] * {3})", block, r, r + 1, scale);
    };
    for (int r = 0; r < p_.s_regs(); r += 8) {
      w.line("stmatrix_x4_trans(smem_p + {} + transposed_at, {}, {}, {}, {});",
             (group * p_.key_blocks() + block) * p_.BM * 128 + 2 * r * 128, pair(r), pair(r + 2), pair(r + 4),
             pair(r + 6));
    }
    w.close();
  }
}

void GroupedKeys::emit_v_products(Writer& w) const {
  const int span = p_.v_span, n = p_.config.operand->quantization->block;
  w.line("const u32 v_at = {} + lane * {};", p_.v->slot(), span);
  for (int block = 0; block < p_.out_blocks(); ++block) {
    w.comment("columns {} to {} of V: a warp's 16 are of one group", 64 * block, 64 * block + 63);
    const int chunk = 4 * block % (span / 16), panel = 4 * block / (span / 16);
    w.open("");
    w.line("const u32 v_chunk = (({} + warp) ^ {}) << 4;", chunk, swizzle_bits(span, "lane"));
    w.line("const u32 p_group = smem_p + min(({} + 16 * warp) / {}, {}) * {};", 64 * block, n,
           p_.v_groups - 1, p_.key_blocks() * p_.BM * 128);
    w.line("u32 x[4], v_frag[8], b_frag[4];");
    for (int keys = 0; keys < p_.BN / 32; ++keys) {
      w.line("ldmatrix_x4_trans(x, v_at + {} + v_chunk);", panel * p_.BN * span + 32 * keys * span);
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (i / 2) + 2 * (i % 2);
        w.line(
            "x[{0}] = __byte_perm(x[{0}], 0, 0x3120); v_frag[{1}] = narrow_to_fp16(x[{0}]); v_frag[{2}] = "
            "narrow_to_fp16(x[{0}] >> 16);",
            i, at, at + 1);
      }
      for (int half = 0; half < 2; ++half)
        emit_step(w, p_, fmt::format("o_acc_{}", block), fmt::format("v_frag + {}", 4 * half), "p_group",
                  2 * keys + half, false);
    }
    w.close();
  }
}

void GroupedKeys::use(Prelude& prelude) const {
  prelude.use("stmatrix_trans"), prelude.use("shared_words"), prelude.use("ldmatrix_trans");
  prelude.use(*p_.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
  if (p_.config.dtype == DType::bf16) prelude.use("bf16_to_fp16");
  prelude.use("ldmatrix"), prelude.use("mma_fp16"), prelude.use("mma_fp16_first");
}

void GroupedKeys::expect(Manifest& manifest) const {
  const int steps = p_.key_blocks() * p_.depth / 16 + p_.out_blocks() * (p_.BN / 16);
  manifest.expectations.push_back({"mma.sync.aligned.m16n8k16", steps * p_.BM / 8});
}

}  // namespace kiln::sm90
