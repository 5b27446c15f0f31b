"""Runs programs that other projects' compilers and libraries make on the emulated device, compares with NumPy, and
counts the removed synchronisations that are noticed.
    run.py KILN FOLDER [--only TEXT] [--mutate] [--libraries triton,cub,cutlass,applications,blackwell]
Needs numpy; triton for the first, nvcc with its CUB for the second, and the headers of the PyPI package
nvidia-cutlass for the third; the applications need all of that, numba-cuda and cupy-cuda13x; blackwell needs the headers alone.
scripts/outside_programs.sh makes an environment that has them.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

import applications


def emulate(kiln, file, *options):
    done = subprocess.run([kiln, "emulate", file, "--json", *options], capture_output=True, text=True)
    try:
        return json.loads(done.stdout), ""
    except json.JSONDecodeError:
        return None, (done.stdout + done.stderr).strip().splitlines()[-1]


def error_of(got, want):
    got, want = got.astype(np.float64).ravel(), np.asarray(want, np.float64).ravel()
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-300)


def run(kiln, folder, name, target, launches, out, want, bound, mutate):
    """One row of the table."""
    file = folder / (out.stem + ".json")
    file.write_text(json.dumps(launches, indent=1))
    kinds, right = set(), True
    for policy in ("eager", "lazy", "random"):
        out.unlink(missing_ok=True)
        report, failure = emulate(kiln, file, "--policy", policy, "--seed", "1")
        if report is None:
            return [name, target, "refused", failure, ""]
        for launch in report.get("launches", [report]):
            kinds |= {f["kind"] for f in launch["findings"] if f["severity"] != "note"}
        right = right and out.exists() and error_of(np.load(out), want) <= bound
    killed = ""
    if mutate and right and not kinds:
        report, failure = emulate(kiln, file, "--mutate")
        killed = failure if report is None else "{killed} of {mutants}, {survivors} survive, {unreached} of them not reached".format(**report)
    return [name, target, "yes" if right else "NO", ", ".join(sorted(kinds)) or "none", killed]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiln")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--mutate", action="store_true")
    parser.add_argument("--libraries", default="triton,cub,cutlass,applications,blackwell")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows, good = [], True
    print("| program | target | right | findings | mutants killed |\n| --- | --- | --- | --- | --- |")
    for library in given.libraries.split(","):
        whole = {"applications": applications.rows, "blackwell": applications.example_rows}
        if library in whole:
            for row, fine in whole[library](given.kiln, folder, given.only):
                rows.append(row)
                good = good and fine
                print("| " + " | ".join(row) + " |", flush=True)
            continue
        module = __import__(f"{library}_programs")
        for program in module.programs(folder, given.only):
            rows.append(run(given.kiln, folder, *program, given.mutate))
            good = good and rows[-1][2:4] == ["yes", "none"]
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    sys.exit(0 if good and rows else 1)


main()
