"""Kernels on CuTe, the layer under CUTLASS: a pipelined matrix product with cp.async, ldmatrix and mma for sm_80, and
one with wgmma for sm_90a. programs() yields launch files for run.py. Needs nvcc, numpy and the PyPI package
nvidia-cutlass, which holds the headers; no GPU."""

import importlib.util
import pathlib
import subprocess

import numpy as np

COMMON = """
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>
#include <cutlass/half.h>
using namespace cute;
using Half = cutlass::half_t;
constexpr int kStages = 3;
using BM = Int<128>; using BN = Int<128>; using BK = Int<64>;
"""

# Copies of all stages but one, and the wait at the head of the loop over tiles.
LOOP = """  const int tiles = size<3>(tAg);
  auto fetch = [&](int tile) {
    if (tile < tiles) {
      copy(Copy{}, tAg(_, _, _, tile), tAs(_, _, _, tile % kStages));
      copy(Copy{}, tBg(_, _, _, tile), tBs(_, _, _, tile % kStages));
    }
    cp_async_fence();
  };
  for (int s = 0; s < kStages - 1; ++s) fetch(s);
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<kStages - 2>();
"""

SM80 = COMMON + """
using Atom = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, BK>, Stride<BK, _1>>{}));
using SmemA = decltype(tile_to_shape(Atom{}, Shape<BM, BK, Int<kStages>>{}));
using SmemB = decltype(tile_to_shape(Atom{}, Shape<BN, BK, Int<kStages>>{}));
using Mma = decltype(make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2>>{}, Tile<_32, _32, _16>{}));
using Copy = decltype(make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<cute::uint128_t>, Half>{},
                                      Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _8>>{}));
extern "C" __global__ void __launch_bounds__(128) product(const Half* a, const Half* b, float* c, int m, int n, int k) {
  __shared__ alignas(128) Half smem_a[cosize_v<SmemA>], smem_b[cosize_v<SmemB>];
  Tensor gA = local_tile(make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{})), Shape<BM, BK>{},
                         make_coord(blockIdx.x, _));
  Tensor gB = local_tile(make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{})), Shape<BN, BK>{},
                         make_coord(blockIdx.y, _));
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{})), Shape<BM, BN>{},
                         make_coord(blockIdx.x, blockIdx.y));
  Tensor sA = make_tensor(make_smem_ptr(smem_a), SmemA{});
  Tensor sB = make_tensor(make_smem_ptr(smem_b), SmemB{});
  auto load = Copy{}.get_slice(threadIdx.x);
  Tensor tAg = load.partition_S(gA);
  Tensor tAs = load.partition_D(sA);
  Tensor tBg = load.partition_S(gB);
  Tensor tBs = load.partition_D(sB);
  auto mma = Mma{}.get_slice(threadIdx.x);
  Tensor rA = mma.partition_fragment_A(sA(_, _, 0));
  Tensor rB = mma.partition_fragment_B(sB(_, _, 0));
  Tensor rC = mma.partition_fragment_C(gC);
  clear(rC);
  auto from_a = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, Half>{}, Mma{}).get_slice(threadIdx.x);
  auto from_b = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, Half>{}, Mma{}).get_slice(threadIdx.x);
  Tensor xA = from_a.partition_S(sA);
  Tensor xB = from_b.partition_S(sB);
  Tensor yA = from_a.retile_D(rA);
  Tensor yB = from_b.retile_D(rB);
""" + LOOP + """    __syncthreads();
    fetch(tile + kStages - 1);
    CUTE_UNROLL
    for (int i = 0; i < size<2>(rA); ++i) {
      copy(Copy_Atom<SM75_U32x4_LDSM_N, Half>{}, xA(_, _, i, tile % kStages), yA(_, _, i));
      copy(Copy_Atom<SM75_U32x4_LDSM_N, Half>{}, xB(_, _, i, tile % kStages), yB(_, _, i));
      gemm(Mma{}, rA(_, _, i), rB(_, _, i), rC);
    }
  }
  copy(rC, mma.partition_C(gC));
}
"""

