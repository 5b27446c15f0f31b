// Worked numbers of the FA4 configuration and TMAConsumerPipeline.
#include <doctest/doctest.h>

#include "generator/systems/fa4_config.hpp"

using namespace kiln;

namespace {

FA4Params d128(DType dtype = DType::bf16) {
  FA4Params p;
  p.dtype = dtype;
  return p;
}

}  // namespace

TEST_CASE("F-53 F-60 bf16 d128 lands on the shared ring") {
  const FA4Config c = fa4_config(d128());
  CHECK(c.BN == 128);
  CHECK(c.shared_ring);
  CHECK(c.num_kv_stages == 5);
  CHECK(c.num_qk_stages == 1);
  CHECK(c.BK0 == 128);
  CHECK(c.smem_bytes == 230588);
  CHECK(c.first_k_barrier_bytes() == 65536);
  CHECK(c.k_barrier_bytes() == 32768);
  CHECK(c.v_barrier_bytes() == 32768);
  CHECK(c.tmem_used == 512);
  const BarrierMap map = fa4_barriers(c);
  CHECK(map.k == 11);
  CHECK(map.o_prod == 21);
  CHECK(map.total == 23);
  CHECK(c.problem().empty());
}

TEST_CASE("F-54 F-59 fp8 d128 has separate rings") {
  const FA4Config c = fa4_config(d128(DType::fp8_e4m3));
  CHECK_FALSE(c.shared_ring);
  CHECK(c.num_kv_stages == 6);
  CHECK(c.num_qk_stages == 2);
  CHECK(c.BK0 == 64);
  CHECK(c.staged_k_bytes == 8192);
  CHECK(c.full_k_bytes == 16384);
  CHECK(c.full_v_bytes == 16384);
  CHECK(c.first_k_barrier_bytes() == 16384);
  CHECK(c.smem_bytes == 230804);
  const BarrierMap map = fa4_barriers(c);
  CHECK(map.s0_prod == 8);
  CHECK(map.q1 == 10);
  CHECK(map.k == 12);
  CHECK(map.v == 36);
  CHECK(map.o_prod == 48);
  CHECK(map.total == 50);
  CHECK(full_barrier(map.k, 2, 3, 1) == 19);
  CHECK(empty_barrier(map.k, 6, 2, 3, 1) == 31);
  const std::vector<int> first{256, 128, 256, 128, 128, 128, 128, 128, 1, 1};
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(map.counts[i] == first[i]);
}

TEST_CASE("F-55 to F-58 other configurations") {
  FA4Params p = d128();
  p.qk_depth = 192;
  p.rope_dtype = DType::bf16;
  FA4Config c = fa4_config(p);
  CHECK(c.rope_depth == 64);
  CHECK(c.BN == 128);
  CHECK(c.shared_ring);
  CHECK(c.num_kv_stages == 3);
  CHECK(c.full_k_bytes == 49152);
  CHECK(c.full_v_bytes == 32768);
  CHECK(c.smem_bytes == 230556);
  CHECK(c.rope_buffers == 2);

  p = d128();
  p.pair_cta = true;
  c = fa4_config(p);
  CHECK(c.k_rows_per_cta == 64);
  CHECK(c.v_cols_per_cta == 64);
  CHECK(c.staged_k_bytes == 8192);
  CHECK(c.full_k_bytes == 16384);
  CHECK(c.full_v_bytes == 16384);
  CHECK(c.k_barrier_bytes() == 16384);
  CHECK(c.v_barrier_bytes() == 32768);
  CHECK(c.num_kv_stages == 5);
  CHECK(c.smem_bytes == 230756);
  p.dtype = DType::fp8_e4m3;
  CHECK(fa4_config(p).num_kv_stages == 12);
  CHECK(fa4_config(p).smem_bytes == 231092);

  p = d128();
  p.qk_depth = p.ov_depth = 64;
  c = fa4_config(p);
  CHECK(c.BN == 192);
  CHECK(c.tmem_used == 512);
  CHECK(c.num_kv_stages == 4);
  CHECK(c.smem_bytes == 230636);
  p.page_size = 128;
  c = fa4_config(p);
  CHECK(c.BN == 128);
  CHECK(c.num_kv_stages == 6);
  CHECK(c.tmem_used == 384);
  CHECK(c.smem_bytes == 230700);

  p = d128();
  p.qk_depth = p.ov_depth = 256;
  CHECK(fa4_config(p).BN == 0);
  CHECK_FALSE(fa4_config(p).problem().empty());
  p.BM = 128;
  p.single_o = true;
  p.bn_cap = 64;
  c = fa4_config(p);
  CHECK(c.BN == 64);
  CHECK(c.num_kv_stages == 2);
  CHECK(c.num_qk_stages == 4);
  CHECK(c.smem_bytes == 230676);
  CHECK(c.problem().empty());

  p = d128();
  p.BM = 128;
  c = fa4_config(p);
  CHECK(c.num_kv_stages == 3);
  CHECK(c.num_qk_stages == 2);
  CHECK(c.smem_bytes == 230644);
}

