"""Turns the lines of decode.py into a table and a chart: bandwidth of each kernel beside cuDNN and the pure read.

    python3 bench/device/decode_chart.py decode.txt decode.md decode.svg
"""

import re
import sys

CASE = re.compile(r"^(\d+) x (\d+) (\d+)/(\d+): (.*)$")
CELL = re.compile(r"(\S+) ([\d.]+)us (\d+)GB/s(?: ([\d.]+))?")
COLOURS = ["#1f4e79", "#2e75b6", "#9dc3e6", "#548235", "#a9d18e", "#bf9000", "#ffd966", "#7f7f7f", "#c55a11", "#f4b183"]


def read(path):
    cases = []
    for match in filter(None, map(CASE.match, open(path))):
        batch, keys, hq, hk, rest = match.groups()
        cells = {name: (float(us), int(gbps), float(ratio) if ratio else None) for name, us, gbps, ratio in CELL.findall(rest)}
        cases.append((f"{batch} x {int(keys) // 1024}k {hq}/{hk}", cells))
    return cases


def table(cases, names):
    lines = ["| batch x keys heads | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for title, cells in cases:
        row = []
        for name in names:
            if name not in cells:
                row.append("-")
                continue
            us, gbps, ratio = cells[name]
            row.append(f"{us:.1f} us, {gbps} GB/s" + (f", {ratio:.3f}" if ratio else ""))
        lines.append(f"| {title} | " + " | ".join(row) + " |")
    return "\n".join(["Time, bandwidth of K and V, ratio to the pure read of the same bytes.", ""] + lines) + "\n"


def chart(cases, names):
    group = 12 * len(names) + 14
    width, base, left = 70 + group * len(cases), 260, 50
    top = max(value[1] for _, cells in cases for value in cells.values())
    height = base + 46 + 14 * len(names)
    scale = 215 / top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="10">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="16" font-size="13">Decode, GB/s of keys and values, same run</text>']
    for value in range(0, top + 1, 1000):
        y = base - value * scale
        out.append(f'<line x1="{left}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 3:.1f}" text-anchor="end">{value}</text>')
    for i, (title, cells) in enumerate(cases):
        x = left + 8 + group * i
        for j, name in enumerate(names):
            if name in cells:
                tall = cells[name][1] * scale
                out.append(f'<rect x="{x + 12 * j}" y="{base - tall:.1f}" width="11" height="{tall:.1f}" fill="{COLOURS[j % len(COLOURS)]}"/>')
        out.append(f'<text x="{x + 6 * len(names)}" y="{base + 14}" text-anchor="middle">{title}</text>')
    for j, name in enumerate(names):
        y = base + 34 + 14 * j
        out.append(f'<rect x="{left}" y="{y - 9}" width="10" height="10" fill="{COLOURS[j % len(COLOURS)]}"/><text x="{left + 16}" y="{y}">{name}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    source, text, picture = sys.argv[1:4]
    cases = read(source)
    if not cases:
        sys.exit(f"{source}: no timed cases")
    names = list(dict.fromkeys(name for _, cells in cases for name in cells))
    for path, content in ((text, table(cases, names)), (picture, chart(cases, names))):
        with open(path, "w") as f:
            f.write(content)


if __name__ == "__main__":
    main()
