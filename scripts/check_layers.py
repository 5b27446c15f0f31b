#!/usr/bin/env python3
"""Checks the house rules that no compiler checks: which folder includes which, and how long files are.

usage: scripts/check_layers.py [--help]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What each folder's files may include of the project, besides themselves: folders, and the public headers of these.
MAY_INCLUDE = {
    "base": set(),
    "code_object": {"base"},
    "emulator": {"base", "code_object"},
    "driver": {"base", "code_object", "emulator"},
    "generator": {"base"},
    "runtime": {"base", "generator", "code_object"},
    "parallel": {"base", "generator", "runtime"},
    "workbench": {"base", "generator", "code_object", "emulator", "runtime"},
    "cli": {"base", "generator", "code_object", "emulator", "driver", "runtime", "workbench"},
}
# Which library a public header belongs to; those not listed are the generator's.
PUBLIC = {
    "kiln/code_object.hpp": "code_object",
    "kiln/emulator/": "emulator",
    "kiln/context_parallel.hpp": "parallel",
    "kiln/transport.hpp": "parallel",
    "kiln/parallel.h": "parallel",
    **{f"kiln/{name}": "runtime" for name in ("cache.hpp", "cascade.hpp", "kiln.h", "kiln.hpp", "kv_cache.hpp", "runtime.hpp")},
}
# The narrow interface through which the runtime opens the emulated device.
EXCEPTIONS = {("runtime", "kiln/emulator/library.h")}
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
    if folder == "include":
        folder = owner_of(name.removeprefix("include/"))
    if folder not in MAY_INCLUDE:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or "/" not in match.group(1):
            continue
        header = match.group(1)
        owner = owner_of(header)
        allowed = owner in MAY_INCLUDE[folder] or owner == folder or (folder, header) in EXCEPTIONS
        if owner in MAY_INCLUDE and not allowed:
            yield f"{name}:{number}: {folder}/ must not include {header}"


def owner_of(header: str) -> str:
    """The folder whose library has this header."""
    if not header.startswith("kiln/"):
        return header.split("/")[0]
    return next((owner for prefix, owner in PUBLIC.items() if header.startswith(prefix)), "generator")


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
