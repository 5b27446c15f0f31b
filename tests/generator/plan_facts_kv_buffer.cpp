// Worked numbers of KVBuffer, DecodeStreamingKVBuffer and KVMmaOp.
#include <doctest/doctest.h>

#include "generator/systems/decode_streaming_constants.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"

using namespace kiln;

namespace {

constexpr std::array<int, 3> kWide{32, 32, 16}, kSmall{16, 16, 32}, kWideFp8{32, 32, 64},
    kSmallFp8{16, 16, 128};

KVBufferParams bf16(int depth, int BN, bool transpose, std::array<int, 3> shape = kWide, int BK = 32,
                    int WN = 0) {
  KVBufferParams p;
  p.mma_shape = shape;
  p.BN = BN;
  p.WN = WN ? WN : BN;
  p.BK = BK;
  p.num_threads = 256;
  p.depth = depth;
  p.transpose = transpose;
  return p;
}

KVBufferParams fp8(int depth, int BN, int WN, int BK, bool transpose, std::array<int, 3> shape,
                   int bk_smem = 0) {
  KVBufferParams p = bf16(depth, BN, transpose, shape, BK, WN);
  p.dtype = DType::fp8_e4m3;
  p.bk_smem = bk_smem;
  return p;
}

}  // namespace

TEST_CASE("F-01 F-02 K bf16 d128") {
  const auto c = kv_buffer_constants(bf16(128, 64, true));
  CHECK(c.num_repeats == 4);
  CHECK(c.num_mmas == 2);
  CHECK(c.num_k_mmas2 == 2);
  CHECK(c.num_k_tiles == 4);
  CHECK(c.input_frag_size == 8);
  CHECK(c.smem_stage_size == 8192);
  CHECK(c.smem_stage_bytes == 16384);
  CHECK(c.smem_total_cols == 256);
  CHECK(c.vm_exact == 4);
  CHECK(c.mma_total_rows == 16);
  CHECK(c.vgprs == 64);
}

TEST_CASE("F-03 to F-09 other bf16 tiles") {
  auto c = kv_buffer_constants(bf16(128, 128, true));
  CHECK(c.smem_stage_bytes == 32768);
  CHECK(c.vm_exact == 8);
  CHECK(c.num_mmas == 4);
  c = kv_buffer_constants(bf16(128, 64, false));
  CHECK(c.num_mmas == 4);
  CHECK(c.num_k_tiles == 2);
  CHECK(c.mma_total_rows == 16);
  c = kv_buffer_constants(bf16(64, 64, true));
  CHECK(c.num_repeats == 2);
  CHECK(c.smem_stage_size == 4096);
  CHECK(c.total_tiles == 4);
  CHECK(c.vm_exact == 2);
  c = kv_buffer_constants(bf16(256, 64, true));
  CHECK(c.num_repeats == 8);
  CHECK(c.smem_stage_bytes == 32768);
  CHECK(c.vm_exact == 8);
  CHECK(c.vgprs == 128);
  c = kv_buffer_constants(bf16(512, 32, true));
  CHECK(c.num_mmas == 1);
  CHECK(c.num_k_tiles == 16);
  CHECK(c.num_repeats == 16);
  CHECK(c.smem_stage_size == 16384);
  CHECK(c.vm_exact == 8);
  auto chunked = bf16(512, 32, true);
  chunked.reg_chunk_depth = 128;
  c = kv_buffer_constants(chunked);
  CHECK(c.reg_num_k_tiles == 4);
  CHECK(c.mma_total_rows == 8);
  CHECK(c.vgprs == 32);
  c = kv_buffer_constants(bf16(512, 32, false));
  CHECK(c.num_mmas == 16);
  CHECK(c.num_k_tiles == 1);
}

TEST_CASE("F-10 to F-15 fp8 tiles") {
  auto c = kv_buffer_constants(fp8(128, 64, 64, 64, true, kWideFp8));
  CHECK(c.num_repeats == 2);
  CHECK(c.num_k_mmas2 == 1);
  CHECK(c.input_frag_size == 32);
  CHECK(c.smem_stage_bytes == 8192);
  CHECK(c.vm_exact == 2);
  c = kv_buffer_constants(fp8(256, 64, 64, 64, false, kWideFp8));
  CHECK(c.num_mmas == 8);
  CHECK(c.num_repeats == 4);
  CHECK(c.smem_stage_bytes == 16384);
  CHECK(c.vm_exact == 4);
  auto mla = fp8(576, 128, 32, 128, true, kSmallFp8, 64);
  c = kv_buffer_constants(mla);
  CHECK(c.num_k_tiles == 5);
  CHECK(c.num_repeats == 9);
  CHECK(c.smem_stage_size == 73728);
  CHECK(c.total_tiles == 36);
  CHECK(c.tiles_per_warp == 9);
  CHECK(c.vm_exact == 18);
  mla.num_threads = 512;
  c = kv_buffer_constants(mla);
  CHECK(c.tiles_per_warp == 5);
  CHECK_FALSE(c.uniform_split());
  CHECK(c.vm_instrs_per_load == 0);
  auto padded = fp8(576, 128, 32, 128, true, kSmallFp8);
  padded.smem_depth = 640;
  c = kv_buffer_constants(padded);
  CHECK(c.smem_stage_bytes == 81920);
  CHECK(c.vm_instrs_per_load == 10);
  CHECK(c.vm_exact == 20);
}

