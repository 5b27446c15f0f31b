"""Whole applications under `kiln emulate -- PROGRAM`: CUTLASS's device-wide products, CUB's and Thrust's algorithms as
nvcc builds them, Numba and CuPy. Each checks its own results. rows() runs them for run.py under the three policies of
completion. Needs nvcc, and the PyPI packages nvidia-cutlass, numba-cuda and cupy-cuda13x; no GPU."""

import importlib.util
import pathlib
import re
import subprocess
import sys

SOURCES = pathlib.Path(__file__).parent / "applications"


def cutlass_options():
    found = importlib.util.find_spec("cutlass_library")
    if found is None:
        raise SystemExit("nvidia-cutlass is not installed: pip install nvidia-cutlass")
    source = pathlib.Path(found.origin).parent / "source"
    return ["--expt-relaxed-constexpr", f"-I{source / 'include'}", f"-I{source / 'tools' / 'util' / 'include'}",
            "-L/usr/local/cuda/lib64/stubs", "-lcuda"]


# name, file, GPU, its architecture, what a finding of the unchanged program is ("" for none; docs/emulator.md says why)
PROGRAMS = [("CUTLASS products of Ampere", "cutlass_sm80.cu", "A100", "80", "global-race"),
            ("CUTLASS products of Hopper", "cutlass_sm90.cu", "H100", "90a", ""),
            ("CUB algorithms", "cub_algorithms.cu", "H100", "90", ""),
            ("Thrust algorithms", "thrust_algorithms.cu", "H100", "90", "uninitialized-read"),
            ("Numba", "numba_kernels.py", "H100", "", ""),
            ("CuPy", "cupy_kernels.py", "H100", "", "")]


def command(folder, file, arch):
    if file.endswith(".py"):
        return [sys.executable, "-W", "ignore", str(SOURCES / file)]
    program = folder / file.removesuffix(".cu")
    more = cutlass_options() if file.startswith("cutlass") else []
    subprocess.run(["nvcc", "-w", "-std=c++20", "-lineinfo", f"-gencode=arch=compute_{arch},code=compute_{arch}", "-o", program,
                    SOURCES / file, *more], check=True)
    return [str(program)]


def rows(kiln, folder, only=""):
    """Yields (row of the table, whether it is as it should be)."""
    for name, file, gpu, arch, expected in PROGRAMS:
        if only not in f"{name} {gpu}":
            continue
        program, kinds, right, parts = command(folder, file, arch), set(), True, 0
        for policy in ("eager", "lazy", "random"):
            done = subprocess.run([kiln, "emulate", "--gpu", gpu, "--policy", policy, "--seed", "1", "--", *program],
                                  capture_output=True, text=True)
            parts = len(re.findall(r"^\w+: right$", done.stdout, re.M))
            right = right and parts > 0 and "WRONG" not in done.stdout and done.returncode in (0, 1)
            kinds |= set(re.findall(r"^(?:\[\w+\] )?([a-z]+-[a-z-]+): ", done.stderr, re.M))
        found = ", ".join(sorted(kinds)) or "none"
        yield [f"{name} ({parts})", gpu, "yes" if right else "NO", found, ""], right and kinds <= {expected}
