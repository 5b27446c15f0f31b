"""Speed of the emulated device on the programs of programs.py: one core, findings on. Checks each result.
    measure.py KILN FOLDER [NAME...]
"""

import json
import pathlib
import resource
import subprocess
import sys

import numpy as np


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(kiln, file, findings):
    before = cpu_seconds()
    done = subprocess.run([kiln, "emulate", file, "--threads", "1", "--json", "--findings", findings],
                          capture_output=True, text=True)
    seconds = cpu_seconds() - before
    if done.returncode != 0:
        sys.exit(f"{file}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return seconds, json.loads(done.stdout)


def as_numbers(values):
    return (values.astype(np.uint32) << 16).view(np.float32) if values.dtype == np.uint16 else values.astype(np.float64)


def check(folder, facts):
    got = as_numbers(np.load(folder / facts["out"]).ravel())
    wanted = as_numbers(np.load(folder / facts["expected"]).ravel())
    error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
    if not error <= (4e-3 if facts["flops"] else 0):
        sys.exit(f"{facts['out']}: relative error {error:.2g}")


def main():
    kiln, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    print(f"{'program':<16}{'findings':>9}{'CPU s':>9}{'M warp instructions/s':>23}{'GFLOP/s':>9}")
    for file in sorted(folder.glob("*.facts")):
        if names and file.stem not in names:
            continue
        facts = json.loads(file.read_text())
        for findings in ("on", "off"):
            best, report = min((run(kiln, file.with_suffix(".json"), findings) for _ in range(2)), key=lambda r: r[0])
            check(folder, facts)
            instructions = sum(launch["instructions"] for launch in report.get("launches", [report]))
            print(f"{file.stem:<16}{findings:>9}{best:>9.2f}{instructions / best / 1e6:>23.2f}"
                  f"{facts['flops'] / best / 1e9:>9.2f}", flush=True)


main()
