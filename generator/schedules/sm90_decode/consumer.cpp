// The consumer warpgroup of sm90_decode. Per KV tile:
//
//   S' = K Q'             keys on the M side: a lane holds keys (lane >> 2) + 8 i, rows 2 (lane & 3) + {0, 1}
//   + 8 j maximum of each row   over the lane's keys, the warp (shuffles), the four warps (shared memory) P =
//   exp2(S' - max)    to shared memory, transposed: P is the B operand of O' += V' P'
//
// The product of tile n runs while that of K with the next tile is issued; both are waited for together.
#include "generator/config/quantization.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {

namespace {

/// Address of chunk `c`, from column `first` on, of packed row `r` of Q, of the emitted variables `packed`
/// and `position`.
std::string query_address(const DecodePlan& p, const std::string& chunk = "c", int first = 0) {
  return fmt::format(
      "q + {}(s.sequence.q_start + position) * q_stride_seq + (s.kv_head * group + packed % group) * "
      "q_stride_head + {}{} * {}",
      p.stream->ragged_q() ? "" : "s.batch * q_stride_batch + ",
      first > 0 ? std::to_string(first) + " + " : "", p.fp8_q ? 16 : 8, chunk);
}

}  // namespace

void open_query_chunks(Writer& w, const DecodePlan& p, int chunks, int real, int first) {
  w.open("for (int i = threadIdx.x; i < {}; i += {})", p.BM * chunks, p.consumer_threads());
  w.line("const int r = i / {0}, c = i % {0}, packed = s.m_block * {1} + r, position = packed / group;",
         chunks, p.BM);
  w.line("uint4 x = make_uint4(0, 0, 0, 0);");
  w.line("if (r < rows{}) x = *(const uint4*)({});", chunks > real ? fmt::format(" && c < {}", real) : "",
         query_address(p, "c", first));
}

