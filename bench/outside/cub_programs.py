"""CUB's device-wide algorithms as nvcc compiles them: reduce, scan, select and sort, with the launches that their host
code makes. programs() yields launch files for run.py. Needs nvcc with its CUB, and numpy; no GPU."""

import re
import struct
import subprocess

import numpy as np

SOURCE = """
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
struct Odd { __host__ __device__ bool operator()(int v) const { return v % 2 != 0; } };
using Status = cudaError_t;
Status reduce(void* t, size_t& b, const int* x, int* y, int n) { return cub::DeviceReduce::Sum(t, b, x, y, n); }
Status scan(void* t, size_t& b, const int* x, int* y, int n) { return cub::DeviceScan::InclusiveSum(t, b, x, y, n); }
Status select(void* t, size_t& b, const int* x, int* y, int* c, int n) {
  return cub::DeviceSelect::If(t, b, x, y, c, n, Odd{});
}
Status sort(void* t, size_t& b, const unsigned* x, unsigned* y, int n) { return cub::DeviceRadixSort::SortKeys(t, b, x, y, n); }
template <class P> constexpr int tile = P::BLOCK_THREADS * P::ITEMS_PER_THREAD;
using namespace cub::detail;
using Scan = scan::policy_hub<int, int, int, unsigned, cuda::std::plus<>>::Policy1000::ActivePolicy::ScanPolicyT;
using Select = select::policy_hub<int, cub::NullType, int, false, cub::SelectImpl::Select>::Policy1000::ActivePolicy;
using Sort = radix::policy_hub<unsigned, cub::NullType, unsigned>::Policy1000::ActivePolicy;
extern "C" __device__ int scan_tile = tile<Scan>, select_tile = tile<Select::SelectIfPolicyT>;
extern "C" __device__ int sort_tile = tile<Sort::OnesweepPolicy>;
"""
COUNT = 10000


class Module:
    def __init__(self, folder, target):
        source, self.file = folder / "cub.cu", folder / f"cub_{target}.ptx"
        source.write_text(SOURCE)
        subprocess.run(["nvcc", "-std=c++17", f"-arch={target}", "-lineinfo", "-ptx", "-o", self.file, source], check=True)
        self.text = self.file.read_text()

    def number(self, name):
        return int(re.search(rf"\b{name}\b(?: = (\d+))?", self.text)[1] or 0)

    def launch(self, part, blocks, *arguments):
        """The kernel whose name has `part`, with the threads it was compiled for (128 without)."""
        found = re.search(rf"\.entry (\w*{part}\w*)\((.*?)\n\{{", self.text, re.S)
        threads = re.search(r"\.maxntid (\d+)", found[2])
        return {"kernel": found[1], "grid": [blocks], "block": [int(threads[1]) if threads else 128],
                "args": list(arguments)}


def ceil(a, b):
    return -(-a // b)


def reduce(m, folder, stem, n):
    empty = f"bytes:{folder / 'empty.bin'}"
    return [m.launch("DeviceReduceSingleTileKernel", 1, "buffer:in", "buffer:out", f"u32:{n}", empty, "i32:0", empty)]


def scan(m, folder, stem, n):
    empty, state = f"bytes:{folder / 'empty.bin'}", f"bytes:{folder / 'pointer.bin'}@0=buffer:state"
    tiles = ceil(n, m.number("scan_tile"))
    return [m.launch("DeviceScanInitKernel", ceil(tiles, 128), state, f"i32:{tiles}"),
            m.launch("DeviceScanKernel", tiles, "buffer:in", "buffer:out", state, "i32:0", empty, empty, f"u32:{n}")]


def select(m, folder, stem, n):
    empty, state = f"bytes:{folder / 'empty.bin'}", f"bytes:{folder / 'pointer.bin'}@0=buffer:state"
    tiles = ceil(n, m.number("select_tile"))
    (folder / "streaming.bin").write_bytes(struct.pack("<??6xqqqq", True, True, 0, n, 0, 0))
    streaming = f"bytes:{folder / 'streaming.bin'}@24=buffer:counts@32=buffer:counts+8"
    return [m.launch("DeviceCompactInitKernel", ceil(tiles, 128), state, f"i32:{tiles}", "buffer:count"),
            m.launch("DeviceSelectSweepKernel", tiles, "buffer:in", "u64:0", "buffer:out", "buffer:count", state, empty,
                     empty, f"i32:{n}", f"i32:{tiles}", streaming, f"bytes:{folder / 'pointer.bin'}")]


def sort(m, folder, stem, n):
    empty, tiles = f"bytes:{folder / 'empty.bin'}", ceil(n, m.number("sort_tile"))
    launches = [m.launch("RadixSortHistogramKernel", 4, "buffer:bins", "buffer:in", f"u32:{n}", "i32:0", "i32:32", empty),
                m.launch("RadixSortExclusiveSumKernel", 4, "buffer:bins")]
    launches[-1]["block"] = [256]
    for step, (to, source) in enumerate([("other", "in"), ("out", "other"), ("other", "out"), ("out", "other")]):
        launches.append(m.launch("RadixSortOnesweepKernel", tiles, f"buffer:lookback+{4 * 256 * tiles * step}",
                                 f"buffer:counters+{4 * step}", "u64:0", f"buffer:bins+{1024 * step}", f"buffer:{to}",
                                 f"buffer:{source}", "u64:0", "u64:0", f"i32:{n}", f"i32:{8 * step}", "i32:8", empty))
    return launches


def programs(folder, only=""):
    """Yields (name, target, launch file as a dict, output file, reference, bound)."""
    values = np.random.default_rng(3).integers(-99, 100, COUNT).astype(np.int32)
    keys = values.view(np.uint32)
    odd = values[values % 2 != 0]
    cases = [("reduce", reduce, values, 1, [values.sum()]), ("scan", scan, values, COUNT, values.cumsum()),
             ("select", select, values, len(odd), odd), ("sort", sort, keys, COUNT, np.sort(keys))]
    (folder / "empty.bin").write_bytes(b"\0")
    (folder / "pointer.bin").write_bytes(bytes(8))
    for target in ("sm_80", "sm_90a"):
        wanted = [c for c in cases if only in f"CUB device {c[0]} {target}"]
        module = Module(folder, target) if wanted else None
        for name, make, given, outputs, want in wanted:
            stem = folder / f"cub_{name}_{target}"
            np.save(f"{stem}_in.npy", given)
            out = folder / f"{stem.name}_out.npy"
            kind = "u32" if given is keys else "i32"
            buffers = {"in": f"in:{stem}_in.npy", "out": f"out:{kind}[{outputs}]:{out}", "state": "out:u64[1024]",
                       "other": f"out:{kind}[{COUNT}]", "count": "out:i32[1]", "counts": "zeros:i64[2]",
                       "bins": "zeros:u32[1024]", "lookback": f"zeros:u32[{4 * 256 * 64}]", "counters": "zeros:u32[4]"}
            yield (f"CUB device {name}", target,
                   {"module": str(module.file), "buffers": buffers, "launches": make(module, folder, stem, COUNT)}, out,
                   want, 0)
