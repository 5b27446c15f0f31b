"""CuPy: element-wise kernels, reductions, scans, indexing, a kernel of one's own. `race` leaves a barrier out of that."""

import sys

import cupy as cp
import numpy as np

REVERSE = r"""
extern "C" __global__ void reverse(const float* in, float* out) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  WAIT
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


def outcome(name, got, want):
    good = np.array_equal(cp.asnumpy(got), want)
    print(f"{name}: {'right' if good else 'WRONG'}", flush=True)
    return good


def main():
    wait = "" if "race" in sys.argv[1:] else "__syncthreads();"
    x = np.random.default_rng().integers(-99, 100, (30, 40)).astype(np.float32)
    d = cp.asarray(x)
    good = outcome("elements", cp.maximum(d * 2 + 1, 0), np.maximum(x * 2 + 1, 0))
    good &= outcome("sum", d.sum(axis=1), x.sum(axis=1))
    good &= outcome("max", d.max(), x.max())
    good &= outcome("argmax", d.argmax(axis=0), x.argmax(axis=0))
    good &= outcome("transpose", cp.ascontiguousarray(d.T), x.T)
    good &= outcome("where", d[d > 50], x[x > 50])
    out = cp.empty(128, cp.float32)
    cp.RawKernel(REVERSE.replace("WAIT", wait), "reverse")((1,), (128,), (d.ravel(), out))
    good &= outcome("reverse", out, x.ravel()[127::-1])
    sys.exit(0 if good else 1)


main()