namespace {

/// Registers of an M block that hold row index `c`: two keys (or two depths).
std::array<int, 2> registers_of(int c) {
  return {4 * (c / 2) + c % 2, 4 * (c / 2) + c % 2 + 2};
}

/// Q of 16 bits as it is, all of it on its way at once.
void emit_copy_q(Writer& w, const DecodePlan& p) {
  const int chunks = 8 * p.q_panels(), real = p.depth / 8, threads = p.consumer_threads();
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; rows past the last are zeros");
  if (p.q_by_rows()) {
    w.comment(
        "a row a warp: its place is worked out once, and here, or it would keep registers through the tiles");
    w.line("const int thread = thread_here(), of_lane = thread % 32;");
    w.line("#pragma unroll 2");
    w.open("for (int round = 0; round < {}; ++round)", (p.BM + threads / 32 - 1) / (threads / 32));
    w.line("const int r = {} * round + thread / 32;", threads / 32);
    if (p.BM % (threads / 32) != 0) w.line("if (r >= {}) break;", p.BM);
    w.line("const int packed = s.m_block * {} + r, position = packed / group;", p.BM);
    w.line("const u32 row = smem_q + r * 128 + (of_lane / 8) * {} + (((of_lane ^ r) % 8) << 4);", p.BM * 128);
    w.line("const u16* const from = {};", query_address(p, "of_lane"));
    for (const bool there : {true, false}) {
      there ? w.open("if (r < rows)") : w.reopen("else");
      for (int first = 0; first < chunks; first += 32) {
        const int lanes = std::min(32, (there ? real : chunks) - first);
        const std::string at = fmt::format("row + {}", first / 8 * p.BM * 128);
        const std::string copy = there ? fmt::format("copy_async_16({}, from + {});", at, 8 * first)
                                       : fmt::format("zero_16_bytes({});", at);
        if (lanes > 0) w.line("{}{}", lanes < 32 ? fmt::format("if (of_lane < {}) ", lanes) : "", copy);
        // columns past the last, up to a whole panel
        const int end = std::min(32, chunks - first);
        if (there && lanes < end)
          w.line("if (of_lane >= {} && of_lane < {}) zero_16_bytes({});", std::max(lanes, 0), end, at);
      }
    }
    w.close();
  } else {
    const int copies = p.BM * chunks;
    w.line("#pragma unroll{}", p.warpgroups > 1 ? " 2" : "");
    w.open("for (int round = 0; round < {}; ++round)", (copies + threads - 1) / threads);
    w.line("const int i = {0} * round + threadIdx.x, r = i / {1}, c = i % {1};", threads, chunks);
    if (copies % threads != 0) w.line("if (i >= {}) break;", copies);
    w.line("const u32 at = smem_q + (c / 8) * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4);", p.BM * 128);
    w.line("const int packed = s.m_block * {} + r, position = packed / group;", p.BM);
    w.line("if (r < rows{}) copy_async_16(at, {});", chunks > real ? fmt::format(" && c < {}", real) : "",
           query_address(p));
    w.line("else zero_16_bytes(at);");
  }
  w.close();
  w.line("copy_async_wait();");
}

void emit_load_q(Writer& w, const DecodePlan& p) {
  if (p.fp8_q) {
    emit_store_q_fp8(w, p);
  } else if (p.grouped()) {
    emit_store_q_grouped(w, p);
  } else if (p.narrow) {
    emit_store_q_narrow(w, p);
    if (p.rope > 0) emit_store_q_rope(w, p);
  } else {
    emit_copy_q(w, p);
  }
  if (p.fp8_q || !p.grouped()) w.line("fence_proxy_async();");  // for wgmma; ldmatrix needs none
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

void emit_reset(Writer& w, const DecodePlan& p) {
  if (p.upright) emit_upright_reset(w, p);
  for (int c = 0; !p.upright && c < p.columns(); ++c)
    w.line("row_max[{0}] = -kInfinity; row_sum[{0}] = 0.0f;", c);
  if (!p.upright) w.line("steep = false;");
  for (int j = 0; !p.upright && j < p.out_blocks(); ++j) {
    for (int i = 0; i < p.s_regs(); i += 4)
      w.line("o_acc_{0}[{1}] = o_acc_{0}[{2}] = o_acc_{0}[{3}] = o_acc_{0}[{4}] = 0.0f;", j, i, i + 1, i + 2,
             i + 3);
  }
}

/// Products of S' with chunk `qk` of K, keys on the M side.
void emit_chunk_products(Writer& w, const DecodePlan& p, int qk) {
  const std::string q_high = fmt::format("{:#x}u", k_major_descriptor(p.q_tile()).high);
  for (int i = 0; i < p.key_blocks(); ++i) {
    for (int step = p.qk_step(qk); step < p.qk_step(qk + 1); ++step) {
      w.line("{}(s_acc_{}, descriptor(k_low + {}, {}), descriptor(q_desc + {}, {}));", p.qk->name(step == 0),
             i, (64 * p.k_span * i >> 4) + p.k->step(step), p.k->descriptor_high(),
             k_major_step(p.q_tile(), step), q_high);
    }
  }
}

void emit_qk(Writer& w, const DecodePlan& p) {
  w.comment("{}", p.upright ? "S = Q K(n)'" : "S' = K(n) Q'");
  p.k->emit_wait(w, 0);
  // V in K's slot is read later: it is V's release that frees the slot.
  const auto release = [&](int qk) {
    if (!p.v_in_k) w.line("if (lane == 0) mbarrier_arrive({});", p.k->ring().empty(qk));
  };
  if (p.k_in_registers()) {
    p.grouped() ? emit_qk_grouped(w, p) : emit_qk_narrow(w, p);
    release(0);
    if (!p.grouped()) w.line("WGMMA_WAIT(0);");
    p.k->ring().emit_step(w);
    return;
  }
  w.line("const u32 k_low = {};", p.k->get());
  if (p.warpgroups > 1)
    w.line("named_barrier_sync(2 + half, {});  // in turns: one's softmax beside the other's products",
           p.consumer_threads());
  w.line("wgmma_fence();");
  for (int qk = 0; qk < p.num_qk_stages; ++qk) {
    if (qk > 0) {
      p.k->emit_wait(w, qk);
      w.line("wgmma_fence();  // the wait branched: the registers are ordered anew");
    }
    p.upright ? emit_upright_qk(w, p, qk) : emit_chunk_products(w, p, qk);
    w.line("wgmma_commit();");
  }
  if (p.warpgroups > 1) w.line("named_barrier_arrive(3 - half, {});", p.consumer_threads());
  // Not chunk by chunk: ptxas serialises products whose accumulators others of the group still write (C7514).
  w.line("WGMMA_WAIT(0);");
  for (int qk = 0; qk + 1 < p.num_qk_stages; ++qk) release(qk);
  if (p.scales_by_token()) {
    for (int i = 0; i < p.key_blocks(); ++i) emit_key_scales(w, p, i);
    w.line("__syncwarp();  // every lane has read its scales");
  }
  release(p.num_qk_stages - 1);
  p.k->ring().emit_step(w);
  if (p.narrow || p.warpgroups > 1) return;  // their V has gone back already
  w.open("if (n > s.tile_begin)");
  p.v->emit_arrivals(w, "  // V(n - 1)");
  p.v->ring().emit_step(w);
  w.close();
}

/// Maxima of the tile over a warp, left where the other warps read them.
void emit_tile_max(Writer& w, const DecodePlan& p) {
  w.comment("maximum of each row over the tile");
  w.line("float tile_max[{}];", p.columns());
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = registers_of(c);
    std::string text = fmt::format("fmaxf(s_acc_0[{}], s_acc_0[{}])", a, b);
    for (int i = 1; i < p.key_blocks(); ++i)
      text = fmt::format("fmaxf({0}, fmaxf(s_acc_{1}[{2}], s_acc_{1}[{3}]))", text, i, a, b);
    w.line("tile_max[{}] = {};", c, text);
  }
  for (int step : {4, 8, 16}) {
    for (int c = 0; c < p.columns(); ++c)
      w.line("tile_max[{0}] = fmaxf(tile_max[{0}], __shfl_xor_sync(0xffffffffu, tile_max[{0}], {1}));", c,
             step);
  }
  w.open("if (lane < 4)");
  for (int c = 0; c < p.columns(); c += 2)
    w.line("*(float2*)(row_exchange + warp * {} + {} + 2 * lane) = make_float2(tile_max[{}], tile_max[{}]);",
           p.BM, row_of(c), c, c + 1);
  w.close();
  w.line("named_barrier_sync(1, {});  // also: every warp's product with P(n - 1) is done",
         p.consumer_threads());
}

/// The rows' new maxima and bases, from those of all warps.
void emit_row_max(Writer& w, const DecodePlan& p) {
  w.line("bool grew = false;");
  w.line("float before[{0}], base[{0}];", p.columns());
  for (int c = 0; c < p.columns(); c += 2) {
    w.open("");
    for (int i = 0; i < 4; ++i)
      w.line("const float2 m_{} = *(const float2*)(row_exchange + {} + 2 * (lane & 3));", i,
             i * p.BM + row_of(c));
    for (int e = 0; e < 2; ++e) {
      const char* member = e == 0 ? "x" : "y";
      w.line("before[{0}] = row_max[{0}];", c + e);
      w.line("row_max[{1}] = fmaxf(row_max[{1}], fmaxf(fmaxf(m_0.{0}, m_1.{0}), fmaxf(m_2.{0}, m_3.{0})));",
             member, c + e);
      w.line("base[{0}] = row_max[{0}] == -kInfinity ? 0.0f : row_base(row_max[{0}], factor);", c + e);
      w.line("grew = grew || row_max[{0}] > before[{0}];", c + e);
    }
    w.close();
  }
}

/// Rows that have grown: O and the sums take their new scale.
void emit_rescale(Writer& w, const DecodePlan& p) {
  w.open("if (__any_sync(0xffffffffu, grew))");
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = registers_of(c);
    w.line("const float alpha_{0} = rescale_factor(before[{0}], row_max[{0}], factor);", c);
    w.line("row_sum[{0}] *= alpha_{0};", c);
    for (int j = 0; j < p.out_blocks(); ++j)
      w.line("o_acc_{0}[{1}] *= alpha_{3}; o_acc_{0}[{2}] *= alpha_{3};", j, a, b, c);
  }
  std::string steep;
  for (int c = 0; c < p.columns(); ++c) steep += fmt::format("{}is_steep(base[{}])", c > 0 ? " || " : "", c);
  w.line("steep = __any_sync(0xffffffffu, {});", steep);
  w.close();
}

