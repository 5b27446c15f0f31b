#!/usr/bin/env python3
"""Draws the charts of README and docs/ from the tables of bench/RESULTS.md: docs/prefill_h200.svg, docs/decode_h200.svg,
docs/compile_times.svg.
Writes the measured points of the roofline of `kiln inspect --html`: templates/measured.json.

One style: lines of at most four series with their names at their ends, the share of the GPU's limit on the y axis (seconds for
compilation), text
of 14 px or more where a page is 840 px wide, colours for light and dark. usage: scripts/make_charts.py [--check]
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEAK = 989  # TFLOP/s, BF16 without sparsity: NVIDIA H200 data sheet
STYLE = """<style>
text{font:15px system-ui,sans-serif;fill:#24292f}.t{font-size:17px;font-weight:600}.g{stroke:#d0d7de}.m{fill:#57606a}
.s0{stroke:#0969da}.s1{stroke:#bc4c00}.s2{stroke:#57606a}.n0{fill:#0969da}.n1{fill:#bc4c00}.n2{fill:#57606a}
polyline{fill:none;stroke-width:3}rect{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#30363d}.m{fill:#9198a1}rect{fill:#0d1117}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#9198a1}.n0{fill:#58a6ff}.n1{fill:#f0883e}.n2{fill:#9198a1}}
</style>"""
LEFT, TOP, RIGHT, BOTTOM = 62, 68, 150, 46


def table(heading, first):
    """Rows of the table that begins with a cell `first` below `heading` in RESULTS.md."""
    text = (ROOT / "bench/RESULTS.md").read_text().split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    begin = next(i for i, row in enumerate(rows) if row[0] == first)
    return [rows[begin]] + rows[begin + 2:]


def panel(out, x0, width, height, title, names, labels, series, low, high, unit="{:.0%}"):
    px = lambda i: x0 + LEFT + i * (width - LEFT - RIGHT) / (len(labels) - 1)
    py = lambda v: height - BOTTOM - (v - low) / (high - low) * (height - TOP - BOTTOM)
    out.append(f'<text class="t" x="{x0 + 8}" y="50">{title}</text>')
    steps = [low + (high - low) * i / 4 for i in range(5)]
    for v in steps:
        out.append(f'<line class="g" x1="{x0 + LEFT}" x2="{x0 + width - RIGHT}" y1="{py(v):.0f}" y2="{py(v):.0f}"/>'
                   f'<text class="m" x="{x0 + LEFT - 8}" y="{py(v) + 5:.0f}" text-anchor="end">{unit.format(v)}</text>')
    for i, label in enumerate(labels):
        out.append(f'<text class="m" x="{px(i):.0f}" y="{height - 22}" text-anchor="middle">{label}</text>')
    ends = sorted(range(len(series)), key=lambda s: -series[s][-1])
    below = 0
    for s in ends:
        points = " ".join(f"{px(i):.1f},{py(v):.1f}" for i, v in enumerate(series[s]))
        below = max(py(series[s][-1]) + 5, below + 18)
        out.append(f'<polyline class="s{s}" points="{points}"/>'
                   f'<text class="n{s}" x="{px(len(labels) - 1) + 8:.0f}" y="{below:.0f}">{names[s]}</text>')


def svg(title, panels, width=840, height=330):
    """At 840 px a text of the file has its own size on the page."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">', STYLE,
           f'<title>{title}</title><rect width="{width}" height="{height}"/><text x="8" y="24">{title}</text>']
    for i, values in enumerate(panels):
        panel(out, i * width / len(panels), width / len(panels), height, *values)
    return "\n".join(out) + "\n</svg>\n"


def prefill():
    rows = table("Prefill beside FlashAttention-3 and cuDNN on one NVIDIA H200", "depth, mask, S")[1:]
    panels = []
    for mask in ("full", "causal"):
        mine = [row for row in rows if re.fullmatch(rf"128 {mask} \d+", row[0])]
        series = [[int(row[column]) / PEAK for row in mine] for column in (1, 2, 3)]
        labels = [f"{int(row[0].split()[2]) // 1024}k" if int(row[0].split()[2]) >= 1024 else "½k" for row in mine]
        panels.append((f"depth 128, {mask}", ["kiln", "FlashAttn-3", "cuDNN"], labels, series, 0.3, 0.7))
    return svg("Prefill on one H200, sustained: share of the BF16 peak (989 TFLOP/s) over S", panels)


def decode():
    rows = table("Decode on one NVIDIA H200, 2026-11-22", "batch x keys")
    column = {name: i for i, name in enumerate(rows[0])}
    wanted = ["1 x 4k", "1 x 16k", "1 x 64k", "16 x 4k", "64 x 4k", "64 x 16k"]
    mine = [next(row for row in rows if row[0] == name) for name in wanted]
    share = lambda row, name: float(re.search(r"\((0\.\d+)\)", row[column[name]]).group(1))
    names = ["contiguous", "of 64", "cuDNN contiguous"]
    series = [[share(row, name) for row in mine] for name in names]
    return svg("Decode on one H200, BF16, 32/8 heads: share of a pure read of the same bytes",
               [("batch x keys", ["kiln", "kiln, pages of 64", "cuDNN"], wanted, series, 0.4, 1.0)])


def compile_times():
    rows = table("Just-in-time path", "keys a tile")
    series = [[float(row[column]) for row in rows[1:]] for column in (1, 2, 3)]
    return svg("Config to cubin, cold, sm_90a prefill: CPU seconds of the process",
               [("by keys a tile", ["depth 64", "depth 128", "128, window"], [row[0] for row in rows[1:]], series, 0, 2, "{:.1f} s")])


def measured():
    """Prefill: 16k tokens, hidden size 2048, four tensors counted once. Decode: bytes of K and V alone, 32/8 heads."""
    heading = "Prefill beside FlashAttention-3 and cuDNN on one NVIDIA H200"
    entries, plain = [], {"dtype": "bf16", "kv_dtype": "bf16", "score_mod": "none", "sink": False}
    for depth in (64, 128, 256):
        for mask in ("full", "causal"):
            rows = []
            for row in table(heading, "depth, mask, S")[1:]:
                match = re.fullmatch(rf"{depth} {mask} (\d+)", row[0])
                if not match:
                    continue
                s, tflops = int(match.group(1)), float(row[1])
                us = 4 * 16384 * s * 2048 * (0.5 if mask == "causal" else 1) / tflops * 1e-6
                rows.append({"problem": f"S {s}", "tflops": tflops, "gbps": round(4 * 16384 * 2048 * 2 / us * 1e-3, 1)})
            entries.append({"config": {"target": "sm_90a", "operation": "prefill", **plain, "depth": depth, "ov_depth": depth,
                                       "mask": "none" if mask == "full" else mask, "operand/kind": "contiguous"},
                            "note": "one H200, sustained, 2026-11-23, commit 00f3977", "rows": rows})
    decode_rows = table("Decode on one NVIDIA H200, 2026-11-22", "batch x keys")
    for name, operand in (("contiguous", {"operand/kind": "contiguous"}), ("of 64", {"operand/kind": "paged", "operand/page_size": 64})):
        rows = []
        for row in decode_rows[1:]:
            match = re.fullmatch(r"(\d+) x (\d+)k", row[0])
            if not match:
                continue
            batch, keys = int(match.group(1)), int(match.group(2)) * 1024
            us = float(row[decode_rows[0].index(name)].split()[0])
            rows.append({"problem": row[0], "tflops": round(batch * keys * 32 * 128 * 4 / us * 1e-6, 1),
                         "gbps": round(batch * keys * 8 * 128 * 2 * 2 / us * 1e-3, 1)})
        for mask in ("none", "causal"):  # the same keys for one query
            entries.append({"config": {"target": "sm_90a", "operation": "decode", **plain, "depth": 128, "ov_depth": 128, "mask": mask,
                                       **operand}, "note": "one H200, 32/8 heads, one query, 2026-11-22", "rows": rows})
    return "[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n"


def main():
    if len(sys.argv) > 1 and sys.argv[1:] != ["--check"]:
        sys.exit(__doc__.strip())
    status = 0
    for name, text in (("docs/prefill_h200.svg", prefill()), ("docs/decode_h200.svg", decode()),
                       ("docs/compile_times.svg", compile_times()), ("templates/measured.json", measured())):
        path = ROOT / name
        if len(sys.argv) == 1:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not what the tables say: run scripts/make_charts.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
