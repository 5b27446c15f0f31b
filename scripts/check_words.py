#!/usr/bin/env python3
"""Checks the words of the repository and the line lengths of its pages.

The project uses the field's terms and speaks of itself only: no word of the list below, no mention of when someone
worked on it. Lines of *.md files have at most 120 characters; tables may be longer.

usage: scripts/check_words.py [--help]
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_COLUMNS = 120
# A pattern, and what to write instead.
WORDS = {
    r"turn(s|ed|ing)? round": "transpose",
    r"mend(s|ed|ing)?": "fix",
    r"hand(s|ed|ing)? (it |them )?back": "release, return",
    r"giv(e|es|en|ing) (it |them )?back": "release",
    r"lies? together": "are contiguous",
    r"as ever": "(leave out)",
    r"for all that": "(leave out)",
    r"the more so": "(leave out)",
    r"nobody sees": "fully masked",
    r"(this|that|another|other|cold|cool) boards?": "GPU",
    r"dealt cells?": "work unit",
}
# When someone worked on it is no part of a result; its date, commit, device and command are.
PAGES = {
    r"session \d+": "the date and the commit",
    r"(in|of|the) (this|same|last) session": "the date and the commit",
    r"here today|as of today|sitting": "the date",
}
# Text that the checks themselves need, data, and fuzz inputs.
SKIP = ("scripts/check_words.py", "tests/data/", "tests/fuzz/corpus/")
SUFFIXES = {".md", ".cpp", ".hpp", ".h", ".c", ".cu", ".cuh", ".hip", ".py", ".sh", ".cmake", ".txt", ".json", ".inc"}


def compiled(words: dict) -> list:
    return [(re.compile(rf"\b({pattern})\b", re.IGNORECASE), instead) for pattern, instead in words.items()]


def problems_of(name: str, text: str, words: list, pages: list):
    page = name.endswith(".md")
    for number, line in enumerate(text.splitlines(), 1):
        if page and len(line) > MAX_COLUMNS and not line.lstrip().startswith("|"):
            yield f"{name}:{number}: {len(line)} characters, {MAX_COLUMNS} are the limit"
        for pattern, instead in words + (pages if page else []):
            if match := pattern.search(line):
                yield f"{name}:{number}: \"{match.group(0)}\"; write: {instead}"


def main() -> int:
    if len(sys.argv) > 1:
        print(__doc__.strip())
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    words, pages = compiled(WORDS), compiled(PAGES)
    found = 0
    for name in names:
        path = ROOT / name
        if path.suffix not in SUFFIXES or name.startswith(SKIP) or not path.is_file():
            continue
        for problem in problems_of(name, path.read_text(encoding="utf-8", errors="replace"), words, pages):
            print(problem)
            found += 1
    return 1 if found else 0


sys.exit(main())
