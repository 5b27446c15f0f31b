"""Kernels of Numba on device arrays: grid, shared memory with a barrier, atomics. `race` leaves the barrier out."""

import sys

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + y[i]


@cuda.jit
def reverse(x, out, wait):
    tile = cuda.shared.array(128, dtype=np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if wait:
        cuda.syncthreads()
    out[i] = tile[127 - i]


@cuda.jit
def histogram(x, bins):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[i], 1)


def outcome(name, got, want):
    good = np.array_equal(got, want)
    print(f"{name}: {'right' if good else 'WRONG'}", flush=True)
    return good


def main():
    wait = "race" not in sys.argv[1:]
    r = np.random.default_rng()
    x, y = r.standard_normal(1000).astype(np.float32), r.standard_normal(1000).astype(np.float32)
    out = cuda.device_array(1000, np.float32)
    add[8, 128](cuda.to_device(x), cuda.to_device(y), out)
    good = outcome("add", out.copy_to_host(), x + y)
    row = cuda.device_array(128, np.float32)
    reverse[1, 128](cuda.to_device(x[:128].copy()), row, wait)
    good &= outcome("reverse", row.copy_to_host(), x[127::-1])
    values = r.integers(0, 32, 3000).astype(np.int32)
    bins = cuda.to_device(np.zeros(32, np.int32))
    histogram[4, 64](cuda.to_device(values), bins)
    good &= outcome("histogram", bins.copy_to_host(), np.bincount(values, minlength=32))
    sys.exit(0 if good else 1)


main()
