"""Makes the programs that measure.py runs on the emulated device: Triton attention for sm_80, sm_90a and gfx942, and
CUB's device-wide radix sort. Needs triton and numpy, and nvcc with its CUB.
    programs.py FOLDER      writes one launch file (NAME.json) per program, with its inputs and what it must compute
"""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HEADS, ROWS, DEPTH = 4, 1024, 128
KEYS = 1 << 18


@triton.jit
def attention(q, k, v, o, scale, ROWS: tl.constexpr, DEPTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * ROWS * DEPTH
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, DEPTH)
    at_q = head + rows[:, None] * DEPTH + columns[None, :]
    query = tl.load(q + at_q)
    maximum = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, DEPTH], tl.float32)
    for first in range(0, ROWS, BN):
        keys = first + tl.arange(0, BN)
        at = head + keys[:, None] * DEPTH + columns[None, :]
        scores = tl.dot(query, tl.trans(tl.load(k + at))) * (scale * 1.4426950408889634)
        best = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp2(scores - best[:, None])
        factor = tl.exp2(maximum - best)
        total = total * factor + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.bfloat16), tl.load(v + at), sums * factor[:, None])
        maximum = best
    tl.store(o + at_q, (sums / total[:, None]).to(tl.bfloat16))


def bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def attention_inputs(folder):
    random = np.random.default_rng(1)
    arrays = [bf16(random.standard_normal((HEADS, ROWS, DEPTH))) for _ in range(3)]
    q, k, v = (from_bf16(a).astype(np.float64) for a in arrays)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(DEPTH)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out = weights @ v / weights.sum(-1, keepdims=True)
    for name, a in zip("qkv", arrays):
        np.save(folder / f"{name}.npy", a)
    np.save(folder / "attention_expected.npy", bf16(out))


def write_attention(folder, name, target, threads_a_warp, bn, warps, stages):
    source = ASTSource(attention, {**{p: "*bf16" for p in "qkvo"}, "scale": "fp32"},
                       {"ROWS": ROWS, "DEPTH": DEPTH, "BM": 128, "BN": bn})
    source.attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    compiled = triton.compile(source, target=target, options={"num_warps": warps, "num_stages": stages})
    amd = "hsaco" in compiled.asm
    module = f"{name}.hsaco" if amd else f"{name}.ptx"
    (folder / module).write_bytes(compiled.asm["hsaco"] if amd else compiled.asm["ptx"].encode())
    arguments = [f"buffer:{b}" for b in "qkvo"] + [f"f32:{DEPTH ** -0.5!r}", "u64:0", "u64:0"]
    if not amd:
        count = re.search(r"\.entry attention\((.*?)\)", compiled.asm["ptx"], re.S)[1].count(".param")
        arguments = arguments[:count]
    launch = {"kernel": "attention", "grid": [ROWS // 128, HEADS], "block": [warps * threads_a_warp],
              "shared": compiled.metadata.shared, "args": arguments}
    buffers = {b: f"in:{folder / b}.npy" for b in "qkv"} | {"o": f"out:u16[{HEADS * ROWS * DEPTH}]:{folder / name}_out.npy"}
    finish(folder, name, module, buffers, [launch], "attention_expected.npy", 4.0 * HEADS * ROWS * ROWS * DEPTH)


def finish(folder, name, module, buffers, launches, expected, flops=0):
    text = {"module": str(folder / module), "buffers": buffers, "launches": launches}
    (folder / f"{name}.json").write_text(json.dumps(text, indent=1))
    facts = {"out": f"{name}_out.npy", "expected": expected, "flops": flops}
    (folder / f"{name}.facts").write_text(json.dumps(facts))


SORT = """
#include <cub/device/device_radix_sort.cuh>
cudaError_t sort(void* temp, size_t& bytes, const unsigned* in, unsigned* out, int n) {
  return cub::DeviceRadixSort::SortKeys(temp, bytes, in, out, n);
}
using Policy = cub::detail::radix::policy_hub<unsigned, cub::NullType, unsigned>::Policy800;
extern "C" __device__ int tile_keys = Policy::OnesweepPolicy::BLOCK_THREADS * Policy::OnesweepPolicy::ITEMS_PER_THREAD;
extern "C" __device__ int sweep_threads = Policy::OnesweepPolicy::BLOCK_THREADS;
extern "C" __device__ int count_threads = Policy::HistogramPolicy::BLOCK_THREADS;
extern "C" __device__ int sum_threads = Policy::ExclusiveSumPolicy::BLOCK_THREADS;
"""


def write_sort(folder):
    (folder / "sort.cu").write_text(SORT)
    subprocess.run(["nvcc", "-std=c++17", "-arch=sm_80", "-ptx", "-o", folder / "sort.ptx", folder / "sort.cu"], check=True)
    ptx = (folder / "sort.ptx").read_text()
    fact = {n: int(re.search(rf"\b{n}\b = (\d+)", ptx)[1])
            for n in ("tile_keys", "sweep_threads", "count_threads", "sum_threads")}

    def entry(part):
        return next(n for n in re.findall(r"\.entry (\w+)", ptx) if part in n and not "SortOrder1" in n)

    keys = np.random.default_rng(2).integers(0, 1 << 32, KEYS, np.uint32)
    np.save(folder / "keys.npy", keys)
    np.save(folder / "sort_expected.npy", np.sort(keys))
    (folder / "empty.bin").write_bytes(b"\0")
    tiles = -(-KEYS // fact["tile_keys"])
    buffers = {"in": f"in:{folder / 'keys.npy'}", "a": f"out:u32[{KEYS}]:{folder / 'sort_out.npy'}",
               "b": f"out:u32[{KEYS}]", "bins": "zeros:u32[1024]"}
    nothing = f"bytes:{folder / 'empty.bin'}"
    launches = [{"kernel": entry("RadixSortHistogramKernel"), "grid": [16], "block": [fact["count_threads"]],
                 "args": ["buffer:bins", "buffer:in", f"u32:{KEYS}", "i32:0", "i32:32", nothing]},
                {"kernel": entry("RadixSortExclusiveSumKernel"), "grid": [4], "block": [fact["sum_threads"]],
                 "args": ["buffer:bins"]}]
    for p, (to, source) in enumerate([("b", "in"), ("a", "b"), ("b", "a"), ("a", "b")]):
        buffers[f"lookback{p}"] = f"zeros:u32[{256 * tiles}]"
        buffers[f"counter{p}"] = "zeros:u32[1]"
        launches.append({"kernel": entry("RadixSortOnesweepKernel"), "grid": [tiles], "block": [fact["sweep_threads"]],
                         "args": [f"buffer:lookback{p}", f"buffer:counter{p}", "u64:0", f"buffer:bins+{1024 * p}",
                                  f"buffer:{to}", f"buffer:{source}", "u64:0", "u64:0", f"i32:{KEYS}", f"i32:{8 * p}",
                                  "i32:8", nothing]})
    finish(folder, "sort", "sort.ptx", buffers, launches, "sort_expected.npy")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    attention_inputs(folder)
    write_attention(folder, "triton_sm80", GPUTarget("cuda", 80, 32), 32, 64, 8, 3)
    write_attention(folder, "triton_sm90", GPUTarget("cuda", 90, 32), 32, 64, 8, 3)
    write_attention(folder, "triton_gfx942", GPUTarget("hip", "gfx942", 64), 64, 64, 4, 2)
    write_sort(folder)


main()
