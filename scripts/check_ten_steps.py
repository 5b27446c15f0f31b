#!/usr/bin/env python3
"""Applies the examples of docs/ten-steps.md (a mask, a score modifier, an operand, a schedule) to a copy of the files they
touch, compiles what changed, links a kiln with it and runs it: results against float64 on the emulated device, and the
same with the emitted text of the mask and of the modifier wrong, which must be noticed. It also holds the examples to where they may reach: one folder, its registry, one enumerator.

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
MAY_TOUCH = {
    "mask": {"include/kiln/config.hpp", "generator/masks"},
    "modifier": {"include/kiln/config.hpp", "generator/modifiers"},
    "operand": {"include/kiln/types.hpp", "generator/operands/registry.cpp"},
    "schedule": {"generator/schedules/registry.cpp", "generator/schedules/sm80_narrow_prefill"},
}
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


def applied(name, text, lines):
    """`text` of the file (None: a new one) with the hunks in it: runs of ' ' and '-' lines are found as they are, once each."""
    if text is None:
        assert all(line.startswith("+") for line in lines), f"{name} is new: every line begins with +"
        return "\n".join(line[1:] for line in lines) + "\n"
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
        self.folder, self.build = folder, build
        self.commands = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
        # Of sources that are compiled together (KILN_UNITY), the file that includes them.
        self.units = {source: file for file in self.commands if "/Unity/" in file
                      for source in re.findall(r'#include "(.*)"', pathlib.Path(file).read_text())}

    def source(self, path):
        """The scratch copy of a file of the project, or the file."""
        path = pathlib.Path(path)
        copy = self.folder / path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        return copy if copy.exists() else path

    def compile(self, name):
        """With the command of the original, or of a file of the same library, and the scratch copy first in the search."""
        unit = self.units.get(str(ROOT / name))
        known = unit or str(ROOT / name)
        other = str(ROOT / "generator/config/schema.cpp")
        entry = self.commands.get(known) or self.commands[self.units.get(other, other)]
        source = self.source(ROOT / name)
        if unit:
            source = self.folder / pathlib.Path(unit).name
            text = pathlib.Path(unit).read_text()
            source.write_text(re.sub(r'#include "(.*)"', lambda found: f'#include "{self.source(found[1])}"', text))
        target = self.folder / (source.name if unit else name.replace("/", "_"))
        target = target.with_name(target.name + ".o")
        words = shlex.split(entry["command"])
        keep, skip = [], False
        for word in words:
            if skip or word in ("-o", "-c"):
                skip = word in ("-o", "-c")
                continue
            keep.append(word)
        first = next(i for i, word in enumerate(keep) if word.startswith("-I"))
        keep[first:first] = [f"-I{self.folder}", f"-I{self.folder / 'include'}"]
        subprocess.run([*keep, "-Wno-error", "-o", str(target), "-c", str(source)], check=True, cwd=entry["directory"])
        return target

    def compile_all(self, names):
        """Each source once, and each unit of sources."""
        units = {self.units.get(str(ROOT / name), name): name for name in names}
        return [self.compile(name) for name in units.values()]

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


def check_mask(kiln, status=0):
    problem = ["run", "-", "--device", "emulated", "--check", "--lengths-q", "100,33", "--lengths-k", "150,200"]
    run(kiln, *problem, config={**CONFIG, "operand": {"kind": "ragged"}, "mask": MASKED}, status=status)
    if status:
        return
    run(kiln, "run", "-", "--device", "emulated", "--check", "--seqlen-k", "300", config={**CONFIG, "operation": "decode", "mask": MASKED})
    run(kiln, "verify", "-", "--quick", config={**CONFIG, "mask": MASKED})


def check_modifier(kiln, status=0):
    modified = {**CONFIG, "score_mod": {"softsign": 2.5}}
    run(kiln, "run", "-", "--device", "emulated", "--check", "--seqlen-q", "150", config={**modified, "mask": "causal"}, status=status)
    if status:
        return
    run(kiln, "verify", "-", "--quick", config={**modified, "operation": "decode"})
    resolved = json.loads(run(kiln, "plan", "-", "--json", config=modified))["resolved"]
    assert resolved["score_mod"] == {"softsign": 2.5}, resolved
    run(kiln, "validate", "-", config={**modified, "score_mod": {"softsign": 0}}, status=2)


def check_operand(kiln):
    rows = {**CONFIG, "operand": {"kind": "rows"}}
    run(kiln, "run", "-", "--device", "emulated", "--check", "--lengths-q", "70,3", "--lengths-k", "90,41", config={**rows, "mask": "causal"})
    run(kiln, "verify", "-", "--quick", config={**rows, "operation": "decode"})
    resolved = json.loads(run(kiln, "plan", "-", "--json", config=rows))["resolved"]
    assert resolved["operand"] == {"kind": "rows", "page_size": 1}, resolved
    run(kiln, "validate", "-", config={**rows, "operand": {"kind": "rows", "page_size": 2}}, status=2)


def check_schedule(kiln):
    narrow = {**CONFIG, "mask": "causal", "schedule": "sm80_narrow_prefill"}
    plan = json.loads(run(kiln, "plan", "-", "--json", config=narrow))["resolved"]
    assert (plan["schedule"], plan["BN"], plan["num_kv_stages"]) == ("sm80_narrow_prefill", 32, 3), plan
    run(kiln, "run", "-", "--device", "emulated", "--check", "--seqlen-q", "150", config=narrow)


def add_all(found, folder):
    """Writes the changed files, of several examples where they touch the same one; their names."""
    names = []
    for heading, files in found.items():
        for name, lines in files:
            allowed = MAY_TOUCH[heading]
            assert name in allowed or str(pathlib.PurePosixPath(name).parent) in allowed, f"{heading}: touches {name}"
            now = next((path.read_text() for path in (folder / name, ROOT / name) if path.exists()), None)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(applied(name, now, lines))
            if name not in names:
                names.append(name)
    return names


def break_one(tree, objects, name, right, wrong):
    """A kiln with one text of `name` replaced; the file is as it was afterwards."""
    path = tree.folder / name
    text = path.read_text()
    assert text.count(right) == 1, f"{name}: {right}"
    path.write_text(text.replace(right, wrong))
    tree.compile(name)
    kiln = tree.link(objects)
    path.write_text(text)
    return kiln


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__.strip())
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    found = steps()
    assert set(found) == set(MAY_TOUCH), f"docs/ten-steps.md has examples for {set(found)} alone"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        names = add_all(found, folder)
        tree = Scratch(folder, build)
        objects = tree.compile_all([name for name in names if name.endswith(".cpp")])
        kiln = tree.link(objects)
        check_mask(kiln), check_modifier(kiln), check_operand(kiln), check_schedule(kiln)
        mask, modifier = "generator/masks/aligned_window.cpp", "generator/modifiers/softsign.cpp"
        check_mask(break_one(tree, objects, mask, "size - 1)", "size - 2)"), status=1)
        tree.compile(mask)
        check_modifier(break_one(tree, objects, modifier, "(1.0f + ", "(2.0f + "), status=1)
    print("a mask, a score modifier, an operand and a schedule were added as docs/ten-steps.md says, and run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
