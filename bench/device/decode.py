"""Checks and times emitted decode kernels: beside torch's cuDNN over contiguous keys and a pure read of the same bytes.

    python3 bench/device/decode.py FOLDER [--cases 1x4096x32x8,...] [--no-check] [--no-time] [--reps 5]

FOLDER holds NAME.json (manifest) and NAME.cubin, and read.cubin (bench/device/read.cu) for the pure read. Times are of
CUDA-graph replays over rotating copies of the cache, so that nothing is found in L2; combination included.
"""

import argparse
import ctypes
import glob
import json
import math
import os
import statistics
import sys

import torch

import peers
from peers import Kernel, Watchdog, check, cuda, rel


LAYOUT = "bshd"  # of contiguous keys


def dtype_of(name):
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8_e4m3": torch.float8_e4m3fn, "int8": torch.int8}[name]


class Decode(Kernel):
    def __init__(self, path):
        super().__init__(path)
        config = self.m.get("config_json", self.m.get("config", {}))
        self.config = json.loads(config) if isinstance(config, str) else config
        operand = self.config.get("operand", {"kind": "contiguous"})
        self.kind = operand["kind"]
        self.page = operand.get("page_size", 0)
        self.quantization = operand.get("quantization")
        self.mask = self.config.get("mask", "none")

    def tensor_map(self, param, t):
        spec = param["map"]
        if t.dim() == 3:
            t = t.unsqueeze(0)
        names = ["page" if self.kind in ("paged", "continuous") else "batch", "seq", "head", "depth"]
        extent, stride = dict(zip(names, t.shape)), dict(zip(names, t.stride()))
        size = t.element_size()
        dims = [extent[d["axis"]] for d in spec["dims"]]
        strides = [stride[d["axis"]] * size for d in spec["dims"]]
        rank = len(dims)
        buf = ctypes.create_string_buffer(192)
        aligned = (ctypes.addressof(buf) + 63) & ~63
        kind = {2: 9 if t.dtype == torch.bfloat16 else 6, 1: 0}[size]
        check(cuda.cuTensorMapEncodeTiled(
            ctypes.c_void_p(aligned), kind, rank, ctypes.c_void_p(t.data_ptr()), (ctypes.c_uint64 * rank)(*dims),
            (ctypes.c_uint64 * (rank - 1))(*strides[1:]), (ctypes.c_uint32 * rank)(*[d["box"] for d in spec["dims"]]),
            (ctypes.c_uint32 * rank)(*([1] * rank)), 0, {0: 0, 32: 1, 64: 2, 128: 3}[spec["swizzle_bytes"]],
            {0: 0, 64: 1, 128: 2, 256: 3}[spec["l2_promotion_bytes"]], 0), f"{self.name}: tensor map")
        return (ctypes.c_char * 128).from_buffer_copy(ctypes.string_at(aligned, 128))

    def prepare(self, q, k, v, o, lengths_k, table=None, lse=None, cu_q=None, cu_k=None, max_q=1, k_scale=None, v_scale=None, sink=None):
        m = self.m
        ragged_q = self.kind != "contiguous"
        batch = cu_q.numel() - 1 if ragged_q else q.shape[0]
        hq, hk = q.shape[-2], k.shape[-2]
        sq = max_q if ragged_q else q.shape[1]
        group, rows = hq // hk, m["grid"]["block_rows"]
        m_blocks = (group * sq + rows - 1) // rows
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        most = grid = sms * m["grid"]["ctas_per_sm"]
        heads = hk * m_blocks
        # The runtime's rule (stream_blocks): fewer blocks where they would get few tiles each.
        keys = int((cu_k[1:] - cu_k[:-1]).max()) if cu_k is not None else k.shape[1] * (table.shape[1] if table is not None else 1)
        tiles = batch * heads * max(1, -(-keys // m["grid"]["block_keys"]))
        if m["target"] == "sm_90a" and tiles < 4 * grid:
            grid = sms
        team = max(d for d in range(1, heads + 1) if heads % d == 0 and (d == 1 or (d <= grid and grid % d * 50 <= grid)))
        items = batch * heads + team
        bytes_needed = max(most * m.get("workspace_bytes_per_block", 0), items * m.get("workspace_bytes_per_item", 0), 4)
        if not hasattr(self, "workspace") or self.workspace.numel() * 4 < bytes_needed:
            self.workspace = torch.empty(bytes_needed // 4, device="cuda", dtype=torch.float32)
        if not hasattr(self, "counters"):
            self.counters = torch.zeros(1 << 16, device="cuda", dtype=torch.int32)
        tensors = dict(q=q, k=k, v=v, o=o)
        ints = dict(batch=batch, heads_q=hq, heads_kv=hk, seqlen_q=sq, seqlen_k=k.shape[1] if k.dim() == 4 else 0, team_heads=team,
                    num_pages=k.shape[0], page_table_stride=table.stride(0) if table is not None else 0, total_q=q.shape[0])
        if table is not None:
            ints["key_capacity"] = table.shape[1] * k.shape[1]
        pointers = dict(q=q, k=k, v=v, o=o, lse=lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, seqlens_k=lengths_k, page_table=table,
                        workspace=self.workspace, item_counters=self.counters, k_scale=k_scale, v_scale=v_scale, sink=sink)
        strides = {f"{n}_stride_{a}": t.stride(-3 + i) for n, t in tensors.items() for i, a in enumerate(("seq", "head"))}
        strides |= {f"{n}_stride_batch": t.stride(0) for n, t in tensors.items()}
        strides |= {f"{n}_stride_page": t.stride(0) for n, t in (("k", k), ("v", v))}
        for n, t in (("k_scale", k_scale), ("v_scale", v_scale)):
            if t is not None:
                strides |= {f"{n}_stride_{a}": t.stride(0) for a in ("page", "batch")}
        floats = dict(scale=m["scale"], scale_log2=m["scale"] * math.log2(math.e))
        keep = []
        for p in m["params"]:
            role = p["role"]
            if p["kind"] == "tensor_map":
                keep.append(self.tensor_map(p, tensors[role]))
            elif p["kind"] == "pointer":
                keep.append(ctypes.c_uint64(pointers[role].data_ptr() if pointers[role] is not None else 0))
            elif p["kind"] == "i32":
                keep.append(ctypes.c_int32(ints[role]))
            elif p["kind"] == "i64":
                keep.append(ctypes.c_int64(strides[role]))
            else:
                keep.append(ctypes.c_float(floats[role]))
        args = (ctypes.c_void_p * len(keep))(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in keep])

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(self.function, grid, 1, 1, m["num_threads"], 1, 1, m["smem_bytes"], stream, args, None), self.name)

        launch.keep = (keep, tensors, pointers)
        return launch


def make_cache(kernel, lengths, hk, generator_seed=0, copies=1, poison=True):
    """Random keys and values in the kernel's operand form, and per sequence float views for the reference."""
    m = kernel.m
    d, dv, dt = m["depth"], m["ov_depth"], dtype_of(m["kv_dtype"])
    device = "cuda"
    i32 = lambda x: torch.tensor(x, dtype=torch.int32, device=device)

    def rand(*shape):
        x = torch.randn(*shape, device=device, dtype=torch.float32 if math.prod(shape) < 1 << 28 else torch.bfloat16)
        if dt == torch.int8:
            return (x * 40).clamp(-127, 127).round().to(torch.int8)
        return x.to(dt)

    out = {}
    batch, longest = len(lengths), max(max(lengths), 1)
    out["lengths"] = i32(lengths)
    if kernel.kind == "contiguous":
        if LAYOUT == "bhsd":
            out["k"], out["v"] = rand(batch, hk, longest, d).transpose(1, 2), rand(batch, hk, longest, dv).transpose(1, 2)
        else:
            out["k"], out["v"] = rand(batch, longest, hk, d), rand(batch, longest, hk, dv)
        rows = lambda t, b: t[b, :lengths[b]]
    elif kernel.kind == "ragged":
        out["k"], out["v"] = rand(max(sum(lengths), 1), hk, d), rand(max(sum(lengths), 1), hk, dv)
        out["cu_k"] = i32([0] + list(torch.tensor(lengths).cumsum(0)))
        starts = [0] + list(torch.tensor(lengths).cumsum(0).tolist())
        rows = lambda t, b: t[starts[b]:starts[b] + lengths[b]]
    else:
        page = kernel.page if kernel.kind == "paged" else longest
        need = [(l + page - 1) // page for l in lengths]
        total = sum(need) + 3
        out["k"], out["v"] = rand(total, page, hk, d), rand(total, page, hk, dv)
        order = torch.randperm(total)[:sum(need)].tolist()
        table = torch.full((batch, max(max(need), 1)), -77, dtype=torch.int32)
        at = 0
        mine = []
        for b, n in enumerate(need):
            table[b, :n] = torch.tensor(order[at:at + n], dtype=torch.int32)
            mine.append(order[at:at + n])
            at += n
        out["table"] = table.cuda()
        if poison and dt.is_floating_point:
            used = torch.zeros(total, page, dtype=torch.bool, device=device)
            for b, l in enumerate(lengths):
                if l:
                    flat = used[torch.tensor(mine[b], device=device)].view(-1)
                    flat[:l] = True
                    used[torch.tensor(mine[b], device=device)] = flat.view(-1, page)
            for t in (out["k"], out["v"]):
                bits = t.view(torch.int16 if t.element_size() == 2 else torch.int8)
                bits[~used] = 0x7fff if t.element_size() == 2 else 0x7f
        rows = lambda t, b: t[torch.tensor(mine[b], device=device, dtype=torch.long)].reshape(-1, t.shape[2], t.shape[3])[:lengths[b]]
    out["rows"] = rows
    quantization = kernel.quantization
    if quantization:
        g = quantization["granularity"]
        for name, depth in (("k", d), ("v", dv)):
            t = out[name]
            shape = [1] if g == "per_tensor" else [hk] if g == "per_head" else list(t.shape[:-1]) if g == "per_token" else list(t.shape[:-1]) + [depth // g]
            out[name + "_scale"] = torch.rand(shape, device=device) * 0.05 + 0.01 if dt == torch.int8 else torch.rand(shape, device=device) + 0.5
    return out


def scaled(kernel, cache, name, b, h):
    x = cache["rows"](cache[name], b)[:, h].double()
    scale = cache.get(name + "_scale")
    if scale is None:
        return x
    g = kernel.quantization["granularity"]
    if g == "per_tensor":
        return x * scale.double()
    if g == "per_head":
        return x * scale[h].double()
    if g == "per_token":
        return x * cache["rows"](scale.unsqueeze(-1), b)[:, h].double()
    return x * cache["rows"](scale, b)[:, h].double().repeat_interleave(g, -1)


def reference(kernel, q, k, v, sink):
    s = (q.double() @ k.T) * kernel.m["scale"]
    mod, mask = kernel.config.get("score_mod", "none"), kernel.mask
    if isinstance(mod, dict) and "softcap" in mod:
        s = mod["softcap"] * torch.tanh(s / mod["softcap"])
    sq, sk = s.shape
    position = torch.arange(sq, device=s.device)[:, None] + sk - sq
    key = torch.arange(sk, device=s.device)[None]
    if mask != "none":
        s = s.masked_fill(key > position, -math.inf)
    if isinstance(mask, dict):
        s = s.masked_fill(key <= position - mask["sliding_window"], -math.inf)
    if sink is not None:
        s = torch.cat([s, torch.full((sq, 1), sink.item(), device=s.device, dtype=s.dtype)], 1)
        v = torch.cat([v, torch.zeros(1, v.shape[1], device=v.device, dtype=v.dtype)])
    if s.shape[1] == 0:
        return torch.zeros(sq, v.shape[1], device=s.device, dtype=torch.float64), torch.full((sq,), -math.inf, device=s.device)
    lse = torch.logsumexp(s, -1)
    return torch.exp(s - lse[:, None]).nan_to_num(0.0) @ v, lse


def check_case(kernel, lengths, sq, hq, hk):
    m = kernel.m
    dt = dtype_of(m["dtype"])
    batch = len(lengths)
    cache = make_cache(kernel, lengths, hk)
    contiguous = kernel.kind == "contiguous"
    lq = [sq] * batch
    cu_q = torch.tensor([i * sq for i in range(batch + 1)], dtype=torch.int32, device="cuda")
    shape = lambda depth: (batch, sq, hq, depth) if contiguous else (batch * sq, hq, depth)
    q = torch.randn(*shape(m["depth"]), device="cuda").to(dt)
    o = torch.full(shape(m["ov_depth"]), math.nan, device="cuda", dtype=dt)
    lse = torch.full((batch, hq, sq) if contiguous else (hq, batch * sq), math.nan, device="cuda")
    sink = torch.randn(hq, device="cuda") if kernel.config.get("sink") else None
    launch = kernel.prepare(q, cache["k"], cache["v"], o, cache["lengths"] if kernel.kind != "ragged" else None, cache.get("table"), lse, cu_q,
                            cache.get("cu_k"), sq, cache.get("k_scale"), cache.get("v_scale"), sink)
    launch()
    first = o.clone()
    launch()  # counters were left as found, and results repeat
    torch.cuda.synchronize()
    worst = 0.0 if torch.equal(first.view(torch.int16), o.view(torch.int16)) else math.inf
    if bool(kernel.counters.any()):
        return math.inf
    for b in range(batch):
        for h in {0, hq - 1, hq // 2, b % hq}:
            rows = slice(b * sq, (b + 1) * sq)
            mine = o[b, :, h] if contiguous else o[rows, h]
            own = lse[b, h] if contiguous else lse[h, rows]
            qq = q[b, :, h] if contiguous else q[rows, h]
            g = h // (hq // hk)
            ref, ref_lse = reference(kernel, qq, scaled(kernel, cache, "k", b, g), scaled(kernel, cache, "v", b, g),
                                     sink[h] if sink is not None else None)
            err = rel(mine, ref) if ref.norm() > 0 else mine.double().abs().max().item()
            if m["writes_lse"]:
                fin = torch.isfinite(ref_lse)
                if not torch.equal(torch.isfinite(own), fin):
                    err = math.inf
                elif fin.any():
                    err = max(err, (own[fin].double() - ref_lse[fin]).abs().max().item() / 10)
            worst = max(worst, err) if err == err else math.inf
    return worst


def graph_us(launches, replays=7):
    """Time of one launch of a graph that holds them all, in microseconds: fastest half's median."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for f in launches:
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for f in launches:
            f()
    graph.replay()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / len(launches))
    return statistics.median(times)


class Read:
    def __init__(self, folder):
        data = open(os.path.join(folder, "read.cubin"), "rb").read()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), data), "read")
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, b"read_words"), "read")
        self.out = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.blocks = 2 * torch.cuda.get_device_properties(0).multi_processor_count

    def launcher(self, tensors):
        calls = []
        for t in tensors:
            keep = [ctypes.c_uint64(t.data_ptr()), ctypes.c_int64(t.numel() * t.element_size() // 16), ctypes.c_uint64(self.out.data_ptr())]
            calls.append((keep, (ctypes.c_void_p * 3)(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in keep])))

        def launch():
            for _, args in calls:
                check(cuda.cuLaunchKernel(self.function, self.blocks, 1, 1, 512, 1, 1, 0,
                                          ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), args, None), "read")

        return launch


def time_case(kernels, read, batch, length, hq, hk, reps, cudnn=True):
    results = {}
    for k in kernels:
        m = k.m
        dt = dtype_of(m["dtype"])
        size = batch * length * hk * (m["depth"] + m["ov_depth"]) * (1 if m["kv_dtype"] in ("fp8_e4m3", "int8") else 2)
        copies = max(1, min(64, math.ceil(600e6 / size)))
        caches = [make_cache(k, [length] * batch, hk, poison=False) for _ in range(copies)]
        contiguous = k.kind == "contiguous"
        q = torch.randn(*((batch, 1, hq, m["depth"]) if contiguous else (batch, hq, m["depth"])), device="cuda").to(dt)
        o = torch.empty(*(q.shape[:-1] + (m["ov_depth"],)), device="cuda", dtype=dt)
        lse = torch.empty((batch, hq, 1) if contiguous else (hq, batch), device="cuda")
        cu_q = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
        repeat = max(1, 20 // copies) if size < 3e8 else 1
        launches = [k.prepare(q, c["k"], c["v"], o, None if contiguous else c["lengths"], c.get("table"), lse, cu_q, c.get("cu_k"), 1,
                              c.get("k_scale"), c.get("v_scale"), None) for c in caches] * repeat
        us = statistics.median(graph_us(launches) for _ in range(reps))
        results[k.name] = (us, size)
        if contiguous and cudnn and m["kv_dtype"] == "bf16":
            reads = [read.launcher([c["k"], c["v"]]) for c in caches] * repeat
            joined = [torch.empty(size // 2, dtype=dt, device="cuda") for _ in range(copies)]
            reads = [read.launcher([t]) for t in joined] * repeat
            results["read"] = (statistics.median(graph_us(reads) for _ in range(reps)), size)
            del joined, reads
            calls = []
            from torch.nn.attention import SDPBackend, sdpa_kernel
            for c in caches:
                kt, vt = (c[n].transpose(1, 2).contiguous() for n in "kv")

                def call(kt=kt, vt=vt):
                    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                        torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), kt, vt, enable_gqa=hq != hk)

                calls.append(call)
            try:
                results["cudnn"] = (statistics.median(graph_us(calls * repeat) for _ in range(reps)), size)
            except Exception as error:  # noqa: BLE001
                print("cudnn:", str(error).splitlines()[0])
            del calls
        del caches, launches
        torch.cuda.empty_cache()
    base = results.get("read", (None, 1))
    cells = []
    for n, (us, size) in results.items():
        ratio = f" {base[0] * size / base[1] / us:.3f}" if base[0] else ""
        cells.append(f"{n} {us:.2f}us {size / us / 1e3:.0f}GB/s{ratio}")
    print(f"{batch} x {length} {hq}/{hk}: " + "  ".join(cells), flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--only", default="")
    ap.add_argument("--cases", default="1x4096x32x8,1x16384x32x8,1x65536x32x8,16x4096x32x8,64x4096x32x8,64x4096x64x8,16x16384x32x8,64x16384x32x8,256x4096x32x8")
    ap.add_argument("--reps", type=int, default=3)
    ap.add_argument("--no-check", action="store_true")
    ap.add_argument("--no-time", action="store_true")
    ap.add_argument("--layout", default="bshd", choices=("bshd", "bhsd"))
    a = ap.parse_args()
    global LAYOUT
    LAYOUT = a.layout
    torch.manual_seed(1)
    torch.zeros(1, device="cuda")
    watchdog = Watchdog(60)
    kernels = [Decode(p) for p in sorted(glob.glob(os.path.join(a.folder, "*.json")))
               if not a.only or os.path.basename(p)[:-5] in a.only.split(",")]
    failed = 0
    if not a.no_check:
        for k in kernels:
            worst = 0.0
            limit = 4e-2 if k.m["kv_dtype"] == "fp8_e4m3" and k.m["dtype"] == "fp8_e4m3" else 4e-3
            for lengths, sq, hq, hk in (([64], 1, 4, 1), ([1, 63, 64, 65, 0, 300], 1, 8, 2), ([1000, 17, 4096], 1, 32, 8), ([5000], 1, 64, 8),
                                        ([700, 33, 128, 0], 5, 8, 2), ([777] * 40, 1, 32, 8), ([100000, 1], 2, 8, 8)):
                if k.kind == "contiguous" and 0 in lengths and len(set(lengths)) == 1:
                    continue
                watchdog.arm(f"{k.name} {lengths} {sq}")
                e = check_case(k, lengths, sq, hq, hk)
                if not e <= limit:
                    print(f"   {k.name} lengths {lengths[:8]} q {sq} heads {hq}/{hk}: {e:.2e}")
                worst = max(worst, e)
            failed += not worst <= limit
            print(f"check {k.name:40s} worst {worst:.2e} {'ok' if worst <= limit else 'FAILED'}", flush=True)
    if not a.no_time:
        read = Read(a.folder)
        print(f"# {torch.cuda.get_device_name()} torch {torch.__version__}; ratios to the pure read of the same bytes")
        for case in a.cases.split(","):
            watchdog.arm(case)
            time_case([k for k in kernels if not k.config.get("sink")], read, *map(int, case.split("x")), a.reps)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
