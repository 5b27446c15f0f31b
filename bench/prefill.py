#!/usr/bin/env python3
"""Prefill on the device: kiln beside its peers, feature by feature, and the cost curve.

    python3 bench/prefill.py KILN OUT [--sections table,depths,shapes,features,curve] [--reps 5] [--no-peers] [--flex]

KILN is the built command; OUT receives results.json and table.txt. With torch every case is timed in one process,
interleaved with torch's cuDNN attention on the same tensors; without torch (or with --no-peers) kiln times itself
(`kiln bench`) and the peers' columns stay empty. --flex adds torch's FlexAttention, compiled, to the features (its
compilation takes seconds a case). TFLOP/s count what the mask leaves visible, full blocks for none.

  table     issue 4's cases: depth 64, 128, 256, full and causal, S 2048 .. 16384, 16k tokens, hidden size 2048
  depths    96, 192 and 192 with V of 128
  shapes    short and odd lengths, GQA 8:1, MQA
  features  masks and score modifiers beside the kernel without them: time, and time per visible score
  curve     S 512 .. 131072 at depth 128, causal
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "device"))

LENGTHS = (2048, 4096, 8192, 16384)


def config(name, depth, mask="none", **keys):
    return dict(name=name, target="sm_90a", operation="prefill", dtype="bf16", depth=depth, mask=mask, **keys)


def visible(mask, sq, sk):
    """Visible (query, key) pairs of one head, by the definition of the mask."""
    if mask in ("none", "custom"):
        return sq * sk
    total = 0
    for i in range(sq):
        position = i + sk - sq
        first = 0
        if isinstance(mask, dict):
            size = next(iter(mask.values()))
            first = max(0, position - size + 1) if "sliding_window" in mask else position // size * size
        total += max(0, min(sk, position + 1) - first)
    return total


def cases(sections):
    """(section, label, config, B, S, heads_q, heads_kv, base): `base` names the label a feature is compared with."""
    full_size = lambda d: 2048 // d if 2048 % d == 0 else 16
    out = []
    if "table" in sections:
        for depth in (64, 128, 256):
            for mask in ("none", "causal"):
                for s in LENGTHS:
                    out.append(("table", f"d{depth} {mask} S{s}", config(f"d{depth}_{mask}", depth, mask), 16384 // s, s,
                                full_size(depth), full_size(depth), None))
    if "depths" in sections:
        for depth, ov in ((96, 96), (192, 192), (192, 128)):
            for mask in ("none", "causal"):
                for s in (2048, 8192):
                    c = config(f"d{depth}_{ov}_{mask}", depth, mask, ov_depth=ov)
                    out.append(("depths", f"d{depth}/{ov} {mask} S{s}", c, 16384 // s, s, 16, 16, None))
    if "shapes" in sections:
        for s in (512, 777, 1000):
            out.append(("shapes", f"d128 causal S{s}", config("d128_causal", 128, "causal"), 16384 // s, s, 16, 16, None))
        out.append(("shapes", "d128 causal S8192 GQA 8:1", config("d128_causal", 128, "causal"), 2, 8192, 16, 2, None))
        out.append(("shapes", "d128 causal S8192 MQA", config("d128_causal", 128, "causal"), 2, 8192, 16, 1, None))
    if "features" in sections:
        features = {
            "causal": dict(mask="causal"), "window 256": dict(mask={"sliding_window": 256}),
            "window 1024": dict(mask={"sliding_window": 1024}), "window 4096": dict(mask={"sliding_window": 4096}),
            "chunked 2048": dict(mask={"chunked": 2048}), "softcap": dict(mask="causal", score_mod={"softcap": 50.0}),
            "alibi": dict(mask="causal", score_mod="alibi"), "sink": dict(mask="causal", sink=True),
            "expr": dict(mask="causal", score_mod={"expr": "score + 0.01 * (k - q)"}),
            "none": dict(mask="none"), "custom": dict(mask="custom"), "full softcap": dict(mask="none", score_mod={"softcap": 50.0}),
        }
        for depth in (128, 64):
            for label, keys in features.items():
                if depth == 64 and label not in ("causal", "window 1024", "softcap", "none", "full softcap"):
                    continue
                base = "none" if label in ("none", "custom", "full softcap") else "causal"
                c = config(f"d{depth}_" + label.replace(" ", "_"), depth, **keys)
                out.append(("features", f"d{depth} {label}", c, 2, 8192, full_size(depth), full_size(depth), f"d{depth} {base}"))
    if "curve" in sections:
        for s in (512 << i for i in range(9)):
            out.append(("curve", f"S{s}", config("d128_causal", 128, "causal"), max(1, 16384 // s), s, 16, 16, None))
    return out


class WithoutTorch:
    """kiln times itself; one process a case."""

    def __init__(self, kiln, folder):
        self.kiln, self.folder = kiln, folder
        self.device = json.loads(subprocess.run([kiln, "doctor", "--json"], check=True, capture_output=True, text=True).stdout)["devices"][0]["name"]

    def times(self, group, reps):
        out = {}
        for label, c, b, s, hq, hk in group:
            path = os.path.join(self.folder, c["name"] + ".json")
            json.dump(c, open(path, "w"))
            done = subprocess.run([self.kiln, "bench", path, "--json", "--batch", str(b), "--seqlen-q", str(s), "--seqlen-k", str(s),
                                   "--heads-q", str(hq), "--heads-kv", str(hk), "--iterations", str(5 * reps)],
                                  check=True, capture_output=True, text=True)
            out[label] = (json.loads(done.stdout)[0]["us"], None, None)
        return out


def flex_call(torch, c, q, k, v):
    """The same attention by FlexAttention, or None where it has no counterpart."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask, mod, heads, s = c["mask"], c.get("score_mod"), q.shape[2], q.shape[1]
    if mask == "custom" or "sink" in c:
        return None
    sees = {"none": None, "causal": lambda b, h, i, j: i >= j}.get(mask) if isinstance(mask, str) else None
    if isinstance(mask, dict):
        kind, n = next(iter(mask.items()))
        sees = (lambda b, h, i, j: (i >= j) & (i - j < n)) if kind == "sliding_window" else (lambda b, h, i, j: (i >= j) & (i // n == j // n))
    score = None
    if mod == "alibi":
        slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], device="cuda")
        score = lambda x, b, h, i, j: x - slopes[h] * (i - j)
    elif isinstance(mod, dict) and "softcap" in mod:
        cap = mod["softcap"]
        score = lambda x, b, h, i, j: cap * torch.tanh(x / cap)
    elif isinstance(mod, dict):
        score = lambda x, b, h, i, j: x + 0.01 * (j - i)
    blocks = create_block_mask(sees, None, None, s, s, device="cuda") if sees else None
    torch._dynamo.config.recompile_limit = 1000  # every case is one more specialisation
    compiled = torch.compile(flex_attention, dynamic=False)
    qt, kt, vt = (t.transpose(1, 2) for t in (q, k, v))
    return lambda: compiled(qt, kt, vt, score_mod=score, block_mask=blocks, enable_gqa=q.shape[2] != k.shape[2])