SM90 = COMMON + """
using SmemA = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Half>{}, Shape<BM, BK, Int<kStages>>{}));
using SmemB = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Half>{}, Shape<BN, BK, Int<kStages>>{}));
using Mma = decltype(make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{}));
using Copy = decltype(make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<cute::uint128_t>, Half>{},
                                      Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _8>>{}));
extern "C" __global__ void __launch_bounds__(128) product(const Half* a, const Half* b, float* c, int m, int n, int k) {
  extern __shared__ __align__(1024) Half smem[];
  Tensor gA = local_tile(make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{})), Shape<BM, BK>{},
                         make_coord(blockIdx.x, _));
  Tensor gB = local_tile(make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{})), Shape<BN, BK>{},
                         make_coord(blockIdx.y, _));
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{})), Shape<BM, BN>{},
                         make_coord(blockIdx.x, blockIdx.y));
  Tensor sA = make_tensor(make_smem_ptr(smem), SmemA{});
  Tensor sB = make_tensor(make_smem_ptr(smem + cosize_v<SmemA>), SmemB{});
  auto load = Copy{}.get_slice(threadIdx.x);
  Tensor tAg = load.partition_S(gA);
  Tensor tAs = load.partition_D(sA);
  Tensor tBg = load.partition_S(gB);
  Tensor tBs = load.partition_D(sB);
  auto mma = Mma{}.get_slice(threadIdx.x);
  Tensor rA = mma.make_fragment_A(mma.partition_A(sA));
  Tensor rB = mma.make_fragment_B(mma.partition_B(sB));
  Tensor rC = mma.make_fragment_C(mma.partition_C(gC));
  clear(rC);
""" + LOOP + """    tma_store_fence();  // fence.proxy.async
    __syncthreads();
    fetch(tile + kStages - 1);
    warpgroup_fence_operand(rC);
    warpgroup_arrive();
    gemm(Mma{}, rA(_, _, _, tile % kStages), rB(_, _, _, tile % kStages), rC);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    warpgroup_fence_operand(rC);
  }
  copy(rC, mma.partition_C(gC));
}
"""
M, N, K = 256, 128, 320


def headers():
    found = importlib.util.find_spec("cutlass_library")
    if found is None:
        raise SystemExit("nvidia-cutlass is not installed: pip install nvidia-cutlass")
    return pathlib.Path(found.origin).parent / "source" / "include"


def programs(folder, only=""):
    """Yields (name, target, launch file as a dict, output file, reference, bound)."""
    r = np.random.default_rng(5)
    a, b = (r.standard_normal(shape).astype(np.float16) for shape in ((M, K), (N, K)))
    np.save(folder / "cute_a.npy", a)
    np.save(folder / "cute_b.npy", b)
    for target, source, shared in (("sm_80", SM80, 0), ("sm_90a", SM90, 2 * 3 * 128 * 64 * 2)):
        if only not in f"CuTe product {target}":
            continue
        text, module = folder / f"cute_{target}.cu", folder / f"cute_{target}.ptx"
        text.write_text(source)
        subprocess.run(["nvcc", "-std=c++17", "--expt-relaxed-constexpr", "-I", headers(), f"-arch={target}", "-lineinfo",
                        "-ptx", "-o", module, text], check=True)
        out = folder / f"cute_{target}_out.npy"
        launch = {"kernel": "product", "grid": [M // 128, N // 128], "block": [128], "shared": shared,
                  "args": [f"in:{folder / 'cute_a.npy'}", f"in:{folder / 'cute_b.npy'}", f"out:f32[{M},{N}]:{out}",
                           f"i32:{M}", f"i32:{N}", f"i32:{K}"]}
        yield ("CuTe product", target, {"module": str(module), "launches": [launch]}, out,
               a.astype(np.float64) @ b.astype(np.float64).T, 4e-3)
