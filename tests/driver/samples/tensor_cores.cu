// Matrix products on tensor cores by nvcuda::wmma: half with tiles in more shared memory than a block gets unasked,
// bfloat16 filled by cuda::pipeline, tf32, bytes, and double.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>

#include "common.hpp"
using namespace nvcuda;

constexpr int kM = 64, kN = 64, kK = 64;

__global__ void half_product(const half* a, const half* b, const float* c, float* d) {
  extern __shared__ __align__(128) unsigned char bytes[];
  half *sa = reinterpret_cast<half*>(bytes), *sb = sa + kM * (kK + 8);
  for (int i = threadIdx.x; i < kM * kK / 8; i += blockDim.x) {
    const int row = i / (kK / 8), at = i % (kK / 8) * 8;
    *reinterpret_cast<int4*>(sa + row * (kK + 8) + at) = *reinterpret_cast<const int4*>(a + row * kK + at);
    *reinterpret_cast<int4*>(sb + row * (kK + 8) + at) = *reinterpret_cast<const int4*>(b + row * kK + at);
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::load_matrix_sync(acc[i][j], c + (row + 16 * i) * kN + column + 16 * j, kN, wmma::mem_row_major);
  for (int k = 0; k < kK; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb[2];
    for (int i = 0; i < 2; ++i) {
      wmma::load_matrix_sync(fa[i], sa + (row + 16 * i) * (kK + 8) + k, kK + 8);
      wmma::load_matrix_sync(fb[i], sb + (column + 16 * i) * (kK + 8) + k, kK + 8);
    }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      for (int t = 0; t < acc[i][j].num_elements; ++t) acc[i][j].x[t] *= 2;
      wmma::store_matrix_sync(d + (row + 16 * i) * kN + column + 16 * j, acc[i][j], kN, wmma::mem_row_major);
    }
}
__global__ void bf16_product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d) {
  __shared__ alignas(128) __nv_bfloat16 sa[2][kM * 16], sb[2][kN * 16];
  auto pipe = cuda::make_pipeline();
  const auto fetch = [&](int k, int buffer) {
    pipe.producer_acquire();
    const int row = threadIdx.x / 2, half_row = threadIdx.x % 2 * 8;
    cuda::memcpy_async(&sa[buffer][row * 16 + half_row], a + row * kK + k + half_row, cuda::aligned_size_t<16>(16), pipe);
    cuda::memcpy_async(&sb[buffer][row * 16 + half_row], b + row * kK + k + half_row, cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
  };
  const int warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
  for (auto& f : acc) wmma::fill_fragment(f, 0.0f);
  fetch(0, 0);
  for (int k = 0; k < kK; k += 16) {
    const int buffer = k / 16 % 2;
    if (k + 16 < kK) {
      fetch(k + 16, buffer ^ 1);
      cuda::pipeline_consumer_wait_prior<1>(pipe);
    } else {
      cuda::pipeline_consumer_wait_prior<0>(pipe);
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, sa[buffer] + warp * 16 * 16, 16);
    for (int j = 0; j < 4; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb;
      wmma::load_matrix_sync(fb, sb[buffer] + j * 16 * 16, 16);
      wmma::mma_sync(acc[j], fa, fb, acc[j]);
    }
    pipe.consumer_release();
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) wmma::store_matrix_sync(d + warp * 16 * kN + j * 16, acc[j], kN, wmma::mem_row_major);
}
__global__ void tf32_product(const float* a, const float* b, float* d) {
  const int row = threadIdx.x / 32 * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
  for (int j = 0; j < kN; j += 16) {
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < kK; k += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
      wmma::load_matrix_sync(fa, a + row * kK + k, kK);
      wmma::load_matrix_sync(fb, b + j * kK + k, kK);
      for (auto& x : fa.x) x = wmma::__float_to_tf32(x);
      for (auto& x : fb.x) x = wmma::__float_to_tf32(x);
      wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(d + row * kN + j, acc, kN, wmma::mem_row_major);
  }
}
__global__ void byte_product(const signed char* a, const signed char* b, int* d) {
  const int row = threadIdx.x / 32 * 16;
  for (int j = 0; j < kN; j += 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
    wmma::fill_fragment(acc, 0);
    for (int k = 0; k < kK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
      wmma::load_matrix_sync(fa, a + row * kK + k, kK);
      wmma::load_matrix_sync(fb, b + j * kK + k, kK);
      wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(d + row * kN + j, acc, kN, wmma::mem_row_major);
  }
}
__global__ void double_product(const double* a, const double* b, double* d) {
  const int row = threadIdx.x / 32 * 8;
  for (int j = 0; j < kN; j += 8) {
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> acc;
    wmma::fill_fragment(acc, 0.0);
    for (int k = 0; k < kK; k += 4) {
      wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
      wmma::load_matrix_sync(fa, a + row * kK + k, kK);
      wmma::load_matrix_sync(fb, b + j * kK + k, kK);
      wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(d + row * kN + j, acc, kN, wmma::mem_row_major);
  }
}

template <class T>
std::vector<T> as(const std::vector<int>& of) {
  std::vector<T> out;
  for (const int x : of) out.push_back(T(float(x)));
  return out;
}
template <>
std::vector<signed char> as<signed char>(const std::vector<int>& of) {
  return std::vector<signed char>(of.begin(), of.end());
}
std::vector<int> a, b;
template <class T>
void check(const T* d, double factor, double add) {
  const auto got = to_host(d, kM * kN);
  for (int y = 0; y < kM; ++y)
    for (int x = 0; x < kN; ++x) {
      int want = 0;
      for (int k = 0; k < kK; ++k) want += a[y * kK + k] * b[x * kK + k];
      EXPECT(double(got[y * kN + x]) == factor * (want + add));
    }
}

int main() {
  a = some_ints(kM * kK, 6), b = some_ints(kN * kK, 6, 7);
  float* d = on_device<float>(kM * kN);
  const std::vector<float> ones(kM * kN, 1.0f);
  float* c = to_device(ones);
  const int bytes = 60000;
  half_product<<<1, 128, bytes>>>(to_device(as<half>(a)), to_device(as<half>(b)), c, d);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  OK(cudaFuncSetAttribute(half_product, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  half_product<<<1, 128, bytes>>>(to_device(as<half>(a)), to_device(as<half>(b)), c, d);
  check(d, 2, 1);
  bf16_product<<<1, 128>>>(to_device(as<__nv_bfloat16>(a)), to_device(as<__nv_bfloat16>(b)), d);
  check(d, 1, 0);
  tf32_product<<<1, 128>>>(to_device(as<float>(a)), to_device(as<float>(b)), d);
  check(d, 1, 0);
  int* di = on_device<int>(kM * kN);
  byte_product<<<1, 128>>>(to_device(as<signed char>(a)), to_device(as<signed char>(b)), di);
  check(di, 1, 0);
  double* dd = on_device<double>(kM * kN);
  double_product<<<1, 256>>>(to_device(as<double>(a)), to_device(as<double>(b)), dd);
  check(dd, 1, 0);
  return right();
}
