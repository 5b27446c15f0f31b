#!/usr/bin/env python3
"""Draws the cost curves as SVG pictures.

    python3 bench/curves.py compile KILN OUT.svg      compile time against tile width (measures CPU time; needs NVRTC)
    python3 bench/curves.py time RESULTS.json OUT.svg  time against S, from bench/prefill.py's results (section curve)
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile


def round_ticks(top):
    """About five steps of 1, 2 or 5 times a power of ten, from 0 to at least `top`."""
    rough = top / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def plot(path, title, xlabel, ylabel, series, log):
    """series: {name: [(x, y), ...]}; both axes logarithmic when `log`."""
    width, height, left, top, right, bottom = 640, 380, 64, 40, 130, 50
    f = math.log10 if log else float
    xs = [f(x) for points in series.values() for x, _ in points]
    ys = [f(y) for points in series.values() for _, y in points]
    if not log:
        ys += round_ticks(max(ys))
    px = lambda x: left + (f(x) - min(xs)) / (max(xs) - min(xs)) * (width - left - right)
    py = lambda y: height - bottom - (f(y) - min(ys)) / (max(ys) - min(ys)) * (height - top - bottom)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="20" font-size="13">{title}</text>']
    ticks = [10.0**e for e in range(math.floor(min(ys)), math.ceil(max(ys)) + 1)] if log else round_ticks(max(ys))
    for y in ticks:
        if min(ys) <= f(y) <= max(ys):
            out.append(f'<line x1="{left}" x2="{width - right}" y1="{py(y):.1f}" y2="{py(y):.1f}" stroke="#ddd"/>'
                       f'<text x="{left - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in sorted({x for points in series.values() for x, _ in points}):
        out.append(f'<text x="{px(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x if x < 1024 else f"{x // 1024}k"}</text>')
    # Names stand beside the last points, a line apart where those are closer.
    ends, below = {}, math.inf
    for name, points in sorted(series.items(), key=lambda item: max(item[1])[1]):
        ends[name] = below = min(py(max(points)[1]) + 4, below - 12)
    for (name, points), colour in zip(series.items(), ("#1f4e79", "#c55a11", "#548235", "#7f7f7f")):
        points = sorted(points)
        line = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        out.append(f'<text x="{px(points[-1][0]) + 8:.1f}" y="{ends[name]:.1f}" fill="{colour}">{name}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{xlabel}</text>'
               f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" text-anchor="middle">{ylabel}</text></svg>')
    open(path, "w").write("\n".join(out) + "\n")


def compile_curve(kiln, out):
    series = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in {"depth 64": dict(depth=64, BM=128), "depth 128": dict(depth=128), "128 window": dict(depth=128, mask={"sliding_window": 1024})}.items():
            for bn in (16, 32, 64, 96, 128, 160):
                config = dict(target="sm_90a", operation="prefill", dtype="bf16", BN=bn, **keys)
                path = os.path.join(folder, "c.json")
                json.dump(config, open(path, "w"))
                times = []
                for i in range(2):
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    subprocess.run([kiln, "compile", path, "--emit", "cubin", "--out", path + ".cubin"], check=True, capture_output=True,
                                   env=dict(os.environ, KILN_CACHE_DIR=os.path.join(folder, f"cache{i}")))
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    times.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
                series.setdefault(name, []).append((bn, min(times)))
                print(name, bn, f"{min(times):.0f} ms", flush=True)
    plot(out, "Config to cubin, cold, sm_90a prefill: CPU time of the process", "keys a tile (BN)", "ms", series, False)


def time_curve(results, out):
    document = json.load(open(results))
    points, peers = [], []
    for r in document["results"]:
        if r["section"] == "curve":
            s = int(r["case"][1:])
            batch = max(1, 16384 // s)
            points.append((s, r["us"] / batch))
            if r.get("cudnn_us"):
                peers.append((s, r["cudnn_us"] / batch))
    series = {"kiln": points}
    if peers:
        series["cuDNN"] = peers
    plot(out, "Causal prefill, BF16, depth 128, 16 heads: time of a sequence", "sequence length", "us", series, True)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("compile", "time"):
        print(__doc__.strip())
        sys.exit(0 if "--help" in sys.argv else 2)
    (compile_curve if sys.argv[1] == "compile" else time_curve)(sys.argv[2], sys.argv[3])