TEST_CASE("F-61 F-62 PV split and partial tiles") {
  CHECK(pv_split(128, 16, 2).first == 6);
  CHECK(pv_split(128, 16, 2).second == 2);
  CHECK(pv_split(128, 16, 2).p_column_offset == 48);
  CHECK(pv_split(128, 32, 1).first == 3);
  CHECK(pv_split(128, 32, 1).p_column_offset == 24);
  CHECK(pv_split(192, 16, 2).first == 9);
  CHECK(pv_split(192, 16, 2).p_column_offset == 72);
  FA4Params p = d128();
  p.page_size = 32;
  const FA4Config c = fa4_config(p);
  const int left = 300 - 2 * c.BN;
  CHECK(left == 44);
  CHECK(c.valid_k(left) == 3);
  CHECK(fa4_config(d128(DType::fp8_e4m3)).valid_k(left) == 2);
  CHECK(c.partial_k_bytes((left + 31) / 32) == 16384);
}

TEST_CASE("F-63 descriptor steps") {
  const int bf16[] = {0, 32, 64, 96, 16384, 16416, 16448, 16480}, fp8[] = {0, 32, 8192, 8224};
  for (int kk = 0; kk < 8; ++kk) CHECK(k_descriptor_step(kk, 16, 64, 2, 128, 128) == bf16[kk]);
  for (int kk = 0; kk < 4; ++kk) CHECK(k_descriptor_step(kk, 32, 64, 1, 128, 64) == fp8[kk]);
  CHECK(v_descriptor_step(1, 16, 128) == 2048);
  CHECK(v_page_dense_step(1, 16, 128, 2) == 4096);
}

TEST_CASE("F-66 the reference's sm_90 tile") {
  CHECK(reference_sm90_bn(64, 128) == 64);
  CHECK(reference_sm90_bn(96, 128) == 128);
  CHECK(reference_sm90_bn(96, 64) == 256);
  CHECK(reference_sm90_bn(128, 128) == 128);
  CHECK(reference_sm90_bn(256, 128) == 64);
}

TEST_CASE("G-12 G-13 every supported configuration fits and its chunks add up") {
  int supported = 0;
  for (const DType dtype : {DType::bf16, DType::fp8_e4m3}) {
    for (const int depth : {64, 80, 96, 128, 192, 256}) {
      for (const int BM : {32, 64, 128, 256}) {
        for (const int mode : {0, 1, 2}) {
          FA4Params p = d128(dtype);
          p.qk_depth = p.ov_depth = depth;
          p.BM = BM;
          p.pair_cta = mode == 1;
          p.single_o = mode == 2;
          const FA4Config c = fa4_config(p);
          if (!c.problem().empty()) continue;
          ++supported;
          CAPTURE(depth);
          CAPTURE(BM);
          CHECK(c.num_qk_stages * c.staged_k_bytes == c.full_k_bytes);
          CHECK(c.smem_bytes <= 232448);
          CHECK(c.tmem_used <= 512);
        }
      }
    }
  }
  CHECK(supported > 30);
}
