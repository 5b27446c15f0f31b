"""`python -m kiln.demo`: a config becomes a kernel, which runs here and is compared with NumPy.

On the device of $KILN_DEVICE, else the emulated one. Where no kernel compiler is found the compiled kernel that comes with the package
is run. The files in _demo/ are made by `kiln generate` and `kiln compile --emit ptx` from CONFIG.
"""
from __future__ import annotations

import gzip
import os
import pathlib
import sys
import time

import kiln

CONFIG = {"name": "demo", "target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal"}
BATCH, LENGTH, HEADS_Q, HEADS_KV, DEPTH = 1, 100, 4, 2, 64


def load(runtime: kiln.Runtime) -> tuple[kiln.Kernel, str]:
    try:
        kernel = runtime.load(CONFIG)
        return kernel, f"compiled in {kernel.compile_ms:.0f} ms" if kernel.cache == "miss" else f"from the cache ({kernel.cache})"
    except kiln.Error as error:
        if error.code != "environment" or runtime.device["selector"] != "emulated":
            raise
        folder = pathlib.Path(__file__).absolute().parent / "_demo"
        image = gzip.decompress((folder / "kernel.ptx.gz").read_bytes())
        kernel = runtime.load_image((folder / "kernel.json").read_text(), image)
        return kernel, "no kernel compiler here, so the compiled kernel of the package (pip install '.[cuda]' brings one)"


def main() -> int:
    try:
        import numpy
    except ImportError:
        print("kiln.demo: NumPy is needed: pip install numpy", file=sys.stderr)
        return 3
    rng = numpy.random.default_rng()
    q = rng.standard_normal((BATCH, LENGTH, HEADS_Q, DEPTH)).astype(numpy.float16)
    k, v = (rng.standard_normal((BATCH, LENGTH, HEADS_KV, DEPTH)).astype(numpy.float16) for _ in range(2))
    o = numpy.full_like(q, numpy.nan)

    source, _ = kiln.generate(CONFIG)
    print(f"config   {CONFIG}")
    print(f"source   {len(source.splitlines())} lines of CUDA C++, {len(source) / 1024:.0f} KiB")
    try:
        runtime = kiln.Runtime(os.environ.get("KILN_DEVICE") or "emulated")
        print(f"device   {runtime.device['name']}")
        kernel, how = load(runtime)
        print(f"kernel   {how}")
        start = time.perf_counter()
        kernel(q, k, v, o)
        print(f"launch   {time.perf_counter() - start:.2f} s, copies included" +
              (" (the emulated device is no measure of speed)" if runtime.device["selector"] == "emulated" else ""))
    except kiln.Error as error:
        print(f"kiln.demo: {error}", file=sys.stderr)
        return 3 if error.code == "environment" else 1

    keys, values = (x.astype(float).repeat(HEADS_Q // HEADS_KV, 2) for x in (k, v))
    scores = numpy.einsum("bqhd,bkhd->bhqk", q.astype(float), keys) / DEPTH**0.5
    scores[..., numpy.triu(numpy.ones((LENGTH, LENGTH), bool), 1)] = -numpy.inf
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    wanted = numpy.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), values)
    error = numpy.linalg.norm(o - wanted) / numpy.linalg.norm(wanted)
    passed = bool(error <= 4e-3)
    print(f"check    {'passed' if passed else 'FAILED'} against NumPy in float64: relative error {error:.2g} (limit 0.004)")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
