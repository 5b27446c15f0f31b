#!/usr/bin/env python3
"""Checks README.md and docs/: links, and every block of code.

Links to files and headings inside the repository must exist; nothing is fetched. A fenced block with a language is
code, and something is done with it. A comment on the line before the fence says what; without one the language decides:

  <!-- check: run -->           sh: run in a scratch folder, with kiln on PATH, on the emulated device; status 0.
                                python: run with the package, where it was built
  <!-- check: run status=2 -->  the same with another exit status
  <!-- check: file NAME -->     any language: write the block to NAME in the scratch folder
  <!-- check: excerpt FILE -->  the lines occur in FILE in this order ("..." stands for any); a name that is no file is
                                a config, of which the emitted source is taken
  <!-- check: compile NAME -->  c, c++: syntax and types, put where tests/docs/NAME.in says BLOCK
  (diff)                        nothing here: scripts/check_ten_steps.py applies and builds them
  <!-- check: syntax -->        sh: bash accepts it, and kiln has the commands and options that are in it
  <!-- check: torch -->         python: run with PyTorch under --torch, "cuda" read as "cpu", all of a page in one process

  console  commands after "$ " are run, what follows is compared with what they print; numbers may differ
  sh, python, json, cmake without a comment: syntax; json with a "target" is validated as a config
  python in any case: the package has what is imported from it, and its functions the keywords that they are called with

Blocks of one page share a folder and run in order.
usage: scripts/check_docs.py [KILN] [--page NAME] [--torch PYTHON] [--verbose]
"""
import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import python_calls

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)```([\w+]*)\s*$")
CHECK = re.compile(r"<!-- check: (\w+) ?(.*?) ?-->")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
LANGUAGES = {"sh", "python", "json", "cmake", "c", "c++", "cpp", "console"}


class Failure(Exception):
    pass


class Block:
    def __init__(self, page, line, language, text, what, argument):
        self.page, self.line, self.language, self.text = page, line, language, text
        self.what, self.argument = what, argument

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    out, check, begin, lines = [], None, None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if begin is None:
            if fence:
                begin, indent, language, lines = number, len(fence.group(1)), fence.group(2), []
            elif line.strip():
                check = CHECK.search(line)
        elif line.strip() == "```":
            what, argument = check.groups() if check else ("", "")
            out.append(Block(page, begin, language, "\n".join(lines) + "\n", what, argument))
            begin, check = None, None
        else:
            lines.append(line[indent:])
    if begin is not None:
        raise Failure(f"{page}:{begin}: the block has no end")
    return out


def anchors_of(page):
    out, code = set(), False
    for line in page.read_text().splitlines():
        code ^= bool(FENCE.match(line)) or (code and line.strip() == "```")
        if not code and line.startswith("#"):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip()).lower()
            out.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return out


def check_links(page, problems):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    count = 0
    for match in LINK.finditer(text):
        target = match.group(1) or match.group(2)
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        count += 1
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            problems.append(f"{page.relative_to(ROOT)}: no file {target}")
        elif anchor and path.suffix == ".md" and anchor not in anchors_of(path):
            problems.append(f"{page.relative_to(ROOT)}: no heading #{anchor} in {path.name}")
    return count