/// Rows whose base no float rounds well enough: the difference comes first.
void emit_steep_scores(Writer& w, const DecodePlan& p) {
  w.open("if (steep)");
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = registers_of(c);
    w.open("if (is_steep(base[{}]))", c);
    for (int i = 0; i < p.key_blocks(); ++i)
      w.line("s_acc_{0}[{1}] -= row_max[{3}]; s_acc_{0}[{2}] -= row_max[{3}];", i, a, b, c);
    w.line("base[{}] = 0.0f;", c);
    w.close();
  }
  w.close();
}

void emit_max(Writer& w, const DecodePlan& p) {
  emit_tile_max(w, p);
  emit_row_max(w, p);
  emit_rescale(w, p);
  emit_steep_scores(w, p);
}

/// V is here once K is, where it is part of K, and once its scales were read; else whoever reads it waits.
void emit_wait_v(Writer& w, const DecodePlan& p) {
  if (!p.v_in_k && !p.scales_by_token()) p.v->emit_wait(w, 0);
}

void emit_zero_tail(Writer& w, const DecodePlan& p) {
  w.comment("rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN");
  w.line("const int v_rows = max(s.sequence.seqlen_k - n * {}, 0);", p.BN);
  w.open("if (v_rows < {})", p.BN);
  emit_wait_v(w, p);
  if (p.upright && p.v_in_k)
    w.line("named_barrier_sync(1, {});  // all products with K are done", p.consumer_threads());
  const int row_chunks = p.v_span / 16;
  w.open("for (int i = v_rows * {} + threadIdx.x; i < {}; i += {})", row_chunks, p.BN * row_chunks,
         p.consumer_threads());
  const std::string slot =
      p.num_kv_stages > 1 ? fmt::format("{} * {} + ", p.v->ring().stage(), p.v->slot_bytes()) : "";
  for (int panel = 0; panel < p.v_panels; ++panel)
    w.line("zero_16_bytes(smem_v + {}{} + i * 16);", slot, panel * p.BN * p.v_span);
  w.close();
  // wgmma reads the slot, and the next copy writes it. Where P comes next its fence serves both.
  if (p.upright || p.grouped()) w.line("fence_proxy_async();");
  if (p.upright) w.line("named_barrier_sync(1, {});", p.consumer_threads());
  w.close();
}

