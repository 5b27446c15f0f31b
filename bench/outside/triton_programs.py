"""Kernels in the style of Triton's tutorials, compiled for one target each: programs() yields launch files for
run.py. Needs triton and numpy; no GPU."""

import re

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90a": GPUTarget("cuda", 90, 32),
    "sm_100a": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, weights / tl.sum(weights, 0), mask=inside)


@triton.jit
def layer_norm(x, gain, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < columns, other=0.0)
        total += value
        squares += value * value
    mean = tl.sum(total, 0) / columns
    scale = 1.0 / tl.sqrt(tl.sum(squares, 0) / columns - mean * mean + eps)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        value = (tl.load(x + row + at, mask=inside) - mean) * scale
        tl.store(out + row + at, value * tl.load(gain + at, mask=inside) + tl.load(bias + at, mask=inside), mask=inside)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros([BM, BN], tl.float32)
    for first in range(0, K, BK):
        k = first + inner
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + columns[None, :], mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0)
        sums = tl.dot(x, y, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def matmul_whole(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros([BM, BN], tl.float32)
    for first in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (first + inner)[None, :])
        y = tl.load(b + (first + inner)[:, None] * N + columns[None, :])
        sums = tl.dot(x, y, sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums)


@triton.jit
def attention(q, k, v, out, scale, ROWS: tl.constexpr, DEPTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * ROWS * DEPTH
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    depth = tl.arange(0, DEPTH)
    query = tl.load(q + head + rows[:, None] * DEPTH + depth[None, :])
    maximum = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, DEPTH], tl.float32)
    for first in range(0, (tl.program_id(0) + 1) * BM, BN):
        keys = first + tl.arange(0, BN)
        at = head + keys[:, None] * DEPTH + depth[None, :]
        scores = tl.dot(query, tl.trans(tl.load(k + at))) * scale
        scores = tl.where(rows[:, None] >= keys[None, :], scores, float("-inf"))
        best = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp(scores - best[:, None])
        factor = tl.exp(maximum - best)
        total = total * factor + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), tl.load(v + at), sums * factor[:, None])
        maximum = best
    tl.store(out + head + rows[:, None] * DEPTH + depth[None, :], sums / total[:, None])


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_of(q, k, v, scale):
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) * scale
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    return softmax_of(scores) @ v.astype(np.float64)


def cases():
    """name, kernel, pointer types, inputs, output, numbers, constants, grid, warps, stages, reference, bound"""
    r = np.random.default_rng(7)
    f32 = lambda *shape: r.standard_normal(shape).astype(np.float32)
    f16 = lambda *shape: r.standard_normal(shape).astype(np.float16)
    x, y = f32(1000), f32(1000)
    yield ("vector add", add, [x, y], ("f32", (1000,)), [1000], {"BLOCK": 256}, [4], 4, 1, x + y, 1e-6)
    s = f32(6, 700)
    yield ("fused softmax", softmax, [s], ("f32", s.shape), [700], {"BLOCK": 1024}, [6], 4, 1, softmax_of(s), 1e-5)
    g, b = f32(700), f32(700)
    norm = (s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + 1e-5) * g + b
    yield ("layer norm", layer_norm, [s, g, b], ("f32", s.shape), [700, 1e-5], {"BLOCK": 256}, [6], 4, 1, norm, 1e-5)
    a, w = f16(100, 136), f16(136, 72)
    yield ("matmul, ragged", matmul, [a, w], ("f32", (100, 72)), [100, 72, 136], {"BM": 64, "BN": 64, "BK": 32}, [2, 2],
           4, 3, a.astype(np.float64) @ w.astype(np.float64), 4e-3)
    a, w = f16(128, 256), f16(256, 128)
    yield ("matmul, pipelined", matmul_whole, [a, w], ("f32", (128, 128)), [128, 128, 256],
           {"BM": 64, "BN": 128, "BK": 64}, [2, 1], 4, 3, a.astype(np.float64) @ w.astype(np.float64), 4e-3)
    q, k, v = f16(2, 128, 64), f16(2, 128, 64), f16(2, 128, 64)
    yield ("attention forward", attention, [q, k, v], ("f32", q.shape), [0.125],
           {"ROWS": 128, "DEPTH": 64, "BM": 64, "BN": 32}, [2, 2], 4, 2, attention_of(q, k, v, 0.125), 4e-3)
    n = r.integers(0, 50, 512).astype(np.int32)
    yield ("scan", scan, [n], ("i32", (512,)), [], {"BLOCK": 256}, [2], 4, 1, n.reshape(2, 256).cumsum(1).ravel(), 0)
    yield ("sort", sort_rows, [n], ("i32", (512,)), [], {"BLOCK": 256}, [2], 4, 1, np.sort(n.reshape(2, 256)).ravel(), 0)
    yield ("histogram", histogram, [n], ("zeros:i32", (64,)), [500], {"BLOCK": 256}, [2], 4, 1,
           np.bincount(n[:500], minlength=64), 0)


def compile_for(case, target):
    _, kernel, inputs, output, numbers, constants, _, warps, stages, _, _ = case
    kinds = {"float32": "*fp32", "float16": "*fp16", "int32": "*i32"}
    types = [kinds[a.dtype.name] for a in inputs] + ["*i32" if "i32" in output[0] else "*fp32"]
    types += ["fp32" if isinstance(n, float) else "i32" for n in numbers]
    names = kernel.arg_names[:len(types)]
    source = ASTSource(kernel, dict(zip(names, types)) | {c: "constexpr" for c in constants},
                       {(kernel.arg_names.index(c),): v for c, v in constants.items()})
    source.attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(inputs) + 1)}
    return triton.compile(source, target=TARGETS[target], options={"num_warps": warps, "num_stages": stages})


def programs(folder, only=""):
    """Writes modules and arrays; yields (name, target, launch file as a dict, output file, reference, bound)."""
    for number, case in enumerate(cases()):
        name, kernel, inputs, output, numbers, _, grid, warps, _, want, bound = case
        for target in TARGETS:
            if only and only not in f"{name} {target}":
                continue
            stem = f"triton{number}_{target}"
            compiled = compile_for(case, target)
            amd = target.startswith("gfx")
            module = folder / (stem + (".hsaco" if amd else ".ptx"))
            module.write_bytes(compiled.asm["hsaco"] if amd else compiled.asm["ptx"].encode())
            arguments = []
            for i, array in enumerate(inputs):
                np.save(folder / f"{stem}_{i}.npy", array)
                arguments.append(f"in:{folder / stem}_{i}.npy")
            kind, shape = output
            out = folder / f"{stem}_out.npy"
            kind = kind if ":" in kind else "out:" + kind
            arguments.append(f"{kind}[{','.join(map(str, shape))}]:{out}")
            arguments += [f"f32:{n!r}" if isinstance(n, float) else f"i32:{n}" for n in numbers]
            if amd:
                arguments += ["u64:0", "u64:0"]  # scratch of the whole grid, for profiling too
            else:
                count = re.search(rf"\.entry {kernel.__name__}\((.*?)\)", compiled.asm["ptx"], re.S)[1].count(".param")
                arguments += ["u64:0"] * (count - len(arguments))
            launch = {"kernel": kernel.__name__, "grid": grid, "block": [warps * (64 if amd else 32)],
                      "shared": compiled.metadata.shared, "args": arguments}
            yield f"Triton {name}", target, {"module": str(module), "launches": [launch]}, out, want, bound
