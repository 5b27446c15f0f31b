"""Makes mutants of programs that nobody here wrote, of every kind, and counts by kind what findings and results tell of.
    mutants.py KILN FOLDER [--only TEXT] [--sample N] [--libraries triton,cub,cutlass,samples] [--options "..."]
Kernels of Triton, CUB and CuTe run from launch files, as in run.py; `samples` are the whole programs of
tests/driver/samples under `kiln emulate --mutate -- PROGRAM`. Needs what run.py needs. What became of each mutant goes to
FOLDER/mutants/*.json; a program whose file is there is not run again.
"""

import argparse
import collections
import json
import pathlib
import shlex
import subprocess

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "driver" / "samples"
# The first is none by nature; of the others the runs take minutes.
LEFT_OUT = {"device_query", "driver_api", "virtual_memory", "thrust_sort", "print_and_assert", "clocks"}


def kernels(library, folder, only):
    for name, target, launches, out, _, _ in __import__(f"{library}_programs").programs(folder, only):
        file = folder / (out.stem + ".json")
        file.write_text(json.dumps(launches, indent=1))
        yield f"{name} {target}", [str(file)]


def samples(folder, only):
    for source in sorted(SAMPLES.glob("*.cu")):
        if source.stem in LEFT_OUT or only not in source.stem:
            continue
        program = folder / source.stem
        if not program.exists():
            subprocess.run(["nvcc", "-w", "-std=c++17", "-lineinfo", "-gencode=arch=compute_90,code=compute_90", "-o", program,
                            source], check=True)
        yield source.stem, ["--gpu", "H100", "--", str(program)]


def mutate(kiln, results, name, arguments, options):
    file = results / (name.replace(" ", "_").replace(",", "") + ".json")
    if not file.exists():
        at = arguments.index("--") if "--" in arguments else len(arguments)
        command = [kiln, "emulate", *arguments[:at], "--mutate", "--all-mutants", "--json", *options, *arguments[at:]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            print(f"{name}: {(done.stdout + done.stderr).strip().splitlines()[-1]}", flush=True)
            return []
        file.write_text(done.stdout)
    return json.loads(file.read_text())["list"]


def row(name, mutants):
    killed = [m for m in mutants if m["killed_by"]]
    equivalent = sum(bool(m["equivalent"]) for m in mutants)
    living = [m for m in mutants if not m["killed_by"] and not m["equivalent"]]
    unreached = sum(not m["reached"] for m in living)
    by = collections.Counter(m["killed_by"].split(" (")[0] for m in killed).most_common(3)
    return [name, len(mutants), len(killed), equivalent, len(living) - unreached, unreached,
            ", ".join(f"{kind} {count}" for kind, count in by)]


def table(title, groups):
    print(f"\n| {title} | mutants | killed | equivalent | survive | not reached | mostly by |\n| --- |" + " --- |" * 6)
    for name, mutants in groups:
        print("| " + " | ".join(str(cell) for cell in row(name, mutants)) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", default="12", help="at most so many of each kind and program")
    parser.add_argument("--libraries", default="triton,cub,cutlass,samples")
    parser.add_argument("--options", default="", help="of kiln emulate")
    given = parser.parse_args()
    folder = given.folder.resolve()
    results = folder / "mutants"
    results.mkdir(parents=True, exist_ok=True)
    programs, all_of = [], []
    for library in given.libraries.split(","):
        found = samples(folder, given.only) if library == "samples" else kernels(library, folder, given.only)
        for name, arguments in found:
            options = ["--kinds", "all", "--sample", given.sample, *shlex.split(given.options)]
            mutants = mutate(given.kiln, results, name, arguments, options)
            print("; ".join(str(cell) for cell in row(name, mutants)), flush=True)
            programs.append((name, mutants))
            all_of += mutants
    table("program", programs)
    kinds = collections.defaultdict(list)
    for m in all_of:
        kinds[m["kind"]].append(m)
    table("kind", sorted(kinds.items()) + [("all", all_of)])


main()