TEST_CASE("F-16 to F-20 decode and MLA") {
  const auto c = kv_buffer_constants(bf16(576, 128, true, kSmall, 32, 32));
  CHECK(c.num_k_tiles == 18);
  CHECK(c.smem_stage_bytes == 147456);
  CHECK(c.vm_exact == 36);
  const VReader mla = v_reader(512, 128, 64, 4);
  CHECK(mla.depth_per_warp == 128);
  CHECK(mla.base_offsets == std::vector<int>{0, 16384, 32768, 49152});
  const VReader d64 = v_reader(64, 128, 32, 4);
  CHECK(d64.depth_per_warp == 16);
  CHECK(d64.smem_depth == 32);
  CHECK(d64.base_offsets == std::vector<int>{0, 16, 4096, 4112});
  const int vmK = kv_buffer_constants(bf16(128, 64, true)).vm_exact;
  const int vmKr = kv_buffer_constants(bf16(64, 64, true)).vm_exact;
  const int vmV = kv_buffer_constants(bf16(128, 64, false)).vm_exact;
  CHECK(vmK == 4);
  CHECK(vmKr == 2);
  CHECK(vmV == 4);
  CHECK(vmK + vmKr + vmV == 10);
  CHECK(vmK + vmV == 8);
}

TEST_CASE("worked examples of 2.4 that the facts leave out") {
  auto c = kv_buffer_constants(bf16(128, 64, true, kWide, 64));
  CHECK(c.vm_instrs_per_load == 2);
  CHECK(c.vm_exact == 4);
  c = kv_buffer_constants(bf16(128, 128, true, kSmall, 32, 32));
  CHECK(c.vm_exact == 8);
  CHECK(c.vgprs == 32);
  auto reader = bf16(16, 128, false, kSmall, 32, 128);
  reader.smem_depth = 32;
  c = kv_buffer_constants(reader);
  CHECK(c.num_mmas == 1);
  CHECK(c.smem_stage_bytes == 8192);
  CHECK(c.vgprs == 16);
  auto streamed = bf16(512, 32, true);  // 8.3
  streamed.full_kv = false;
  c = kv_buffer_constants(streamed);
  CHECK(c.smem_stage_size == 1024);
  CHECK(c.smem_stage_bytes == 2048);
  CHECK(c.vm_instrs_per_load == 0);
}

TEST_CASE("F-21 F-22 LDS bytes") {
  LdsRequest r{DType::bf16, 128, 128, 128, 64, 32, 1, true, false, false, true};
  CHECK(lds_bytes(r).total == 66560);
  r.depth = r.ov_depth = 512;
  r.BN = 32;
  const LdsBytes bytes = lds_bytes(r);
  CHECK(bytes.k == 65536);
  CHECK(bytes.v == 65536);
  CHECK(bytes.total == 132096);
  // gfx942 defaults of 2.4: d128 BN 64 with two stages of K and one of V; d512 sharing one stage.
  CHECK(lds_bytes({DType::bf16, 128, 128, 128, 64, 32, 1, false, true, false, true}).total == 50176);
  CHECK(lds_bytes({DType::bf16, 512, 512, 128, 32, 32, 1, false, false, true, true}).total == 33792);
}

TEST_CASE("F-23 F-24 streaming decode") {
  const auto make = [](int depth, bool transpose) {
    return decode_streaming_constants({DType::bf16, kSmall, 128, 32, 32, 256, depth, transpose});
  };
  const auto k = make(128, true), v = make(128, false);
  CHECK(k.num_mmas == 2);
  CHECK(v.num_mmas == 2);
  CHECK(v.tr == 16);
  CHECK(v.tc == 16);
  CHECK(v.vectors_per_thread == 2);
  CHECK(k.num_strips == 4);
  CHECK(v.num_strips == 4);
  CHECK(k.smem_bytes == 8192);
  CHECK(v.smem_bytes == 8192);
  const auto wide = make(512, false);
  CHECK(wide.num_mmas == 8);
  CHECK(wide.tr == 4);
  CHECK(wide.tc == 64);
  CHECK(wide.vectors_per_thread == 8);
  CHECK(wide.smem_bytes == 32768);
  CHECK(make(512, true).num_strips == 16);
  for (const int depth : {64, 128, 256, 512}) {
    const auto c = make(depth, false);
    CHECK(c.staging_rows == c.vectors_per_thread);
  }
}

TEST_CASE("KVMmaOp fragments per target") {
  const auto wide = kv_mma_op_constants({DType::bf16, kWide, 2, 2, 4, 64});
  CHECK(wide.input_frag_size == 8);
  CHECK(wide.accum_frag_size == 16);
  CHECK(wide.packs == 1);
  CHECK(wide.total_rows == 16);
  CHECK(kv_mma_op_constants({DType::fp8_e4m3, kSmallFp8, 2, 1, 5, 64}).packs == 2);
  const auto cdna3 = kv_mma_op_constants({DType::bf16, {32, 32, 8}, 2, 4, 4, 64});
  CHECK(cdna3.packs == 0);
  CHECK(cdna3.k_group == 2);
  const auto ampere = kv_mma_op_constants({DType::bf16, {16, 8, 16}, 8, 4, 2, 32});
  CHECK(ampere.input_frag_size == 4);
  CHECK(ampere.accum_frag_size == 4);
  CHECK(v_loader_problem(DType::fp8_e4m3, kWideFp8, 64, 64).empty());
  CHECK_FALSE(v_loader_problem(DType::fp8_e4m3, kWideFp8, 64, 128).empty());
  CHECK_FALSE(v_loader_problem(DType::fp8_e4m3, kSmallFp8, 64, 128).empty());
  CHECK_FALSE(v_loader_problem(DType::bf16, kWide, 64, 16).empty());
}
