#!/usr/bin/env python3
"""Opens pages of `kiln inspect --html` in headless Chromium: they render, fold, search, hover and select without an error
on the console, light and dark, at the width of a desk and of a phone. Without Chromium it says so and passes.

usage: scripts/check_page.py [KILN] [--screenshots FOLDER]
"""
import argparse
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGS = ["prefill_bf16_d64_causal_sm80", "decode_bf16_d128_paged64_sm90a", "prefill_bf16_d128_pingpong_gfx942", "prefill_bf16_d128_causal_sm100a"]
# A line of the first config's source, and what a person makes of it.
EDIT = ["  const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : rcp_approx(row_sum_0);",
        "  const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : 1.0f / row_sum_0;"]
# Runs in the page, which is told apart from a test by nothing else; the answer is the text of an element.
TEST = """<script>
const out = {errors: []}, enter = e => e.dispatchEvent(new MouseEvent("mouseenter"));
window.addEventListener("error", e => out.errors.push(String(e.message)));
try {
  out.sections = [...document.querySelectorAll("section")].map(s => s.id);
  out.rows = document.querySelectorAll("#code .row").length;
  out.source = R.source.length;
  const key = k => document.dispatchEvent(new KeyboardEvent("keydown", {key: k, bubbles: true}));
  document.querySelector("#code .row.phase:nth-child(n+2)").click();
  out.folded = document.querySelectorAll("#code .row.gone").length;
  key("f"); out.all = document.querySelectorAll("#code .row.gone").length;
  key("f"); out.none = document.querySelectorAll("#code .row.gone").length;
  search.value = "seqlen_k"; search.dispatchEvent(new Event("input"));
  out.hits = document.querySelectorAll("#code .row.hit").length;
  const target = [...bySource.keys()].filter(n => n > 0).sort((a, b) => bySource.get(b).length - bySource.get(a).length)[0];
  if (target) document.querySelector("#L" + target + " .n").click();
  out.under = document.querySelectorAll("#under .row").length;
  out.emitter = document.querySelector("#under p") ? document.querySelector("#under p").textContent : "";
  out.fragments = [...document.querySelectorAll(".fragment")].map(f => {
    const [matrix, lanes] = f.querySelectorAll(".cells"), say = f.querySelector("p.mono");
    enter(matrix.children[matrix.children.length - 1]);
    const first = say.textContent, hot = lanes.querySelectorAll(".hot").length;
    enter([...lanes.children].find(c => c.classList.contains("hot")));
    const press = (grid, k) => grid.dispatchEvent(new KeyboardEvent("keydown", {key: k, bubbles: true}));
    const kept = say.textContent, back = matrix.querySelectorAll(".hot").length;
    press(matrix, "ArrowRight"); const right = say.textContent; press(matrix, "ArrowLeft"); press(lanes, "ArrowDown");
    const keyed = matrix.tabIndex === 0 && lanes.tabIndex === 0 && right.endsWith("holds row 0, column 1") && say.textContent.startsWith("lane 1, element 0 ");
    return {keyed, same: kept === first, hot, back, text: first,
            bijection: [...matrix.children].every(c => c.textContent)};
  });
  out.swizzles = document.querySelectorAll("#swizzles .cells").length;
  out.names = [...document.querySelectorAll("#shared tr td:nth-child(5)")].map(c => c.textContent).filter(Boolean);
  out.regions = document.querySelectorAll("#shared .bar span").length;
  out.covered = [...document.querySelectorAll("#shared .bar span")].reduce((sum, s) => sum + parseFloat(s.style.width), 0);
  out.timeline = document.querySelectorAll("#timeline rect").length;
  out.waits = document.querySelectorAll("#run .wait").length;
  out.path = document.querySelectorAll("#run .path").length;
  if (out.waits) { enter(document.querySelector("#run .wait")); out.waited = document.querySelector("#waits p.mono").textContent; }
  out.sass = machine ? document.querySelectorAll('#under .machine .row').length : -1;
  out.measured = document.querySelectorAll("#roofline .measured").length;
  out.roof = document.querySelectorAll("#roofline .roof").length;
  out.next = document.querySelectorAll("#choices .next").length;
  out.choices = document.querySelectorAll("#choices tr").length;
  const was = root.classList.contains("dark"); key("d");
  out.toggled = root.classList.contains("dark") !== was;
  key("d");
  out.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  out.diff = document.querySelectorAll("#diff .a, #diff .d").length;
  out.edited = [...document.querySelectorAll("#edited .a, #edited .d")].map(l => l.textContent);
  out.changes = document.querySelectorAll("#edited tr").length;
} catch (e) { out.errors.push(String(e.stack)); }
document.body.append(Object.assign(document.createElement("pre"), {id: "answer", textContent: JSON.stringify(out)}));
</script>"""


