#!/usr/bin/env python3
"""Checks the house rules that no compiler checks: which folder includes which, and how long files are.

usage: scripts/check_layers.py [--help]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What each folder's files may include of the project; everything may include itself.
MAY_INCLUDE = {
    "include": {"kiln"},
    "generator": {"kiln", "generator"},
    "emulator": {"emulator"},
    "runtime": {"kiln", "generator", "emulator", "runtime"},
    "cli": {"kiln", "generator", "emulator", "runtime", "cli"},
}
# The generator's public headers of the runtime are not for the generator.
RUNTIME_HEADERS = {"kiln/runtime.hpp", "kiln/cache.hpp", "kiln/kiln.hpp"}
PROJECT = {"kiln", "generator", "emulator", "runtime", "cli"}
# Said from 500 lines on (decoder and operator tables may need them), refused beyond this.
GOOD_LINES, MAX_LINES = 500, 700
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def problems_of(name: str, text: str):
    folder = name.split("/")[0]
    lines = text.splitlines()
    if len(lines) > MAX_LINES and folder != "tests":
        yield f"{name}: {len(lines)} lines, {MAX_LINES} are the limit"
    elif len(lines) > GOOD_LINES and folder != "tests":
        print(f"note: {name}: {len(lines)} lines")
    # A source file beside its header may leave the explanation to it.
    alone = name.endswith(".hpp") or not (ROOT / name).with_suffix(".hpp").exists()
    if alone and lines and not lines[0].startswith("//"):
        yield f"{name}:1: the file does not open with a comment that says what it is"
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or "/" not in match.group(1):
            continue
        target = match.group(1).split("/")[0]
        if target in PROJECT and target not in allowed:
            yield f"{name}:{number}: {folder}/ must not include {match.group(1)}"
        if folder == "generator" and match.group(1) in RUNTIME_HEADERS:
            yield f"{name}:{number}: the generator must not include {match.group(1)}"


def main() -> int:
    if len(sys.argv) > 1:
        print(__doc__.strip())
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    names = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp"], cwd=ROOT, check=True, capture_output=True, text=True)
    found = 0
    for name in names.stdout.split():
        path = ROOT / name
        if not path.exists():
            continue
        for problem in problems_of(name, path.read_text(encoding="utf-8")):
            print(problem)
            found += 1
    return 1 if found else 0


sys.exit(main())