/// Scales of V's keys, v_scale_<block>_<half>, 0 past the sequence.
void emit_value_scales(Writer& w, const DecodePlan& p, int block) {
  const int bytes = scale_block_bytes(p) * block;
  const auto there = [&](int half) {
    return p.scale_tiles() ? fmt::format("scaled_keys <= {} ? 0.0f : ", 64 * block + 8 * half) : "";
  };
  w.line(
      "const float v_scale_{0}_0 = {4}load_shared_float({1} + {2}), v_scale_{0}_1 = "
      "{5}load_shared_float({1} + {3});",
      block, scale_address(p, false, 0), bytes, bytes + 32, there(0), there(1));
}

void emit_probabilities(Writer& w, const DecodePlan& p) {
  w.comment("P(n) = exp2(S' - max), and its row sums");
  if (p.scales_by_token() && !p.v_in_k) p.v->emit_wait(w, 0);
  // What is copied as a tile has anything there, and 0 * NaN is NaN.
  if (p.scale_tiles())
    w.line("const int scaled_keys = s.sequence.seqlen_k - n * {} - 16 * warp - (lane >> 2);", p.BN);
  for (int i = 0; i < p.key_blocks(); ++i) {
    for (int c = 0; c < p.columns(); ++c) {
      const auto [a, b] = registers_of(c);
      w.line(
          "s_acc_{0}[{1}] = exp2_approx(fmaf(s_acc_{0}[{1}], factor, -base[{3}])); s_acc_{0}[{2}] = "
          "exp2_approx(fmaf(s_acc_{0}[{2}], factor, -base[{3}])); row_sum[{3}] += s_acc_{0}[{1}] + "
          "s_acc_{0}[{2}];",
          i, a, b, c);
    }
    if (p.grouped()) {
      emit_store_p_grouped(w, p, i);
      continue;
    }
    if (p.scales_by_token()) {
      emit_value_scales(w, p, i);
      for (int r = 0; r < p.s_regs(); ++r) w.line("s_acc_{0}[{1}] *= v_scale_{0}_{2};", i, r, r / 2 % 2);
    }
    emit_transposed(w, p, fmt::format("smem_p + {} + transposed_at", i * p.BM * 128),
                    fmt::format("s_acc_{}", i), pack_of(p.math), "");
  }
  emit_zero_tail(w, p);
  if (!p.grouped()) w.line("fence_proxy_async();");
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

/// The products with V are done, and its slot goes back.
void emit_release_v(Writer& w, const DecodePlan& p) {
  w.line("WGMMA_WAIT(0);");
  if (p.separate) w.open("if (s.tile_begin < s.tile_end)");
  p.v->emit_arrivals(w);
  p.v->ring().emit_step(w);
  if (p.separate) w.close();
}

void emit_pv(Writer& w, const DecodePlan& p) {
  w.comment("{}", p.upright ? "O += P(n) V(n)" : "O' += V(n)' P(n)'");
  emit_wait_v(w, p);
  if (p.narrow) {
    p.grouped() ? emit_pv_grouped(w, p) : emit_pv_narrow(w, p);
    w.line("__syncwarp();  // every lane has read its part of V");
    p.v->emit_arrivals(w);
    p.v->ring().emit_step(w);
    return;
  }
  w.line("const u32 v_low = {}{};", p.v->get(),
         p.warpgroups > 1 ? fmt::format(" + half * {}", p.ov_columns() / 64 * p.BN * 128 >> 4) : "");
  w.line("wgmma_fence();");
  const std::string p_high = fmt::format("{:#x}u", k_major_descriptor(p.p_tile()).high);
  if (p.upright) emit_upright_pv(w, p);
  for (int j = 0; !p.upright && j < p.out_blocks(); ++j) {
    for (int step = 0; step < p.BN / 16; ++step) {
      w.line("{}(o_acc_{}, descriptor(v_low + {}, {}), descriptor(p_desc + {}, {}));", p.pv->name(false), j,
             (p.BN * 128 * j >> 4) + p.v->step(step), p.v->descriptor_high(), k_major_step(p.p_tile(), step),
             p_high);
    }
  }
  w.line("wgmma_commit();");
  if (p.warpgroups > 1) {
    w.comment("back at once: the slot is the next tile's, and the other warpgroup has products to do");
    emit_release_v(w, p);
  }
}

/// All tiles of a segment, one after the other.
void emit_tiles(Writer& w, const DecodePlan& p) {
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.BN), true);
  emit_qk(w, p);
  if (p.upright) {
    emit_upright_probabilities(w, p);
    emit_zero_tail(w, p);
  } else {
    emit_scores(w, p);
    emit_max(w, p);
    emit_probabilities(w, p);
  }
  emit_pv(w, p);
  w.close();
}

