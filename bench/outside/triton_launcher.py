"""Triton programs with Triton's own launcher and no torch, for `kiln emulate -- python triton_launcher.py [NAME]`:
compiles, loads and launches as on a GPU, compares with NumPy. NAME `race` has a mistake and is run only when asked
for. Needs triton and numpy."""

import ctypes
import sys

import numpy as np
import triton
import triton.language as tl

from triton_programs import add, attention, attention_of, layer_norm, matmul, matmul_whole, scan, softmax, softmax_of

CUDA = ctypes.CDLL("libcuda.so.1")


def check(status):
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")


class Tensor:
    """What Triton asks of a tensor: its address and its type."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.dtype, self.shape = self.array.dtype, self.array.shape
        triton.runtime.driver.active.get_current_device()  # makes the context current
        address = ctypes.c_uint64()
        check(CUDA.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(self.array.nbytes)))
        self.address = address.value
        check(CUDA.cuMemcpyHtoD_v2(address, self.array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.array.nbytes)))

    def data_ptr(self):
        return self.address

    def numpy(self):
        out = np.empty_like(self.array)
        check(CUDA.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.address),
                                   ctypes.c_size_t(out.nbytes)))
        return out


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=inside) / (1 - p), 0.0), mask=inside)


@triton.jit
def reverse(x, scratch, out, BLOCK: tl.constexpr, WAIT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(scratch + at, tl.load(x + at))
    if WAIT:
        tl.debug_barrier()
    tl.store(out + at, tl.load(scratch + BLOCK - 1 - at))


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"],
                 do_bench=lambda call, quantiles: (call(), [1.0, 1.0, 1.0])[1])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def matmul_described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    x = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    y = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    z = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(x.load([row, k]), y.load([k, column]), sums)
    z.store([row, column], sums)


R = np.random.default_rng(7)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def f16(*shape):
    return R.standard_normal(shape).astype(np.float16)


def out(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


def run_add():
    x, y, z = f32(1000), f32(1000), out(1000)
    add[(4,)](Tensor(x), Tensor(y), z, 1000, BLOCK=256)
    return z, x + y, 1e-6


def run_softmax():
    x, y = f32(6, 700), out(6, 700)
    softmax[(6,)](Tensor(x), y, 700, BLOCK=1024)
    return y, softmax_of(x), 1e-5


def run_layer_norm():
    x, g, b, y = f32(6, 700), f32(700), f32(700), out(6, 700)
    layer_norm[(6,)](Tensor(x), Tensor(g), Tensor(b), y, 700, 1e-5, BLOCK=256)
    return y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b, 1e-5


def run_dropout():
    x, y = np.ones(2000, np.float32), out(2000)
    dropout[(8,)](Tensor(x), y, 2000, 0.25, 123, BLOCK=256)
    kept = y.numpy() > 0
    assert 0.7 < kept.mean() < 0.8
    return y, np.where(kept, x / 0.75, 0), 1e-6


def run_matmul():
    a, b, c = f16(100, 136), f16(136, 72), out(100, 72)
    matmul[(2, 2)](Tensor(a), Tensor(b), c, 100, 72, 136, BM=64, BN=64, BK=32)
    return c, a.astype(np.float64) @ b.astype(np.float64), 4e-3


def run_matmul_pipelined():
    a, b, c = f16(128, 256), f16(256, 128), out(128, 128)
    matmul_whole[(2, 1)](Tensor(a), Tensor(b), c, 128, 128, 256, BM=64, BN=128, BK=64, num_stages=3)
    return c, a.astype(np.float64) @ b.astype(np.float64), 4e-3


def run_matmul_described():
    triton.set_allocator(lambda size, alignment, stream: Tensor(np.zeros(size, np.int8)))
    a, b, c = f16(128, 256), f16(256, 128), out(128, 128)
    matmul_described[(2, 1)](Tensor(a), Tensor(b), c, 128, 128, 256, BM=64, BN=128, BK=64, num_stages=3)
    return c, a.astype(np.float64) @ b.astype(np.float64), 4e-3


def run_attention():
    q, k, v, o = f16(2, 128, 64), f16(2, 128, 64), f16(2, 128, 64), out(2, 128, 64)
    attention[(2, 2)](Tensor(q), Tensor(k), Tensor(v), o, 0.125, ROWS=128, DEPTH=64, BM=64, BN=32, num_stages=2)
    return o, attention_of(q, k, v, 0.125), 4e-3


def run_scan():
    x, y = R.integers(0, 50, 512).astype(np.int32), out(512, dtype=np.int32)
    scan[(2,)](Tensor(x), y, BLOCK=256)
    return y, x.reshape(2, 256).cumsum(1).ravel(), 0


def run_tuned():
    x, y = f32(1000), out(1000)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](Tensor(x), y, 1000)
    return y, 2 * x, 0


def run_reverse(wait=True):
    x, y = f32(256), out(256)
    reverse[(1,)](Tensor(x), out(256), y, BLOCK=256, WAIT=wait)
    return y, x[::-1], 0


def run_race():
    return run_reverse(wait=False)


def main():
    programs = {name[4:]: f for name, f in globals().items() if name.startswith("run_")}
    names = sys.argv[1:] or [name for name in programs if name != "race"]
    for name in names:
        got, want, bound = programs[name]()
        got = got.numpy().astype(np.float64).ravel()
        want = np.asarray(want, np.float64).ravel()
        error = np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-300)
        print(f"{name}: {'right' if error <= bound else f'WRONG, error {error:.2g}'}", flush=True)
        if error > bound:
            sys.exit(1)


main()
