"""Whole applications under `kiln emulate -- PROGRAM`: CUTLASS's device-wide products, CUB's and Thrust's algorithms as
nvcc builds them, Numba and CuPy, and CUTLASS's examples for sm_100. Each checks its own results. rows() runs them for run.py under the three policies of
completion. Needs nvcc, and the PyPI packages nvidia-cutlass, numba-cuda and cupy-cuda13x; no GPU."""

import importlib.util
import pathlib
import re
import subprocess
import sys

SOURCES = pathlib.Path(__file__).parent / "applications"


def cutlass_source():
    found = importlib.util.find_spec("cutlass_library")
    if found is None:
        raise SystemExit("nvidia-cutlass is not installed: pip install nvidia-cutlass")
    return pathlib.Path(found.origin).parent / "source"


def cutlass_options():
    source = cutlass_source()
    return ["--expt-relaxed-constexpr", f"-I{source / 'include'}", f"-I{source / 'tools' / 'util' / 'include'}",
            "-L/usr/local/cuda/lib64/stubs", "-lcuda"]


# name, file, GPU, its architecture, what a finding of the unchanged program is ("" for none; docs/emulator.md says why)
PROGRAMS = [("CUTLASS products of Ampere", "cutlass_sm80.cu", "A100", "80", "global-race"),
            ("CUTLASS products of Hopper", "cutlass_sm90.cu", "H100", "90a", ""),
            ("CUB algorithms", "cub_algorithms.cu", "H100", "90", ""),
            ("Thrust algorithms", "thrust_algorithms.cu", "H100", "90", "uninitialized-read"),
            ("Numba", "numba_kernels.py", "H100", "", ""),
            ("CuPy", "cupy_kernels.py", "H100", "", "")]

# CUTLASS's own examples for sm_100 as they are: file, arguments, what says that results are right, under how many of the
# three policies they have to be, and their findings, which docs/blackwell-emulated.md explains.
TUTORIAL, TUTORIAL_RIGHT = "examples/cute/tutorial/blackwell/", "Execution is successful."
EXAMPLES = [(TUTORIAL + "01_mma_sm100.cu", "", TUTORIAL_RIGHT, 3, {"missing-proxy-fence"}),
            (TUTORIAL + "03_mma_tma_multicast_sm100.cu", "", TUTORIAL_RIGHT, 3, {"missing-mbarrier-fence"}),
            (TUTORIAL + "04_mma_tma_2sm_sm100.cu", "", TUTORIAL_RIGHT, 1, {"missing-mbarrier-fence", "missed-phase"}),
            (TUTORIAL + "05_mma_tma_epi_sm100.cu", "", TUTORIAL_RIGHT, 1, {"missing-mbarrier-fence", "missed-phase"}),
            ("examples/70_blackwell_gemm/70_blackwell_fp16_gemm.cu", "--m=512 --n=256 --k=128 --iterations=0", "Passed", 3,
             {"invalid-mbarrier", "async-memory"}),
            ("examples/72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm.cu", "--m=512 --n=512 --k=256 --iterations=0",
             "Passed", 3, {"invalid-mbarrier", "async-memory"}),
            ("examples/83_blackwell_sparse_gemm/83_blackwell_sparse_gemm.cu", "--m=256 --n=256 --k=256 --iterations=0", "Passed", 3,
             {"bad-metadata", "async-memory", "invalid-mbarrier"}),
            ("examples/77_blackwell_fmha/77_blackwell_fmha.cu", "--b=1 --h=2 --q=256 --k=256 --d=128 --mask=causal --iterations=1 --verify",
             "[OK]", 1, {"missed-phase", "tmem-race", "tmem-alloc", "global-race"})]


def runs(kiln, gpu, program):
    """Finished runs of the program under each policy."""
    for policy in ("eager", "lazy", "random"):
        yield subprocess.run([kiln, "emulate", "--gpu", gpu, "--policy", policy, "--seed", "1", "--", *program], capture_output=True,
                             text=True)


def example_rows(kiln, folder, only=""):
    """Yields rows as rows() does, of CUTLASS's examples on a B200."""
    source = cutlass_source()
    for file, arguments, says, least, expected in EXAMPLES:
        name = pathlib.Path(file).stem
        if only not in f"{name} B200":
            continue
        program, kinds, right = folder / name, set(), 0
        subprocess.run(["nvcc", "-w", "-std=c++17", "-O1", "-gencode=arch=compute_100a,code=compute_100a", "-o", program, source / file,
                        f"-I{source / 'examples/common'}", f"-I{(source / file).parent}", *cutlass_options()], check=True)
        for done in runs(kiln, "B200", [program, *arguments.split()]):
            right += says in done.stdout
            kinds |= set(re.findall(r"^([a-z]+-[a-z-]+)(?: \(undefined\))?: ", done.stderr, re.M))
        yield [name, "B200", f"{right} of 3", ", ".join(sorted(kinds)) or "none", ""], right >= least and kinds <= expected


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
        for done in runs(kiln, gpu, program):
            parts = len(re.findall(r"^\w+: right$", done.stdout, re.M))
            right = right and parts > 0 and "WRONG" not in done.stdout and done.returncode in (0, 1)
            kinds |= set(re.findall(r"^(?:\[\w+\] )?([a-z]+-[a-z-]+): ", done.stderr, re.M))
        found = ", ".join(sorted(kinds)) or "none"
        yield [f"{name} ({parts})", gpu, "yes" if right else "NO", found, ""], right and kinds <= {expected}