def browse(chromium, page, size, extra=(), screenshot=None):
    # A phone is emulated by an inner frame: headless windows are never narrower than 500 pixels.
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
               f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=8000", *extra]
    command += [f"--screenshot={screenshot}"] if screenshot else ["--dump-dom"]
    result = subprocess.run([*command, page], capture_output=True, text=True, timeout=180)
    # Without a network Chromium itself speaks of a slow one there.
    console = [line for line in result.stderr.splitlines() if ":CONSOLE" in line and "Slow network is detected" not in line]
    return result.stdout, console


def problems_of(name, answer, console):
    if answer is None:
        return [f"{name}: the page gave no answer: {console}"]
    fragments = answer.get("fragments", [])
    checks = {"no errors on the console": not answer["errors"] and not console,
              "all sections": {"resources", "shared", "swizzles", "fragments", "timeline", "waits", "choices", "instructions", "roofline", "config",
                               "source"} <= set(answer.get("sections", [])),
              "a row for each line": answer.get("rows") == answer.get("source"),
              "a phase folds": 0 < answer.get("folded", 0) < answer.get("all", 0),
              "all phases fold and unfold": answer.get("none") == 0,
              "search finds": answer.get("hits", 0) > 0,
              "a line has its program under it": answer.get("under", 0) > 0,
              "a line names its emitter": "written by" in answer.get("emitter", ""),
              "fragments": len(fragments) >= 2,
              "hover goes both ways": all(f["same"] and f["hot"] == 1 and f["back"] == 1 for f in fragments),
              "arrow keys move in both pictures": all(f["keyed"] for f in fragments),
              "each element of the matrix is in one register": all(f["bijection"] for f in fragments),
              "shared memory": answer.get("regions", 0) >= 2 and 60 < answer.get("covered", 0) <= 100.5,
              "names of regions where the source has them":
                  answer.get("names", [])[:1] == (["k"] if "decode" in name else ["q"] if "sm100a" in name else []),
              "waits of a run": answer.get("waits", 0) > 3 and answer.get("path", 0) > 1 and "warp" in answer.get("waited", ""),
              "SASS under the line, where nvdisasm is": answer.get("sass") != 0,
              "a roofline": answer.get("roof") == 1,
              "measured points": "decode" not in name or answer.get("measured", 0) > 5,
              "the next best": "sm100a" in name or answer.get("next", 0) > 0,
              "choices": answer.get("choices", 0) > 2,
              "light and dark": answer.get("toggled"),
              "no sideways scrolling": answer.get("wide", 1) <= 0,
              "a difference": "difference" not in name or answer.get("diff", 0) > 0,
              "what an edit changed": "edited" not in name or answer.get("edited") == ["- " + EDIT[0], "+ " + EDIT[1]]
                  and answer.get("changes", 0) > 5}
    return [f"{name}: not so: {what} ({answer['errors'][:1]} {console[:1]})" for what, holds in checks.items() if not holds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", nargs="?", default=ROOT / "build/kiln", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: no Chromium here (Debian: apt-get install chromium)")
        return 0
    problems, pages = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        subprocess.run([options.kiln.resolve(), "generate", CONFIGS[0], "--out", folder], check=True, capture_output=True)
        edited = folder / "edited.cu"
        edited.write_text((folder / f"{CONFIGS[0]}.cu").read_text().replace(*EDIT))
        wanted = [(name, name, []) for name in CONFIGS]
        wanted += [("difference", "prefill_bf16_d64_sm80", ["--diff", "prefill_bf16_d64_causal_sm80"]), ("edited", CONFIGS[0], ["--source", edited])]
        for name, config, extra in wanted:
            page = folder / f"{name}.html"
            subprocess.run([options.kiln.resolve(), "inspect", config, "--html", page, *extra], check=True, capture_output=True)
            tested = folder / f"{name}-tested.html"
            tested.write_text(page.read_text().replace("</body>", TEST + "</body>"))
            for how, size in (("desk", (1280, 900)), ("phone", (500, 900))):
                dom, console = browse(chromium, tested.as_uri(), size)
                match = re.search(r'<pre id="answer">(.*?)</pre>', dom, flags=re.S)
                problems += problems_of(f"{name} ({how})", json.loads(html.unescape(match.group(1))) if match else None, console)
                pages += 1
            if options.screenshots:
                options.screenshots.mkdir(parents=True, exist_ok=True)
                for how, size, mark in (("light", (1280, 4200), ""), ("dark", (1280, 4200), "#dark"), ("phone", (500, 4200), "")):
                    browse(chromium, page.as_uri() + mark, size, screenshot=options.screenshots.resolve() / f"{name}-{how}.png")
    print("\n".join(problems) if problems else f"{pages} pages render, fold, search, hover and select")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
