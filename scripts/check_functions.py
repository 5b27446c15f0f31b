#!/usr/bin/env python3
"""Checks that functions fit the head: at most 60 lines and 20 branches.

A branch is an if, a loop, a catch, a case label that does more than return a value, ?:, && or ||. Those that are longer
are listed with their sizes in scripts/function_exceptions.txt. The list only shrinks: the check fails when a function
grows beyond its entry, and when an entry is no longer needed.

usage: scripts/check_functions.py [--list | --shrink] [--help]
  --list    every function over a limit: file, name, lines, branches
  --shrink  rewrites the list: entries no longer needed go, numbers go down, nothing is added
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include/", "generator/", "code_object/", "emulator/", "runtime/", "workbench/", "cli/")
EXCEPTIONS = ROOT / "scripts" / "function_exceptions.txt"
MAX_LINES, MAX_BRANCHES = 60, 20
# Text without meaning here: raw strings, strings, characters, comments.
NOISE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
TABLE_CASE = re.compile(r"\b(case\b[^:;{}]*(?:::[^:;{}]*)*:|default:)\s*(?=case\b|default:|return [^;]*;)")
BRANCH = re.compile(r"\b(?:if|for|while|catch|case)\b|\?|&&|\|\|")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^;()=]*(\([^()]*\)[^;()=]*)*$")
NAME = re.compile(r"([~\w:<>,\s]*?operator\s*[^\s(]+|[~\w:]+(?:<[^()]*>)?)\s*\(")


def blank(match: re.Match) -> str:
    """As many lines as before, so that positions still give line numbers."""
    return '""' + "\n" * match.group(0).count("\n") if match.group(0)[0] in "\"'R" else "\n" * match.group(0).count("\n")


def functions_of(text: str):
    """Yields (name, first line, lines, branches) of every function body outside of other functions."""
    text = NOISE.sub(blank, text)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.MULTILINE)
    depth, start, begin = 0, 0, 0  # braces open inside a function; where its head and its body begin
    for match in re.finditer(r"[{};]", text):
        at = match.start()
        if depth > 0:
            depth += {"{": 1, "}": -1, ";": 0}[match.group(0)]
            if depth == 0:
                head, body = text[start:begin], text[begin:at + 1]
                if name := name_of(head):
                    first = text.count("\n", 0, begin) + 1
                    yield name, first, body.count("\n") + 1, len(BRANCH.findall(TABLE_CASE.sub("", body)))
                start = at + 1
            continue
        if match.group(0) == "{":
            head = text[start:at]
            if SCOPE.search(strip_templates(head)) and ")" not in head.rsplit("\n", 1)[-1]:
                start = at + 1
            else:
                depth, begin = 1, at
        else:
            start = at + 1


def strip_templates(head: str) -> str:
    return re.sub(r"template\s*<[^{}]*?>\s*(?=\w)", "", head)


def name_of(head: str):
    """The name before the first parameter list; none for tables and initialisers."""
    head = strip_templates(head).strip()
    if "(" not in head or re.search(r"=\s*$", head) or re.match(r"(static |inline |constexpr |const )*[\w:<>, ]+ = ", head):
        return None
    match = NAME.search(head)
    return match.group(1).split()[-1] if match else None


def measure() -> dict:
    """(file, function) -> (lines, branches), of overloads the largest."""
    names = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.inc"], cwd=ROOT, check=True, capture_output=True, text=True)
    sizes: dict = {}
    for name in names.stdout.split():
        if not name.startswith(FOLDERS) or not (ROOT / name).exists():
            continue
        for function, _, lines, branches in functions_of((ROOT / name).read_text(encoding="utf-8")):
            old = sizes.get((name, function), (0, 0))
            sizes[name, function] = (max(old[0], lines), max(old[1], branches))
    return sizes


def too_large(size) -> bool:
    return size[0] > MAX_LINES or size[1] > MAX_BRANCHES


def read_exceptions() -> dict:
    entries = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, function, lines, branches = line.split()
            entries[name, function] = (int(lines), int(branches))
    return entries


def shrink(sizes: dict, allowed: dict) -> None:
    kept = [(*key, *map(min, sizes[key], old)) for key, old in sorted(allowed.items())
            if key in sizes and too_large(sizes[key])]
    head = [line for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    EXCEPTIONS.write_text("\n".join(head + [" ".join(map(str, entry)) for entry in kept]) + "\n", encoding="utf-8")


def problems(sizes: dict, allowed: dict):
    for key, size in sorted(sizes.items()):
        where, limit = " ".join(key), allowed.get(key)
        if limit is None and too_large(size):
            yield f"{where}: {size[0]} lines, {size[1]} branches; {MAX_LINES} and {MAX_BRANCHES} are the limits"
        elif limit is not None and (size[0] > max(limit[0], MAX_LINES) or size[1] > max(limit[1], MAX_BRANCHES)):
            yield f"{where}: {size[0]} lines, {size[1]} branches; it had {limit[0]} and {limit[1]}, and may only shrink"
    for key in sorted(allowed):
        if key not in sizes or not too_large(sizes[key]):
            yield f"{' '.join(key)}: no longer an exception; run scripts/check_functions.py --shrink"


def main() -> int:
    option = sys.argv[1] if len(sys.argv) == 2 else ""
    if len(sys.argv) > 1 and option not in ("--list", "--shrink"):
        print(__doc__.strip())
        return 0 if option in ("-h", "--help") else 2
    sizes = measure()
    if option == "--list":
        for key, size in sorted(sizes.items(), key=lambda item: -item[1][0]):
            if too_large(size):
                print(*key, *size)
        return 0
    if option == "--shrink":
        shrink(sizes, read_exceptions())
        return 0
    found = list(problems(sizes, read_exceptions()))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