class WithTorch:
    """Kernels launched by their manifests in this process, interleaved with cuDNN on the same tensors."""

    def __init__(self, kiln, folder, flex=False):
        self.flex = flex
        import peers
        import torch
        self.kiln, self.folder, self.peers, self.torch = kiln, folder, peers, torch
        torch.manual_seed(1)
        torch.zeros(1, device="cuda")
        self.device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
        self.loaded, self.watchdog = {}, peers.Watchdog(30)

    def kernel(self, c):
        name = c["name"]
        if name not in self.loaded:
            path = os.path.join(self.folder, name)
            json.dump(c, open(path + ".config", "w"))
            subprocess.run([self.kiln, "generate", path + ".config", "--out", self.folder], check=True, capture_output=True)
            subprocess.run([self.kiln, "compile", path + ".config", "--emit", "cubin", "--out", path + ".cubin"], check=True, capture_output=True)
            self.loaded[name] = self.peers.Kernel(path + ".json")
        return self.loaded[name]

    def times(self, group, reps):
        """Medians in microseconds: {label: (kiln, cudnn or None, flex or None)}; all of a group take turns."""
        torch, launches = self.torch, {}
        for label, c, b, s, hq, hk in group:
            kernel = self.kernel(c)
            ov = kernel.m["ov_depth"]
            make = lambda heads, d: torch.randn(b, s, heads, d, device="cuda", dtype=torch.bfloat16)
            q, k, v, o = make(hq, c["depth"]), make(hk, c["depth"]), make(hk, ov), make(hq, ov)
            bits = torch.randint(-2**31, 2**31 - 1, (1, 1, s, (s + 31) // 32), device="cuda", dtype=torch.int32) if c["mask"] == "custom" else None
            lse = torch.empty(b, hq, s, device="cuda")
            launches[label, "kiln"] = kernel.prepare(q, k, v, o, lse, sink=torch.randn(hq, device="cuda"), mask_bits=bits)
            if c["mask"] in ("none", "causal") and "score_mod" not in c and "sink" not in c:
                call = self.peers.cudnn_call(q, k, v, c["mask"] == "causal")
                try:
                    call()
                    launches[label, "cudnn"] = call
                except RuntimeError as error:
                    print(f"# cuDNN does not take {label}: {str(error).splitlines()[0][:100]}", flush=True)
            if self.flex:
                try:
                    call = flex_call(torch, c, q, k, v)
                    if call:
                        self.watchdog.deadline = None  # compiling takes its time
                        call()
                        launches[label, "flex"] = call
                except Exception as error:
                    print(f"# FlexAttention does not take {label}: {str(error).splitlines()[0][:100]}", flush=True)
        samples = {key: [] for key in launches}
        for _ in range(reps):
            for key, launch in launches.items():
                self.watchdog.arm(str(key))
                samples[key].append(self.peers.median_ms(launch, 20) * 1e3)
        middle = {key: statistics.median(values) for key, values in samples.items()}
        return {label: (middle[label, "kiln"], middle.get((label, "cudnn")), middle.get((label, "flex"))) for label, *_ in group}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("kiln")
    ap.add_argument("out")
    ap.add_argument("--sections", default="table,depths,shapes,features,curve")
    ap.add_argument("--reps", type=int, default=5)
    ap.add_argument("--no-peers", action="store_true")
    ap.add_argument("--flex", action="store_true")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    folder = tempfile.mkdtemp()
    timer = None
    if not a.no_peers:
        try:
            timer = WithTorch(a.kiln, folder, a.flex)
        except ImportError:
            print("# no torch: kiln alone", file=sys.stderr)
    timer = timer or WithoutTorch(a.kiln, folder)
    all_cases = cases(a.sections.split(","))
    results, lines = [], [f"# {timer.device}"]
    # A feature takes turns with the kernels it is compared with; every other case stands alone.
    groups = {}
    for case in all_cases:
        key = (case[0], case[2]["depth"], case[4]) if case[0] == "features" else case[:2]
        groups.setdefault(key, []).append(case)
    for group in groups.values():
        times = timer.times([(label, c, b, s, hq, hk) for _, label, c, b, s, hq, hk, _ in group], a.reps)
        for section, label, c, b, s, hq, hk, base in group:
            us, cudnn, flex = times[label]
            pairs = visible(c["mask"], s, s) * b * hq
            flop = 2.0 * pairs * (c["depth"] + c.get("ov_depth", c["depth"]))
            entry = dict(section=section, case=label, us=us, tflops=flop / us * 1e-6)
            line = f"{section:9s} {label:28s} {us:10.1f} us {entry['tflops']:6.0f} TFLOP/s"
            if cudnn:
                entry.update(cudnn_us=cudnn, ratio=cudnn / us)
                line += f"   cuDNN {flop / cudnn * 1e-6:6.0f} ({cudnn / us:.3f})"
            if flex:
                entry.update(flex_us=flex, flex_ratio=flex / us)
                line += f"   flex {flop / flex * 1e-6:6.0f} ({flex / us:.3f})"
            if base and base != label and base in times:
                other = next(x for x in group if x[1] == base)
                work = pairs / (visible(other[2]["mask"], s, s) * b * hq)
                entry.update(base=base, time_ratio=us / times[base][0], work_ratio=work)
                line += f"   time {entry['time_ratio']:.3f} of {base}, work {work:.3f}"
            results.append(entry)
            lines.append(line)
            print(line, flush=True)
    json.dump(dict(device=timer.device, results=results), open(os.path.join(a.out, "results.json"), "w"), indent=1)
    open(os.path.join(a.out, "table.txt"), "w").write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
