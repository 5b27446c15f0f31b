// A convolution by tensor copies in im2col mode: a 3 x 3 filter with a border, stride 1 and 2, over NHWC images; and a
// tile stored without offsets.
#include <cuda.h>
#include <cuda_runtime.h>

#include <vector>

#include "check.hpp"

constexpr int kC = 16, kW = 9, kH = 7, kN = 3, kPixels = 64;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void wait(unsigned bar, unsigned phase) {
  asm volatile(
      "{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }" ::"r"(bar),
      "r"(phase)
      : "memory");
}

/// out[pixel] = sum over the filter and the channels; a block has kPixels output pixels.
__global__ void convolve(const __grid_constant__ CUtensorMap images, const float* filter, float* out, int p,
                         int q, int stride) {
  __shared__ alignas(1024) float tile[kPixels * kC];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&bar)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  const int first = blockIdx.x * kPixels;
  float sum = 0;
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s) {
      if (threadIdx.x == 0) {
        const int w = first % q * stride - 1, h = first / q % p * stride - 1, n = first / q / p;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&bar)),
                     "r"(static_cast<unsigned>(sizeof tile)));
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
            "%3, %4, %5}], [%6], {%7, %8};" ::"r"(shared_address(tile)),
            "l"(&images), "r"(0), "r"(w), "r"(h), "r"(n), "r"(shared_address(&bar)),
            "h"(static_cast<unsigned short>(s)), "h"(static_cast<unsigned short>(r))
            : "memory");
      }
      wait(shared_address(&bar), (r * 3 + s) & 1);
      for (int c = 0; c < kC; ++c) sum += tile[threadIdx.x * kC + c] * filter[(r * 3 + s) * kC + c];
      __syncthreads();
    }
  if (first + threadIdx.x < kN * p * q) out[first + threadIdx.x] = sum;
}

/// Writes 1, 2, 3... to the first kPixels pixels.
__global__ void number(const __grid_constant__ CUtensorMap images) {
  __shared__ alignas(1024) float tile[kPixels * kC];
  for (int c = 0; c < kC; ++c) tile[threadIdx.x * kC + c] = static_cast<float>(1 + threadIdx.x);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%1, %1, %1, %1}], [%2];" ::"l"(
          &images),
      "r"(0), "r"(shared_address(tile))
      : "memory");
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

int main() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(found == cudaDriverEntryPointSuccess);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(entry);

  std::vector<float> images(kN * kH * kW * kC), filter(9 * kC);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 7 % 11) - 5;
  for (std::size_t i = 0; i < filter.size(); ++i) filter[i] = static_cast<float>(i * 5 % 7) - 3;
  float *x, *f, *out;
  OK(cudaMalloc(&x, images.size() * 4));
  OK(cudaMalloc(&f, filter.size() * 4));
  OK(cudaMalloc(&out, kN * kH * kW * 4));
  OK(cudaMemcpy(x, images.data(), images.size() * 4, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(f, filter.data(), filter.size() * 4, cudaMemcpyHostToDevice));

  const cuuint64_t dims[] = {kC, kW, kH, kN}, strides[] = {kC * 4, kC * 4 * kW, kC * 4 * kW * kH};
  int low[] = {-1, -1}, high[] = {-1, -1};
  const auto map = [&](cuuint32_t step) {
    CUtensorMap m;
    const cuuint32_t steps[] = {1, step, step, 1};
    EXPECT(encode(&m, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, x, dims, strides, low, high, kC, kPixels, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
    return m;
  };
  // Maps for im2col::w have swizzles of 64 and 128 bytes only.
  OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2colWide", &entry, 12080, cudaEnableDefault, &found));
  EXPECT(found == cudaDriverEntryPointSuccess);
  const auto encode_wide = reinterpret_cast<decltype(&cuTensorMapEncodeIm2colWide)>(entry);
  const auto wide = [&](CUtensorMapSwizzle swizzle, cuuint32_t pixels, CUtensorMapIm2ColWideMode mode) {
    CUtensorMap m;
    const cuuint32_t steps[] = {1, 1, 1, 1};
    return encode_wide(&m, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, x, dims, strides, -1, -1, kC, pixels, steps,
                       CU_TENSOR_MAP_INTERLEAVE_NONE, mode, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT(wide(CU_TENSOR_MAP_SWIZZLE_64B, 32, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W) == CUDA_SUCCESS);
  EXPECT(wide(CU_TENSOR_MAP_SWIZZLE_128B, 0, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128) == CUDA_SUCCESS);
  EXPECT(wide(CU_TENSOR_MAP_SWIZZLE_64B, 0, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(wide(CU_TENSOR_MAP_SWIZZLE_NONE, 32, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W) == CUDA_ERROR_INVALID_VALUE);

  for (int stride = 1; stride <= 2; ++stride) {
    const int p = (kH - 1) / stride + 1, q = (kW - 1) / stride + 1, total = kN * p * q;
    convolve<<<(total + kPixels - 1) / kPixels, kPixels>>>(map(static_cast<cuuint32_t>(stride)), f, out, p, q,
                                                           stride);
    std::vector<float> got(static_cast<std::size_t>(total));
    OK(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < total; ++i) {
      float want = 0;
      for (int r = 0; r < 3; ++r)
        for (int s = 0; s < 3; ++s) {
          const int h = i / q % p * stride - 1 + r, w = i % q * stride - 1 + s, n = i / q / p;
          if (h < 0 || h >= kH || w < 0 || w >= kW) continue;
          for (int c = 0; c < kC; ++c)
            want += images[static_cast<std::size_t>(((n * kH + h) * kW + w) * kC + c)] *
                    filter[static_cast<std::size_t>((r * 3 + s) * kC + c)];
        }
      EXPECT(got[static_cast<std::size_t>(i)] == want);
    }
  }

  low[0] = low[1] = high[0] = high[1] = 0;
  number<<<1, kPixels>>>(map(1));
  OK(cudaMemcpy(images.data(), x, images.size() * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kPixels * kC; ++i) EXPECT(images[static_cast<std::size_t>(i)] == static_cast<float>(1 + i / kC));
  low[0] = 200;  // beyond 8 bits
  CUtensorMap m;
  const cuuint32_t steps[] = {1, 1, 1, 1};
  EXPECT(encode(&m, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, x, dims, strides, low, high, kC, kPixels, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_ERROR_INVALID_VALUE);
  std::puts("im2col: right");
}