class Runner:
    def __init__(self, kiln, scratch):
        self.kiln, self.scratch, self.options = kiln, scratch, {}
        self.calls = {}  # by page: what its blocks of Python have imported so far
        build = kiln.parent
        programs = scratch / "bin"
        programs.mkdir()
        (programs / "kiln").symlink_to(kiln)
        self.environment = dict(os.environ, KILN_DEVICE="emulated", NO_COLOR="1", KILN_CACHE_DIR=str(build / "docs-cache"),
                                PATH=f"{programs}:{os.environ['PATH']}", PYTHONPATH=str(build / "python"), EDITOR="true")
        python = ROOT / ".venv/bin/python"
        self.python = str(python) if python.exists() else sys.executable
        self.has = {name: subprocess.run([self.python, "-c", f"import {name}"], env=self.environment,
                                         capture_output=True).returncode == 0 for name in ("kiln", "numpy")}
        self.broken = set()  # pages of which a block could not run here: what follows may need its results

    def folder(self, page):
        path = self.scratch / page.relative_to(ROOT).with_suffix("").as_posix().replace("/", "-")
        path.mkdir(exist_ok=True)
        return path

    def run(self, block, command, input_text=None, status=0):
        result = subprocess.run(command, cwd=self.folder(block.page), env=self.environment, capture_output=True, text=True,
                                input=input_text, timeout=600)
        if result.returncode != status:
            raise Failure(f"exit status {result.returncode}, not {status}\n{result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result.stdout + result.stderr

    def options_of(self, command):
        if command not in self.options:
            result = subprocess.run([self.kiln, *command, "--help"], capture_output=True, text=True)
            self.options[command] = set(re.findall(r"--[\w-]+", result.stdout)) if result.returncode == 0 else None
        return self.options[command]

    def check_names(self, words):
        """Scripts, presets and test programs are there."""
        presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
        for before, word in zip([""] + words, words):
            suite = re.fullmatch(r"(?:build\S*/tests/)?kiln_test_(\w+)", word)
            if before == "--preset" and word not in presets:
                raise Failure(f"no preset {word}")
            if re.match(r"(scripts|bench)/\w+\.(sh|py)$", word) and not (ROOT / word).exists():
                raise Failure(f"no file {word}")
            if suite and not (ROOT / "tests" / suite.group(1)).is_dir():
                raise Failure(f"no suite {suite.group(1)}")

    def check_commands(self, block):
        text = re.sub(r"\\\n", " ", block.text)
        for line in re.split(r"\n|&&|;|\|", text):
            words = line.split("#")[0].split()
            self.check_names(words)
            if len(words) < 2 or words[0] != "kiln":
                continue
            words = words[:words.index("--")] if "--" in words else words
            options = self.options_of((words[1],))
            if options is None:
                raise Failure(f"kiln has no command {words[1]}")
            known = options | (self.options_of(tuple(words[1:3])) or set() if len(words) > 2 and
                               words[1] == "cache" else set())
            for word in words[2:]:
                name = word.split("=")[0]
                if name.startswith("--") and name not in known:
                    raise Failure(f"kiln {words[1]} has no option {name}")

    def check_json(self, block):
        documents = [block.text] if block.text.lstrip().startswith("{\n") or block.text.count("\n{") == 0 else None
        for text in documents or [t for t in block.text.splitlines() if t.strip()]:
            document = json.loads(text)
            if isinstance(document, dict) and "operation" in document and "target" in document:
                self.run(block, [str(self.kiln), "validate", "-"], text)

    def check_excerpt(self, block):
        path = ROOT / block.argument
        if path.is_file():
            text = path.read_text()
        else:
            text = json.loads(self.run(block, [str(self.kiln), "inspect", block.argument, "--json", "--source"]))["source"]
        at = 0
        for line in block.text.splitlines():
            wanted = line.strip()
            if not wanted or wanted == "...":
                continue
            at = text.find(wanted, at)
            if at < 0:
                raise Failure(f"not in {block.argument}, or not in this order: {wanted}")
            at += len(wanted)

    def check_compile(self, block):
        frame = (ROOT / "tests/docs" / f"{block.argument}.in").read_text()
        name = self.folder(block.page) / f"block{block.line}{pathlib.Path(block.argument).suffix}"
        name.write_text(frame.replace("BLOCK\n", re.sub(r"^ *\.\.\.$", "", block.text, flags=re.M)))
        standard = "-std=c11" if name.suffix == ".c" else "-std=c++20"
        self.run(block, ["cc" if name.suffix == ".c" else "c++", standard, "-fsyntax-only", f"-I{ROOT}/include", str(name)])

    def check_console(self, block):
        sessions = re.split(r"^\$ ", re.sub(r"\\\n", " ", block.text), flags=re.M)[1:]
        if not sessions:
            raise Failure("no command: lines with commands begin with \"$ \"")
        for session in sessions:
            command, _, expected = session.partition("\n")
            result = subprocess.run(["bash", "-c", command], cwd=self.folder(block.page), env=self.environment,
                                    capture_output=True, text=True, timeout=600)
            loose = lambda text: re.sub(r"[\d.]+(e[-+]?\d+)?", "0", " ".join(text.split()))
            units = lambda text: re.sub(r"0 (us|ms|s)\b", "0 time", loose(text))
            printed = units(result.stdout + result.stderr)
            for line in expected.splitlines():
                if line.strip() not in ("", "...") and units(line) not in printed:
                    raise Failure(f"`{command}` does not print: {line}\nbut:\n{result.stdout}{result.stderr}")

    def check_cmake(self, block):
        stubs = "".join(f"function({name})\nendfunction()\n" for name in
                        ("find_package", "target_link_libraries", "kiln_add_kernels", "add_executable", "project"))
        path = self.folder(block.page) / "block.cmake"
        path.write_text("cmake_policy(VERSION 3.24)\n" + stubs + block.text)
        self.run(block, ["cmake", "-P", str(path)])

    def check(self, block):
        what, language = block.what, block.language
        status = int(re.search(r"status=(\d+)", block.argument).group(1)) if "status=" in block.argument else 0
        if what == "file":
            path = self.folder(block.page) / block.argument
            path.write_text(block.text)
            return "file"
        if what == "excerpt":
            self.check_excerpt(block)
        elif what == "compile":
            self.check_compile(block)
        elif language == "console":
            if block.page in self.broken:
                return "not run"
            self.check_console(block)
        elif language == "json":
            self.check_json(block)
        elif language == "cmake":
            self.check_cmake(block)
        elif language == "python":
            wrong = list(self.calls.setdefault(block.page, python_calls.Blocks()).check(block.text))
            if wrong:
                raise Failure("; ".join(wrong))
            if what == "run":
                missing = [name for name, found in self.has.items() if not found and f"import {name}" in block.text]
                if missing:
                    self.broken.add(block.page)
                    return f"syntax (no {missing[0]} here)"
                self.run(block, [self.python, "-"], block.text, status)
        elif language == "diff":
            return "by check_ten_steps.py"
        elif language == "sh":
            self.run(block, ["bash", "-n"], block.text)
            self.check_commands(block)
            if what == "run":
                self.run(block, ["bash", "-e"], block.text, status)
        else:
            raise Failure(f"nothing is known of how to check a block of '{language}'; see scripts/check_docs.py --help")
        return what if what and what != "torch" else "syntax"

    def check_torch(self, blocks, python):
        """Blocks of one page, in one process over PyTorch."""
        text = "".join(block.text for block in blocks).replace('"cuda"', '"cpu"')
        self.run(blocks[0], [python, "-"], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln", nargs="?", default=ROOT / "build/kiln", type=pathlib.Path)
    parser.add_argument("--page", help="only pages with this in their name")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch: run the blocks that need it, and no others")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if not options.kiln.exists():
        sys.exit(f"check_docs.py: no {options.kiln}; build it first, or name another")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if not options.page or options.page in str(page)]
    problems, done, links = [], {}, 0
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="kiln-docs-"))
    try:
        runner = Runner(options.kiln.resolve(), scratch)
        for page in pages:
            links += check_links(page, problems)
            blocks = [block for block in blocks_of(page) if block.language]  # the rest is pictures, formulas, output
            if options.torch:
                blocks = [block for block in blocks if block.what == "torch"]
                try:
                    if blocks:
                        runner.check_torch(blocks, options.torch)
                    done["torch"] = done.get("torch", 0) + len(blocks)
                except (Failure, subprocess.TimeoutExpired) as error:
                    problems.append(f"{blocks[0]} (python): {error}")
                continue
            for block in blocks:
                begin = time.monotonic()
                try:
                    how = runner.check(block)
                    done[how] = done.get(how, 0) + 1
                    if options.verbose:
                        print(f"{block} {block.language} {how} {time.monotonic() - begin:.1f} s")
                except (Failure, SyntaxError, ValueError, OSError, subprocess.TimeoutExpired) as error:
                    problems.append(f"{block} ({block.language}): {error}")
    finally:
        shutil.rmtree(scratch)
    for problem in problems:
        print(problem)
    kinds = ", ".join(f"{count} {how}" for how, count in sorted(done.items()))
    print(f"{len(pages)} pages, {links} links, {sum(done.values())} blocks ({kinds}), {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
