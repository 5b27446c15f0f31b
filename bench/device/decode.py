"""Checks and times emitted decode kernels: beside torch's cuDNN over contiguous keys and a pure read of the same bytes.

    python3 bench/device/decode.py FOLDER [--cases 1x4096x32x8,...] [--ragged TRACE] [--no-check] [--no-time] [--reps 5] [--serial] [--residency]

FOLDER holds NAME.json (manifest) and NAME.cubin, and read.cubin (bench/device/read.cu) for the pure read. Times are of
CUDA-graph replays over rotating copies of the cache, so that nothing is found in L2; combination included. Contenders take turns
in random order. Kernels that wait for the launch before themselves are launched so (programmatic dependent launch), as the runtime
does; --serial leaves that out. --ragged also times batches with the lengths of a request trace beside as many equal ones.
"""

import argparse
import csv
import ctypes
import glob
import json
import math
import os
import random
import statistics
import sys

import torch

import peers
from peers import Kernel, Watchdog, check, cuda, rel


LAYOUT = "bshd"  # of contiguous keys
SERIAL = False
RESIDENCY = False
MAX_BLOCKS = []


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint) for n in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "smem_bytes")] + [
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("num_attributes", ctypes.c_uint)]


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
        scale = param["role"].endswith("_scale")  # of head and token: [batch or page, seq, head]
        if t.dim() == 3 and not scale:
            t = t.unsqueeze(0)
        names = ["page" if self.kind in ("paged", "continuous") else "batch", "seq", "head", "depth"][:t.dim()]
        extent, stride = dict(zip(names, t.shape)), dict(zip(names, t.stride()))
        size = t.element_size()
        dims = [extent[d["axis"]] for d in spec["dims"]]
        strides = [stride[d["axis"]] * size for d in spec["dims"]]
        rank = len(dims)
        buf = ctypes.create_string_buffer(192)
        aligned = (ctypes.addressof(buf) + 63) & ~63
        kind = {4: 7, 2: 9 if t.dtype == torch.bfloat16 else 6, 1: 0}[size]
        check(cuda.cuTensorMapEncodeTiled(
            ctypes.c_void_p(aligned), kind, rank, ctypes.c_void_p(t.data_ptr()), (ctypes.c_uint64 * rank)(*dims),
            (ctypes.c_uint64 * (rank - 1))(*strides[1:]), (ctypes.c_uint32 * rank)(*[d["box"] for d in spec["dims"]]),
            (ctypes.c_uint32 * rank)(*([1] * rank)), 0, {0: 0, 32: 1, 64: 2, 128: 3}[spec["swizzle_bytes"]],
            {0: 0, 64: 1, 128: 2, 256: 3}[spec["l2_promotion_bytes"]], 0), f"{self.name}: tensor map")
        return (ctypes.c_char * 128).from_buffer_copy(ctypes.string_at(aligned, 128))

    def prepare(self, q, k, v, o, lengths_k, table=None, lse=None, cu_q=None, cu_k=None, max_q=1, k_scale=None, v_scale=None, sink=None,
                before=0, max_blocks=0, residency="by_work"):
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
        stages, smem_bytes = m.get("stages"), m["smem_bytes"]
        if stages:  # the runtime's settle_stages
            if residency == "by_work":
                short = tiles * m["grid"]["block_keys"] * (m["depth"] + m["ov_depth"]) * k.element_size() <= (stages["alone_megabytes"] << 20) * sms and not max_blocks
                residency = "alone" if short else "shared"
            if residency == "alone":
                grid = sms
            else:
                smem_bytes = stages["shared_smem_bytes"]
        elif m["target"] == "sm_90a" and m["kv_dtype"] not in ("fp8_e4m3", "int8") and tiles < 4 * grid:
            grid = sms
        if max_blocks:
            grid = min(grid, max_blocks)
        team = max(d for d in range(1, hk + 1) if hk % d == 0 and (d == 1 or (d <= grid and grid % d * 25 <= grid)))
        # The runtime's even_blocks: short launches cut between items.
        size = tiles * m["grid"]["block_keys"] * (m["depth"] + m["ov_depth"]) * k.element_size()
        if not max_blocks and size <= (4 << 20) * sms:
            teams, each = grid // team, batch * heads // team
            even = [t for t in range(teams, 0, -1) if 20 * t >= 19 * teams and (each % t == 0 or (t % each == 0 and t // each <= 32))]
            grid = even[0] * team if even else grid
        items = batch * heads + team
        bytes_needed = max(most * m.get("workspace_bytes_per_block", 0), items * m.get("workspace_bytes_per_item", 0), 4)
        if not hasattr(self, "workspace") or self.workspace.numel() * 4 < bytes_needed:
            self.workspace = torch.empty(bytes_needed // 4, device="cuda", dtype=torch.float32)
        if not hasattr(self, "counters"):
            self.counters = torch.zeros(1 << 16, device="cuda", dtype=torch.int32)
        tensors = dict(q=q, k=k, v=v, o=o)
        ints = dict(batch=batch, heads_q=hq, heads_kv=hk, seqlen_q=sq, seqlen_k=k.shape[1] if k.dim() == 4 else 0, team_heads=team, launch_before=before,
                    num_pages=k.shape[0], page_table_stride=table.stride(0) if table is not None else 0, total_q=q.shape[0])
        if stages:
            ints["num_kv_stages"] = stages[residency]
        if table is not None:
            ints["key_capacity"] = table.shape[1] * k.shape[1]
        pointers = dict(q=q, k=k, v=v, o=o, lse=lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, seqlens_k=lengths_k, page_table=table,
                        workspace=self.workspace, item_counters=self.counters, k_scale=k_scale, v_scale=v_scale, sink=sink)
        strides = {f"{n}_stride_{a}": t.stride(-3 + i) for n, t in tensors.items() for i, a in enumerate(("seq", "head"))}
        strides |= {f"{n}_stride_batch": t.stride(0) for n, t in tensors.items()}
        strides |= {f"{n}_stride_page": t.stride(0) for n, t in (("k", k), ("v", v))}
        for n, t in (("k_scale", k_scale), ("v_scale", v_scale)):
            if t is not None:
                strides |= {f"{n}_stride_{a}": t.stride(0) for a in ("page", "batch")} | {f"{n}_stride_head": t.stride(-1)}
                tensors[n] = t
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

        programmatic = not SERIAL and any(e["instruction"] == "griddepcontrol.wait" for e in m["expectations"])
        attribute = LaunchAttribute(6)  # programmatic stream serialization
        attribute.value[0] = 1

        def launch():
            stream = torch.cuda.current_stream().cuda_stream
            config = LaunchConfig(grid, 1, 1, m["num_threads"], 1, 1, smem_bytes, stream, ctypes.pointer(attribute), int(programmatic))
            check(cuda.cuLaunchKernelEx(ctypes.byref(config), self.function, args, None), self.name)

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
            out["unused"] = ~used
        rows = lambda t, b: t[torch.tensor(mine[b], device=device, dtype=torch.long)].reshape(-1, t.shape[2], t.shape[3])[:lengths[b]]
    out["rows"] = rows
    quantization = kernel.quantization
    if quantization:
        g = quantization["granularity"]
        for name, depth in (("k", d), ("v", dv)):
            t = out[name]
            shape = [1] if g == "per_tensor" else [hk] if g == "per_head" else list(t.shape[:-1]) if g == "per_token" else list(t.shape[:-1]) + [depth // g]
            by_head = quantization.get("layout") == "head_major"
            if by_head:  # a head's tokens together, and their rows in whole 16 bytes
                shape[-2:] = shape[-1], (shape[-2] + 3) // 4 * 4
            scale = torch.rand(shape, device=device) * 0.05 + 0.01 if dt == torch.int8 else torch.rand(shape, device=device) + 0.5
            out[name + "_scale"] = scale = scale[..., :t.shape[-3]].transpose(-1, -2) if by_head else scale
            if "unused" in out and scale.dim() > 2:
                scale[out["unused"]] = math.nan
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


class Graph:
    """A CUDA graph of launches, each of which is timed alike."""

    def __init__(self, launches):
        self.keep, self.count = launches, len(launches)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for f in launches:
                f()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for f in launches:
                f()

    def us(self):
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record()
        self.graph.replay()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e3 / self.count


def medians(graphs, rounds):
    """Microseconds of a launch of each, in turns of random order."""
    times = {name: [] for name in graphs}
    for _ in range(rounds):
        for name in random.sample(list(graphs), len(graphs)):
            times[name].append(graphs[name].us())
    return {name: statistics.median(t[1:] or t) for name, t in times.items()}


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


def launches_of(k, caches, batch, hq, before=0, residency="by_work", max_blocks=0):
    """One decode step over each of the caches; `before` as the runtime's LaunchBefore."""
    m = k.m
    contiguous = k.kind == "contiguous"
    q = torch.randn(*((batch, 1, hq, m["depth"]) if contiguous else (batch, hq, m["depth"])), device="cuda").to(dtype_of(m["dtype"]))
    o = torch.empty(*(q.shape[:-1] + (m["ov_depth"],)), device="cuda", dtype=dtype_of(m["dtype"]))
    lse = torch.empty((batch, hq, 1) if contiguous else (hq, batch), device="cuda")
    cu_q = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
    return [k.prepare(q, c["k"], c["v"], o, None if contiguous else c["lengths"], c.get("table"), lse, cu_q, c.get("cu_k"), 1,
                      c.get("k_scale"), c.get("v_scale"), None, before, max_blocks, residency) for c in caches]


def kv_bytes(m, keys, hk):
    return keys * hk * (m["depth"] + m["ov_depth"]) * (1 if m["kv_dtype"] in ("fp8_e4m3", "int8") else 2)


def cudnn_calls(caches, batch, hq, hk):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    calls = []
    for c in caches:
        kt, vt = (c[n].transpose(1, 2).contiguous() for n in "kv")
        q = torch.randn(batch, hq, 1, kt.shape[-1], device="cuda").to(kt.dtype)

        def call(q=q, kt=kt, vt=vt):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                torch.nn.functional.scaled_dot_product_attention(q, kt, vt, enable_gqa=hq != hk)

        calls.append(call)
    return calls


def form_of(k):
    """What the caches of a kernel depend on."""
    return k.kind, k.page, k.m["kv_dtype"], k.m["depth"], k.m["ov_depth"], json.dumps(k.quantization)


def time_together(kernels, read, batch, length, hq, hk, reps, cudnn):
    """Kernels whose caches fit in memory at once, in turns."""
    graphs, sizes, forms = {}, {}, {}
    for k in kernels:
        size = sizes[k.name] = kv_bytes(k.m, batch * length, hk)
        copies = max(1, min(64, math.ceil(600e6 / size)))
        repeat = max(1, 20 // copies) if size < 3e8 else 1
        if form_of(k) not in forms:
            forms[form_of(k)] = [make_cache(k, [length] * batch, hk, poison=False) for _ in range(copies)]
        caches = forms[form_of(k)]
        graphs[k.name] = Graph(launches_of(k, caches, batch, hq) * repeat)
        if k.kind != "contiguous" and any(p["role"] == "launch_before" for p in k.m["params"]):
            # The launch before promised to leave lengths and tables alone.
            sizes[k.name + "+tables"] = size
            graphs[k.name + "+tables"] = Graph(launches_of(k, caches, batch, hq, 1) * repeat)
        for blocks in MAX_BLOCKS:
            sizes[f"{k.name}+{blocks}"] = size
            graphs[f"{k.name}+{blocks}"] = Graph(launches_of(k, caches, batch, hq, 1, max_blocks=blocks) * repeat)
        for residency in ("alone", "shared") if RESIDENCY and "stages" in k.m else ():
            sizes[f"{k.name}+{residency}"] = size
            graphs[f"{k.name}+{residency}"] = Graph(launches_of(k, caches, batch, hq, 1, residency) * repeat)
        if k.kind == "contiguous" and cudnn and k.m["kv_dtype"] == "bf16" and "read" not in graphs:
            sizes["read"] = sizes["cudnn"] = size
            joined = [torch.empty(size // 2, dtype=torch.bfloat16, device="cuda").normal_() for _ in range(copies)]
            graphs["read"] = Graph([read.launcher([t]) for t in joined] * repeat)
            try:
                graphs["cudnn"] = Graph(cudnn_calls(caches, batch, hq, hk) * repeat)
            except Exception as error:  # noqa: BLE001
                print("cudnn:", str(error).splitlines()[0])
    return {name: (us, sizes[name]) for name, us in medians(graphs, 4 * reps).items()}


def time_case(kernels, read, batch, length, hq, hk, reps, cudnn=True):
    results, left = {}, sorted(kernels, key=lambda k: (k.kind != "contiguous", form_of(k)))
    while left:
        together, room = [], 80e9
        while left and (not together or form_of(left[0]) == form_of(together[-1]) or room > kv_bytes(left[0].m, batch * length, hk)):
            if not together or form_of(left[0]) != form_of(together[-1]):
                room -= max(kv_bytes(left[0].m, batch * length, hk), 600e6)
            together.append(left.pop(0))
        results |= time_together(together, read, batch, length, hq, hk, reps, cudnn)
        torch.cuda.empty_cache()
    base = results.get("read")
    cells = []
    for n, (us, size) in results.items():
        ratio = f" {base[0] * size / base[1] / us:.3f}" if base else ""
        cells.append(f"{n} {us:.2f}us {size / us / 1e3:.0f}GB/s{ratio}")
    print(f"{batch} x {length} {hq}/{hk}: " + "  ".join(cells), flush=True)


def trace_lengths(path):
    """Keys of the requests of a trace while they decode: the prompt and a part of the answer."""
    rows = [json.loads(line) for line in open(path)] if path.endswith("l") else list(csv.DictReader(open(path)))
    names = ("input_length", "output_length") if "input_length" in rows[0] else ("ContextTokens", "GeneratedTokens")
    return [int(r[names[0]]) + random.randrange(1, max(2, int(r[names[1]]))) for r in rows]


def time_ragged(kernels, lengths, hq, hk, reps):
    """The same bytes in sequences of the trace's lengths and of equal ones."""
    total, batch = sum(lengths), len(lengths)
    equal = [total // batch + (i < total % batch) for i in range(batch)]
    graphs = {}
    for k in kernels:
        copies = 1 if kv_bytes(k.m, total, hk) > 1e9 else 4
        for tag, each in (("trace", lengths), ("equal", equal)):
            caches = [make_cache(k, each, hk, poison=False) for _ in range(copies)]
            graphs[k.name, tag] = Graph(launches_of(k, caches, batch, hq) * (4 // copies))
    results = medians(graphs, 4 * reps)
    cells = [f"{k.name} {results[k.name, 'trace']:.1f}us {results[k.name, 'trace'] / results[k.name, 'equal']:.3f} of equal lengths" for k in kernels]
    print(f"{batch} of a trace, {min(lengths)} to {max(lengths)} keys, {total} in all: " + "  ".join(cells), flush=True)
    del graphs
    torch.cuda.empty_cache()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--only", default="")
    ap.add_argument("--cases", default="1x4096x32x8,1x16384x32x8,1x65536x32x8,16x4096x32x8,64x4096x32x8,64x4096x64x8,16x16384x32x8,64x16384x32x8,256x4096x32x8")
    ap.add_argument("--reps", type=int, default=3)
    ap.add_argument("--no-check", action="store_true")
    ap.add_argument("--no-time", action="store_true")
    ap.add_argument("--ragged", metavar="TRACE", help="request trace (CSV or JSON lines) whose lengths are timed, too")
    ap.add_argument("--serial", action="store_true", help="launches that do not overlap")
    ap.add_argument("--layout", default="bshd", choices=("bshd", "bhsd"))
    ap.add_argument("--blocks", type=lambda x: [int(n) for n in x.split(",")], default=[], help="also time launches of at most so many blocks (N,M,...)")
    ap.add_argument("--residency", action="store_true", help="also time both choices of stages, whatever the work (with the promise about tables)")
    a = ap.parse_args()
    global LAYOUT, SERIAL, RESIDENCY, MAX_BLOCKS
    LAYOUT, SERIAL, RESIDENCY, MAX_BLOCKS = a.layout, a.serial, a.residency, a.blocks
    torch.manual_seed(1)
    random.seed(1)
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
        lengths = trace_lengths(a.ragged) if a.ragged else []
        for batch in (16, 64, 128, 256) if lengths else ():
            watchdog.arm(f"{batch} of a trace")
            paged = [k for k in kernels if k.kind == "paged" and k.page >= 16]
            time_ragged(paged, random.sample(lengths, min(batch, len(lengths))), 32, 8, a.reps)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
