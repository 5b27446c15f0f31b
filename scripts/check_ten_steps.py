#!/usr/bin/env python3
"""Applies the examples of docs/ten-steps.md (a mask, a schedule) to a copy of the files they touch, compiles what changed,
links a kiln with it and runs it: results against float64 on the emulated device, and the same with the mask's text off by
one, which must be noticed. It also holds the examples to where they may reach: one folder, its registry, one enumerator.

usage: scripts/check_ten_steps.py [BUILD_FOLDER]
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What an example may touch besides files of its own folder.
MAY_TOUCH = {"mask": {"include/kiln/config.hpp", "generator/masks"}, "schedule": {"generator/schedules/registry.cpp", "generator/schedules/sm80_narrow_prefill"}}
CONFIG = {"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64}
MASKED = {"aligned_window": 40}


def steps():
    """{heading: [(file, [(old, new), ...]), ...]} of the diff blocks."""
    out, heading = {}, None
    text = (ROOT / "docs/ten-steps.md").read_text()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading = part.split("\n", 1)[0].split()[-1]
        for indent, block in re.findall(r"^( *)```diff\n(.*?)^ *```", part, flags=re.S | re.M):
            for piece in re.split(r"^\+\+\+ ", re.sub(rf"^{indent}", "", block, flags=re.M), flags=re.M)[1:]:
                name, lines = piece.split("\n", 1)
                out.setdefault(heading, []).append((name.strip(), lines.splitlines()))
    return out


def applied(name, lines):
    """The file's text with the hunks in it: runs of ' ' and '-' lines are found as they are, once each."""
    path = ROOT / name
    if not path.exists():
        assert all(line.startswith("+") for line in lines), f"{name} is new: every line begins with +"
        return "\n".join(line[1:] for line in lines) + "\n"
    text = path.read_text()
    hunks, old, new = [], [], []
    for line in lines + [" "]:
        if line[:1] != "+" and new and new != old:
            hunks.append((old, new))
            old, new = [], []
        if line[:1] in " -":
            old.append(line[1:])
        if line[:1] in " +":
            new.append(line[1:])
    for old, new in hunks:
        before, after = "\n".join(old) + "\n", "\n".join(new) + "\n"
        assert old and text.count(before) == 1, f"{name}: not there once: {before}"
        text = text.replace(before, after)
    return text


class Scratch:
    def __init__(self, folder, build):
        self.folder, self.build, self.objects = folder, build, []
        self.commands = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}

    def compile(self, name):
        """With the command of the original, or of a file of the same library, and the scratch copy first in the search."""
        entry = self.commands.get(str(ROOT / name)) or next(e for f, e in sorted(self.commands.items()) if f.startswith(str(ROOT / "generator/config/")))
        words = shlex.split(entry["command"])
        target = self.folder / (name.replace("/", "_") + ".o")
        keep, skip = [], False
        for word in words:
            if skip or word in ("-o", "-c"):
                skip = word in ("-o", "-c")
                continue
            keep.append(word)
        first = next(i for i, word in enumerate(keep) if word.startswith("-I"))
        keep[first:first] = [f"-I{self.folder}", f"-I{self.folder / 'include'}"]
        source = self.folder / name if (self.folder / name).exists() else ROOT / name
        subprocess.run([*keep, "-Wno-error", "-o", str(target), "-c", str(source)], check=True, cwd=entry["directory"])
        return target

    def link(self, objects):
        command = subprocess.run(["ninja", "-C", str(self.build), "-t", "commands", "kiln"], capture_output=True, text=True, check=True).stdout
        line = next(l for l in reversed(command.splitlines()) if re.search(r"-o kiln( |$)", l))
        line = line.split("&&")[1] if line.startswith(": &&") else line
        words = shlex.split(line)
        words[words.index("-o") + 1] = str(self.folder / "kiln")
        # Before the archives: a member whose names are all defined already is left out.
        first = next(i for i, word in enumerate(words) if word.endswith(".a"))
        words[first:first] = map(str, objects)
        subprocess.run(words, check=True, cwd=self.build)
        return self.folder / "kiln"


def run(kiln, *words, config, status=0):
    environment = {**os.environ, "KILN_CACHE_DIR": str(kiln.parent / "cache")}
    result = subprocess.run([kiln, *words], input=json.dumps(config), capture_output=True, text=True, env=environment, timeout=600)
    assert result.returncode == status, f"kiln {' '.join(words)} of {config}: status {result.returncode}, not {status}: {result.stdout[-600:]}{result.stderr[-600:]}"
    return result.stdout


def check(kiln, status=0):
    problem = ["run", "-", "--device", "emulated", "--check", "--lengths-q", "100,33", "--lengths-k", "150,200"]
    run(kiln, *problem, config={**CONFIG, "operand": {"kind": "ragged"}, "mask": MASKED}, status=status)
    if status:
        return
    run(kiln, "run", "-", "--device", "emulated", "--check", "--seqlen-k", "300", config={**CONFIG, "operation": "decode", "mask": MASKED})
    run(kiln, "verify", "-", "--quick", config={**CONFIG, "mask": MASKED})
    narrow = {**CONFIG, "mask": "causal", "schedule": "sm80_narrow_prefill"}
    plan = json.loads(run(kiln, "plan", "-", "--json", config=narrow))["resolved"]
    assert (plan["schedule"], plan["BN"], plan["num_kv_stages"]) == ("sm80_narrow_prefill", 32, 3), plan
    run(kiln, "run", "-", "--device", "emulated", "--check", "--seqlen-q", "150", config=narrow)


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__.strip())
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    found = steps()
    assert set(found) >= set(MAY_TOUCH), f"docs/ten-steps.md has examples for {set(found)} alone"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        names = []
        for heading, files in found.items():
            for name, lines in files:
                allowed = MAY_TOUCH[heading]
                assert name in allowed or str(pathlib.PurePosixPath(name).parent) in allowed, f"A {heading} touches {name}"
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(applied(name, lines))
                names.append(name)
        tree = Scratch(folder, build)
        objects = [tree.compile(name) for name in names if name.endswith(".cpp")]
        check(tree.link(objects))
        mask = folder / "generator/masks/aligned_window.cpp"
        text = mask.read_text()
        wrong = text.replace("size - 1)", "size - 2)")
        assert wrong != text
        mask.write_text(wrong)
        tree.compile("generator/masks/aligned_window.cpp")
        check(tree.link(objects), status=1)
    print("a mask and a schedule were added as docs/ten-steps.md says, and run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
