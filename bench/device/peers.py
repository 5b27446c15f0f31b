"""Times emitted kernels beside torch's cuDNN and FlexAttention in one process, and checks them against float64.

    python3 bench/device/peers.py FOLDER --suite prefill [--only NAME,...] [--reps 7]

FOLDER holds NAME.json (manifest) and NAME.cubin. Kernels are launched through the driver by their manifests; every
case interleaves all contenders, repeats, and reports medians and the ratio to cuDNN. Needs a GPU, torch and nothing
of kiln but the files.
"""

import argparse
import ctypes
import glob
import json
import math
import os
import statistics
import sys
import threading
import time

import torch

cuda = ctypes.CDLL("libcuda.so.1")


def check(status, what):
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")


class Kernel:
    """One emitted kernel, loaded."""

    def __init__(self, manifest_path):
        self.m = json.load(open(manifest_path))
        self.name = self.m["name"]
        data = open(manifest_path[:-5] + ".cubin", "rb").read()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(module), data), f"{self.name}: load")
        check(cuda.cuModuleGetFunction(ctypes.byref(self.function), module, self.m["entry"].encode()), "get function")
        check(cuda.cuFuncSetAttribute(self.function, 8, self.m["smem_bytes"]), "shared memory")
        self.counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.cluster = self.m["cluster"]

    def tensor_map(self, param, t):
        spec = param["map"]
        size = t.element_size()
        if t.dim() == 3:
            t = t.unsqueeze(0)  # a ragged operand is one batch entry
        names = ["batch", "seq", "head", "depth"]
        extent, stride = dict(zip(names, t.shape)), dict(zip(names, t.stride()))
        address = t.data_ptr()
        dims = [extent[d["axis"]] for d in spec["dims"]]
        strides = [stride[d["axis"]] * size for d in spec["dims"]]
        boxes = [d["box"] for d in spec["dims"]]
        rank = len(dims)
        buf = ctypes.create_string_buffer(128 + 64)
        aligned = (ctypes.addressof(buf) + 63) & ~63
        dtype = {torch.bfloat16: 9, torch.float16: 6, torch.uint8: 0}[t.dtype]
        swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[spec["swizzle_bytes"]]
        promotion = {0: 0, 64: 1, 128: 2, 256: 3}[spec["l2_promotion_bytes"]]
        check(
            cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(aligned), dtype, rank, ctypes.c_void_p(address), (ctypes.c_uint64 * rank)(*dims),
                (ctypes.c_uint64 * max(rank - 1, 1))(*strides[1:]), (ctypes.c_uint32 * rank)(*boxes),
                (ctypes.c_uint32 * rank)(*([1] * rank)), 0, swizzle, promotion, 0),
            f"{self.name}: tensor map {param['role']} dims {dims} strides {strides} box {boxes}")
        return (ctypes.c_char * 128).from_buffer_copy(ctypes.string_at(aligned, 128))

    def prepare(self, q, k, v, o, lse=None, cu_q=None, cu_k=None, max_q=None, max_k=None, sink=None, mask_bits=None):
        """Packs the arguments once; returns a function that launches on torch's current stream."""
        m = self.m
        ragged = m["operand"] == "ragged"
        batch = cu_q.numel() - 1 if ragged else q.shape[0]
        sq = max_q if ragged else q.shape[1]
        sk = max_k if ragged else k.shape[1]
        hq, hk = q.shape[-2], k.shape[-2]
        rows = m["grid"]["block_rows"]
        num_m = (sq + rows - 1) // rows
        num_tiles = num_m * hq * batch
        per_head = sk * (q.shape[-1] + v.shape[-1]) * k.element_size() / (hq // hk)
        flat = hq * batch
        section = max([d for d in range(1, flat + 1) if flat % d == 0 and d * per_head <= 32 << 20] or [1])
        tensors = dict(q=q, k=k, v=v, o=o)
        ints = dict(batch=batch, heads_q=hq, heads_kv=hk, seqlen_q=sq, seqlen_k=sk, num_m_blocks=num_m, num_tiles=num_tiles,
                    section_heads=section, total_q=q.shape[0])
        if mask_bits is not None:  # int32 words [batch or 1, heads_q or 1, seqlen_q, words]
            stride = lambda axis: mask_bits.stride(axis) if mask_bits.shape[axis] > 1 else 0
            ints.update(mask_stride_batch=stride(0), mask_stride_head=stride(1), mask_words=stride(2))
        pointers = dict(lse=lse, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, tile_counter=self.counter, sink=sink, mask_bits=mask_bits, q=q, k=k, v=v, o=o)
        strides = {f"{n}_stride_{a}": t.stride(-3 + i) for n, t in tensors.items() for i, a in enumerate(("seq", "head"))}
        floats = dict(scale=m["scale"], scale_log2=m["scale"] * math.log2(math.e))
        keep = []
        for p in m["params"]:
            if p["kind"] == "tensor_map":
                keep.append(self.tensor_map(p, tensors[p["role"]]))
            elif p["kind"] == "pointer":
                keep.append(ctypes.c_uint64(pointers[p["role"]].data_ptr()))
            elif p["kind"] == "i32":
                keep.append(ctypes.c_int32(ints[p["role"]]))
            elif p["kind"] == "i64":
                keep.append(ctypes.c_int64(strides[p["role"]]))
            elif p["kind"] == "f32":
                keep.append(ctypes.c_float(floats[p["role"]]))
            else:
                raise RuntimeError(p["kind"])
        args = (ctypes.c_void_p * len(keep))(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in keep])
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        grid = (num_m, hq, batch) if m["grid"]["kind"] == "tiles" else (min(num_tiles * self.cluster[0], sms * m["grid"]["ctas_per_sm"] // self.cluster[0] * self.cluster[0]), 1, 1)

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(self.function, *grid, m["num_threads"], 1, 1, m["smem_bytes"], stream, args, None),
                  f"{self.name}: launch")

        launch.keep = keep
        return launch


class Watchdog:
    """Ends the process when a kernel hangs: a deadlock on the device cannot be cancelled from inside."""

    def __init__(self, seconds):
        self.seconds, self.what, self.deadline = seconds, "", None
        threading.Thread(target=self.run, daemon=True).start()

    def arm(self, what):
        self.what, self.deadline = what, time.monotonic() + self.seconds

    def run(self):
        while True:
            time.sleep(0.5)
            if self.deadline and time.monotonic() > self.deadline:
                print(f"HUNG: {self.what}", flush=True)
                os._exit(3)


def reference(q, k, v, causal, scale):
    """float64 attention of one (seq, depth) head."""
    s = (q.double() @ k.double().T) * scale
    sq, sk = s.shape
    if causal:
        s = s.masked_fill(torch.ones(sq, sk, dtype=torch.bool, device=q.device).tril(sk - sq).logical_not(), -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse[:, None]).nan_to_num(0.0)
    return p @ v.double(), lse


def rel(a, b):
    return ((a.double() - b).norm() / b.norm().clamp_min(1e-30)).item()


def median_ms(launch, target_ms=40):
    for _ in range(2):
        launch()
    a, b = torch.cuda.Event(True), torch.cuda.Event(True)
    a.record(); launch(); b.record(); b.synchronize()
    n = max(3, min(60, int(target_ms / max(a.elapsed_time(b), 1e-3))))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    events[0].record()
    for i in range(n):
        launch()
        events[i + 1].record()
    events[-1].synchronize()
    return statistics.median(events[i].elapsed_time(events[i + 1]) for i in range(n))


def cudnn_call(q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    qt, kt, vt = (t.transpose(1, 2) for t in (q, k, v))

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=qt.shape[1] != kt.shape[1])

    return call


def check_contiguous(kernel, B, Sq, Sk, Hq, Hk):
    m = kernel.m
    dt = torch.bfloat16 if m["dtype"] == "bf16" else torch.float16
    causal = kernel.causal
    q = torch.randn(B, Sq, Hq, m["depth"], device="cuda", dtype=dt)
    k = torch.randn(B, Sk, Hk, m["depth"], device="cuda", dtype=dt)
    v = torch.randn(B, Sk, Hk, m["ov_depth"], device="cuda", dtype=dt)
    o = torch.full((B, Sq, Hq, m["ov_depth"]), math.nan, device="cuda", dtype=dt)
    lse = torch.full((B, Hq, Sq), math.nan, device="cuda")
    kernel.prepare(q, k, v, o, lse)()
    torch.cuda.synchronize()
    worst = 0.0
    for b, h in {(0, 0), (B - 1, Hq - 1), (B // 2, Hq // 2)}:
        ref, ref_lse = reference(q[b, :, h], k[b, :, h // (Hq // Hk)], v[b, :, h // (Hq // Hk)], causal, m["scale"])
        if ref.norm() == 0:
            worst = max(worst, o[b, :, h].double().abs().max().item())
        else:
            worst = max(worst, rel(o[b, :, h], ref))
        if m["writes_lse"]:
            fin = torch.isfinite(ref_lse)
            worst = max(worst, (lse[b, h][fin].double() - ref_lse[fin]).abs().max().item() / 10 if fin.any() else 0.0)
            if not torch.equal(torch.isfinite(lse[b, h]), fin):
                worst = math.inf
    if not bool(torch.isfinite(o).all()):
        worst = math.inf
    return worst


def check_ragged(kernel, lq, lk, Hq, Hk):
    m, causal = kernel.m, kernel.causal
    dt = torch.bfloat16 if m["dtype"] == "bf16" else torch.float16
    cu = lambda l: torch.tensor([0] + list(l), dtype=torch.int32).cumsum(0).to(torch.int32).cuda()
    cq, ck = cu(lq), cu(lk)
    q = torch.randn(max(sum(lq), 1), Hq, m["depth"], device="cuda", dtype=dt)
    k = torch.randn(max(sum(lk), 1), Hk, m["depth"], device="cuda", dtype=dt)
    v = torch.randn(max(sum(lk), 1), Hk, m["ov_depth"], device="cuda", dtype=dt)
    o = torch.full((q.shape[0], Hq, m["ov_depth"]), math.nan, device="cuda", dtype=dt)
    lse = torch.full((Hq, q.shape[0]), math.nan, device="cuda")
    kernel.prepare(q, k, v, o, lse, cq, ck, max(lq), max(lk))()
    torch.cuda.synchronize()
    worst = 0.0
    for b in range(len(lq)):
        a0, a1, b0, b1 = cq[b].item(), cq[b + 1].item(), ck[b].item(), ck[b + 1].item()
        if a0 == a1:
            continue
        h = b % Hq
        if b0 == b1:
            err = o[a0:a1, h].double().abs().max().item()
        else:
            ref, _ = reference(q[a0:a1, h], k[b0:b1, h // (Hq // Hk)], v[b0:b1, h // (Hq // Hk)], causal, m["scale"])
            err = rel(o[a0:a1, h], ref) if ref.norm() > 0 else o[a0:a1, h].double().abs().max().item()
        worst = max(worst, err) if err == err else math.inf
    if not bool(torch.isfinite(o).all()):
        worst = math.inf
    return worst


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--only", default="")
    ap.add_argument("--seqs", default="2048,4096,8192,16384")
    ap.add_argument("--reps", type=int, default=5)
    ap.add_argument("--no-check", action="store_true")
    ap.add_argument("--no-time", action="store_true")
    ap.add_argument("--gqa", type=int, default=1)
    a = ap.parse_args()
    torch.manual_seed(1)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    kernels = []
    for path in sorted(glob.glob(os.path.join(a.folder, "*.json"))):
        if a.only and os.path.basename(path)[:-5] not in a.only.split(","):
            continue
        k = Kernel(path)
        config = k.m.get("config", k.m.get("config_json", {}))
        config = json.loads(config) if isinstance(config, str) else config
        k.causal = config.get("mask") == "causal" if config else k.name.startswith("d") and "c" in k.name.split("_")[0]
        kernels.append(k)
    failed = 0
    watchdog = Watchdog(20)
    if not a.no_check:
        for k in kernels:
            watchdog.arm(k.name)
            worst = 0.0
            if k.m["operand"] == "ragged":
                for lq in ([1, 127, 128, 129, 0, 391], [5, 700, 3]):
                    for lk in (lq, [x + 77 for x in lq], [max(x - 100, 0) for x in lq]):
                        e = check_ragged(k, lq, lk, 4, 2)
                        if e > 4e-3:
                            print(f"   {k.name} lengths q {lq} k {lk}: {e:.2e}")
                        worst = max(worst, e)
            else:
                for B, Sq, Sk, Hq, Hk in ((1, 128, 128, 1, 1), (2, 256, 256, 2, 1), (1, 1, 1, 2, 2), (1, 127, 129, 2, 1), (3, 777, 777, 4, 2),
                                          (1, 500, 1000, 4, 4), (1, 1000, 500, 2, 1), (2, 2048, 2048, 16, 16), (2, 8192, 8192, 16, 4)):
                    e = check_contiguous(k, B, Sq, Sk, Hq, Hk)
                    if e > 4e-3:
                        print(f"   {k.name} B{B} Sq{Sq} Sk{Sk} Hq{Hq} Hk{Hk}: {e:.2e}")
                    worst = max(worst, e)
            ok = worst <= 4e-3
            failed += not ok
            print(f"check {k.name:40s} worst {worst:.2e} {'ok' if ok else 'FAILED'}", flush=True)
    if a.no_time:
        sys.exit(failed > 0)
    groups = {}
    for k in kernels:
        if k.m["operand"] == "contiguous":
            groups.setdefault((k.m["depth"], k.m["ov_depth"], k.causal, k.m["dtype"]), []).append(k)
    print(f"# {torch.cuda.get_device_name()} torch {torch.__version__} cudnn {torch.backends.cudnn.version()}")
    for (D, DV, causal, dtype), ks in groups.items():
        for S in map(int, a.seqs.split(",")):
            B, H = max(1, 16384 // S), 2048 // D
            dt = torch.bfloat16 if dtype == "bf16" else torch.float16
            q, o = torch.randn(B, S, H, D, device="cuda", dtype=dt), torch.empty(B, S, H, DV, device="cuda", dtype=dt)
            k_, v = (torch.randn(B, S, max(H // a.gqa, 1), d, device="cuda", dtype=dt) for d in (D, DV))
            contenders = {"cudnn": cudnn_call(q, k_, v, causal)}
            for k in ks:
                contenders[k.name] = k.prepare(q, k_, v, o, torch.empty(B, H, S, device="cuda"))
            times = {n: [] for n in contenders}
            for _ in range(a.reps):
                for n, f in contenders.items():
                    watchdog.arm(f"{n} S{S}")
                    times[n].append(median_ms(f))
            flop = 2.0 * B * H * S * S * (D + DV) / (2 if causal else 1)
            base = statistics.median(times["cudnn"])
            line = [f"{n} {flop / t / 1e9:.0f} ({base / t:.3f})" for n, t in ((n, statistics.median(ts)) for n, ts in times.items())]
            print(f"d{D}/{DV} S{S} {'causal' if causal else 'full'}: " + "  ".join(line), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
