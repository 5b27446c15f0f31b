#!/usr/bin/env python3
"""Draws the pictures of docs/pictures.md from kiln's own data: fragments and swizzles from `kiln inspect --html`, stream-K
from `decode_plan`. (The timelines there are those of `kiln inspect --timeline`.) Those of docs/context-parallel.md are
drawn by parallel_pictures.py.

usage: scripts/make_pictures.py [KILN]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import parallel_pictures

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "docs/pictures"
STYLE = """<style>text{font:15px system-ui,sans-serif;fill:#24292f}.m{fill:#57606a}.c{font:14px ui-monospace,monospace;fill:#1f2328}
.l{stroke:#8c959f;fill:none}.b{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}.b{fill:#0d1117}.c{fill:#1f2328}}</style>"""


def hue(i, n):
    return f"hsl({round(360 * i / n)} 60% 78%)"


def svg(name, width, height, body):
    OUT.mkdir(exist_ok=True)
    (OUT / name).write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">{STYLE}'
                            f'<rect class="b" width="{width}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n")


def report(kiln, config):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        subprocess.run([kiln, "inspect", config, "--html", page], check=True, capture_output=True)
        text = re.search(r'id="data">(.*?)</script>', page.read_text(), flags=re.S).group(1)
    return json.loads(text)["report"]


def fragment(name, f, rows, title):
    w, h, left, top = max(38, 800 // f["cols"]), 24, 20, 62
    body = [f'<text x="{left}" y="24">{title}</text><text class="m" x="{left}" y="46">lane.element; one colour a lane of 32</text>']
    for lane in range(f["lanes"]):
        for element in range(f["elements"]):
            i = 2 * (lane * f["elements"] + element)
            row, col = f["at"][i], f["at"][i + 1]
            if row < rows:
                body.append(f'<rect x="{left + col * w}" y="{top + row * h}" width="{w - 1}" height="{h - 1}" fill="{hue(lane % 32, 32)}"/>'
                            f'<text class="c" x="{left + col * w + w / 2}" y="{top + row * h + 17}" text-anchor="middle">{lane}.{element}</text>')
    svg(name, 2 * left + f["cols"] * w, top + min(rows, f["rows"]) * h + 16, body)


def swizzle(name, swizzles, title):
    w, h, left, top = 50, 26, 20, 76
    body = [f'<text x="{left}" y="24">{title}</text>']
    for n, s in enumerate(swizzles):
        x0 = left + n * (8 * w + 30)
        body.append(f'<text class="m" x="{x0}" y="60">{s["operand"]}: rows of {s["row_bytes"]} bytes' + (", no swizzle" if not s["bits"] else "") + "</text>")
        for i in range(64):
            row, chunk = s["chunks"][2 * i], s["chunks"][2 * i + 1]
            x, y = x0 + i % 8 * w, top + i // 8 * h
            if row >= 0:
                body.append(f'<rect x="{x}" y="{y}" width="{w - 1}" height="{h - 1}" fill="{hue(chunk, 8)}"/>'
                            f'<text class="c" x="{x + w / 2}" y="{y + 18}" text-anchor="middle">{row}:{chunk}</text>')
    svg(name, 2 * left + len(swizzles) * (8 * w + 30), top + 8 * h + 16, body)


def stream_k(name, python):
    """Five sequences of different lengths over six blocks, as plan_decode cuts them."""
    lengths = [1000, 64, 300, 700, 129]
    code = ("import json, kiln\nfrom kiln.serving import decode_plan\n"
            "k = kiln.Runtime('emulated').load('decode_bf16_d128_paged64_sm80')\n"
            f"print(json.dumps(decode_plan(k, [1] * 5, {lengths}, heads_q=4, heads_kv=1, num_sms=6)))")
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(ROOT / "build/python")))
    if result.returncode:
        print("stream-K not drawn, since the package was not built: " + result.stderr.strip().splitlines()[-1])
        return
    plan = json.loads(result.stdout)
    w, left, top = 21, 110, 64
    body = [f'<text x="20" y="24">Stream-K: {plan["tiles"]} tiles of 64 keys, five sequences, six blocks of {plan["tiles"] // 6} tiles</text>',
            '<text class="m" x="20" y="46">one row a block; one colour a sequence; a number is the tile of its sequence</text>']
    used = [0] * plan["teams"]
    for run in plan["runs"]:
        for tile in range(run["tile_begin"], run["tile_end"]):
            x, y = left + used[run["team"]] * 60, top + run["team"] * 34
            body.append(f'<rect x="{x}" y="{y}" width="58" height="30" fill="{hue(run["batch"], 5)}"/>'
                        f'<text class="c" x="{x + 29}" y="{y + 20}" text-anchor="middle">{"ABCDE"[run["batch"]]}{tile}</text>')
            used[run["team"]] += 1
    body += [f'<text x="20" y="{top + team * 34 + 20}">block {team}</text>' for team in range(plan["teams"])]
    cut = [f'{"ABCDE"[b]} {max(r["parts"] for r in plan["runs"] if r["batch"] == b)}' for b in range(5)]
    body.append(f'<text class="m" x="20" y="{top + 6 * 34 + 22}">parts of each sequence: {", ".join(cut)}; the last block to finish a part adds them up</text>')
    svg(name, left + 6 * 60 + 320, top + 6 * 34 + 40, body)


def emulated_device(name):
    boxes = [(20, 50, 180, "config", "JSON"), (220, 50, 180, "kiln", "one source"), (420, 50, 180, "real compiler", "PTX or code object"),
             (20, 160, 180, "decode", "each instruction"), (220, 160, 180, "warps, lanes", "a program counter each"),
             (420, 160, 180, "asynchronous units", "copies, wgmma"), (620, 160, 200, "every byte's history", "who wrote it, ordered how"),
             (220, 270, 180, "eager, lazy, random", "when copies complete"), (420, 270, 180, "findings", "both parties, with lines"),
             (620, 270, 200, "result", "against float64")]
    arrows = [(200, 75, 220, 75), (400, 75, 420, 75), (510, 100, 110, 160), (200, 185, 220, 185), (400, 185, 420, 185), (600, 185, 620, 185),
              (310, 270, 480, 210), (720, 210, 560, 270), (720, 210, 720, 270)]
    body = ['<text x="20" y="28">How a kernel is proven without a GPU</text>',
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8c959f"/></marker></defs>']
    body += [f'<line class="l" x1="{a}" y1="{b}" x2="{c}" y2="{d}" marker-end="url(#a)"/>' for a, b, c, d in arrows]
    for i, (x, y, w, head, text) in enumerate(boxes):
        body.append(f'<rect x="{x}" y="{y}" width="{w}" height="50" rx="6" fill="{hue(i // 3 * 2 + 4, 12)}"/>'
                    f'<text x="{x + w / 2}" y="{y + 21}" text-anchor="middle" style="fill:#1f2328">{head}</text>'
                    f'<text x="{x + w / 2}" y="{y + 40}" text-anchor="middle" style="fill:#1f2328;font-size:14px">{text}</text>')
    svg(name, 840, 340, body)


def main():
    kiln = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/kiln").resolve()
    mma = report(kiln, "prefill_bf16_d64_causal_sm80")
    wgmma = report(kiln, "prefill_bf16_d128_causal_sm90a")
    mfma = report(kiln, "prefill_bf16_d128_causal_gfx950")
    fragment("fragment_mma_c.svg", mma["fragments"][2], 16, "mma.sync.m16n8k16: the accumulators, rows of S")
    fragment("fragment_mma_a.svg", mma["fragments"][0], 16, "mma.sync.m16n8k16: A, so P is S with its registers renamed")
    fragment("fragment_wgmma_a.svg", wgmma["fragments"][0], 16, "wgmma: A from registers, the first of four warps")
    fragment("fragment_mfma_c.svg", dict(mfma["fragments"][1]), 32, "MFMA 32x32x16: the accumulators, S transposed")
    swizzle("swizzle_128.svg", wgmma["swizzles"], "The first KiB of K on sm_90a, 128B swizzle: row:chunk, 32 banks a line")
    swizzle("swizzle_gfx950.svg", mfma["swizzles"], "The first KiB of K and V on gfx950")
    python = ROOT / ".venv/bin/python"
    stream_k("stream_k.svg", str(python) if python.exists() else sys.executable)
    emulated_device("emulated_device.svg")
    parallel_pictures.draw(svg)
    print(f"{len(list(OUT.glob('*.svg')))} pictures in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