/// The scales of a head of one sequence. `scaled`: they are part of softmax's factor.
void emit_head_scales(Writer& w, const DecodePlan& p, bool scaled) {
  const Quantization& q = *p.config.operand->quantization;
  const std::string query = q.granularity == Quantization::Granularity::per_sequence
                                ? fmt::format(" * q_scale[{}]", scale_of_query(q, "s.batch", "s.kv_head"))
                                : " * query_scale";
  w.line("const float key_scale = k_scale[{0}]{1}, value_scale = {2}_scale[{0}];",
         scale_of_head(q, "s.batch", "s.kv_head"), p.fp8_q ? query : "", p.v_in_k ? "k" : "v");
  if (scaled) {
    w.comment("the factor stays positive: Q takes the sign of the scale, and a scale of 0");
    w.line("factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
  }
}

/// The warps' places, and the start of the work.
void emit_consumer_head(Writer& w, const DecodePlan& p) {
  w.banner("{}",
           p.warpgroups > 1 ? "consumer warpgroups, one for each half of V's columns" : "consumer warpgroup");
  if (p.warpgroups > 1) w.line("SETMAXNREG_INC({});", DecodePlan::kConsumerRegisters);
  if (p.range_by_role()) p.stream->emit_range(w);
  w.line("if (launch_before != 2) wait_for_launch_before();");
  if (p.warpgroups > 1) {
    w.line("const int warp = threadIdx.x / 32 % 4, half = threadIdx.x / 128;");
    if (!p.seesaw)
      w.line("if (half == 1) named_barrier_arrive(2, {});  // the first turn", p.consumer_threads());
  } else {
    w.line("const int warp = threadIdx.x / 32;");
  }
}

/// Names that hold through the kernel: the softmax factor, descriptors and addresses of a lane. A scale for the whole
/// item joins the factor where scores are not modified before it.
void emit_consumer_names(Writer& w, const DecodePlan& p) {
  w.line("const int group = heads_q / heads_kv;  // query heads of a KV head");
  w.line("{}float factor = {};  // from scores to log2 units", p.scale_in_factor() ? "" : "const ",
         p.modifier->scale_log2());
  if (!p.grouped()) w.line("const u32 q_desc = (smem_q >> 4) | {:#x}u;", k_major_descriptor(p.q_tile()).low);
  if (!p.grouped() && !p.upright)
    w.line("const u32 p_desc = (smem_p >> 4) | {:#x}u;", k_major_descriptor(p.p_tile()).low);
  if (!p.k_in_registers()) p.k->emit_construct(w);
  if (!p.narrow) p.v->emit_construct(w);
  if (p.grouped()) emit_grouped_lane(w);
  if (p.fp8_q && p.scales() &&
      p.config.operand->quantization->granularity != Quantization::Granularity::per_sequence)
    w.line("const float query_scale = q_scale[0];");
  if (!p.upright) {
    const bool eight = p.BM == 8;  // lanes from 16 on give no address then
    w.comment(
        "stmatrix addresses, transposed: row lane % 8{}, 16-byte chunk 2 * warp + (lane / 8) % 2, swizzled",
        eight ? "" : " + 8 * (lane / 16)");
    w.line("const u32 transposed_at = {} * 128 + (((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);",
           eight ? "(lane & 7)" : "((lane & 7) + 8 * (lane >> 4))");
    w.line("float* const row_exchange = (float*)(smem_bytes + {});", p.smem_max);
  }
  if (p.stream->splits()) w.line("int* const arrivals_before = (int*)(smem_bytes + {});", p.smem_flag);
}

/// Rings, accumulators, and what softmax keeps of each row.
void emit_consumer_state(Writer& w, const DecodePlan& p) {
  p.k->ring().emit_state(w, false);
  p.v->ring().emit_state(w, false);
  if (p.upright) {
    emit_upright_state(w, p);
    if (p.seesaw) emit_seesaw_state(w, p);
    return;
  }
  for (int i = 0; i < p.key_blocks(); ++i)
    w.line("float s_acc_{}[{}];  // S': keys {} to {}", i, p.s_regs(), 64 * i, 64 * i + 63);
  for (int i = 0; p.rope_apart() && i < p.key_blocks(); ++i)
    w.line("float rope_acc_{}[{}];  // of S' what the rotary columns add", i, p.s_regs());
  for (int j = 0; j < p.out_blocks(); ++j)
    w.line("float o_acc_{}[{}];  // O': columns {} to {} of V", j, p.s_regs(), 64 * j, 64 * j + 63);
  w.line("float row_max[{0}], row_sum[{0}];", p.columns());
  w.line("bool steep;  // some row of the warp has scores that are too large for a rounded base");
}

}  // namespace

void emit_decode_consumer(Writer& w, const DecodePlan& p) {
  emit_consumer_head(w, p);
  emit_consumer_names(w, p);
  emit_consumer_state(w, p);
  if (p.stream->dynamic()) p.cells.emit_state(w, false);
  p.stream->emit_loop_open(w);
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p.BM);
  if (p.head_scale()) emit_head_scales(w, p, p.scale_in_factor());
  emit_load_q(w, p);
  emit_reset(w, p);
  emit_limits(w, p);
  p.seesaw ? emit_seesaw(w, p) : emit_tiles(w, p);
  if (!p.narrow && p.warpgroups == 1) emit_release_v(w, p);
  emit_decode_epilogue(w, p);
  p.stream->emit_loop_close(w, p.cells, false, p.cell_slots_free());
}

}  // namespace kiln::sm90
