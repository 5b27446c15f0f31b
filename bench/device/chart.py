"""Draws peers.txt (the output of peers.py) or results.json (of bench/prefill.py) as an SVG of bars: TFLOP/s of kiln beside
cuDNN, one group per case.

    python3 bench/device/chart.py peers.txt docs/prefill_h200.svg
"""

import json
import re
import sys

LINE = re.compile(r"^d(\d+)/\d+ S(\d+) (causal|full): cudnn (\d+) \(1.000\)\s+\S+ (\d+) \(([\d.]+)\)")


def read_results(source):
    cases = []
    for r in json.load(open(source))["results"]:
        if r["section"] == "table" and "ratio" in r:
            depth, mask, seq = r["case"].split()
            cudnn = round(r["tflops"] / r["ratio"])
            cases.append((depth[1:], seq[1:], "causal" if mask == "causal" else "full", cudnn, round(r["tflops"]), r["ratio"]))
    return cases


def main():
    source, target = sys.argv[1:3]
    cases = read_results(source) if source.endswith(".json") else [m.groups() for m in map(LINE.match, open(source)) if m]
    cases.sort(key=lambda c: (int(c[0]), c[2] == "causal", int(c[1])))
    width, height, left, base = 60 + 46 * len(cases), 330, 46, 250
    top = max(max(int(c[3]), int(c[4])) for c in cases)
    scale = 210 / top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="10">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="16" font-size="13">Prefill on one H200, BF16, TFLOP/s: kiln (dark) and cuDNN (light), same run; figure: ratio</text>']
    for value in range(0, top + 1, 200):
        y = base - value * scale
        out.append(f'<line x1="{left}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/><text x="{left - 6}" y="{y + 3:.1f}" text-anchor="end">{value}</text>')
    for i, (depth, seq, mask, cudnn, kiln, ratio) in enumerate(cases):
        x = left + 8 + 46 * i
        for j, (value, colour) in enumerate(((int(kiln), "#1f4e79"), (int(cudnn), "#b8cfe4"))):
            out.append(f'<rect x="{x + 17 * j}" y="{base - value * scale:.1f}" width="16" height="{value * scale:.1f}" fill="{colour}"/>')
        out.append(f'<text x="{x + 16}" y="{base - max(int(kiln), int(cudnn)) * scale - 4:.1f}" text-anchor="middle">{float(ratio):.2f}</text>')
        out.append(f'<text x="{x + 16}" y="{base + 14}" text-anchor="middle">{int(seq) // 1024}k</text>')
        if i % 4 == 0:
            out.append(f'<text x="{x}" y="{base + 32}" font-weight="bold">depth {depth} {mask}</text>')
    out.append(f'<text x="{left}" y="{height - 12}">sequence length; 16k tokens in all, hidden size 2048; causal counted at half the operations</text></svg>')
    with open(target, "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
