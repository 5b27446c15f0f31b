#!/usr/bin/env python3
"""Prints compile time against tile width as the table that bench/RESULTS.md has: CPU seconds of a cold `kiln compile` of
sm_90a prefill. Needs NVRTC, no GPU. usage: bench/compile_times.py [KILN]
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

COLUMNS = {"depth 64": {"depth": 64, "BM": 128}, "depth 128": {"depth": 128},
           "depth 128, window": {"depth": 128, "mask": {"sliding_window": 1024}}}


def cpu_seconds(kiln, config, folder):
    """The smaller of two runs, each with an empty cache."""
    times = []
    for turn in range(2):
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([kiln, "compile", json.dumps(config), "--emit", "cubin", "--out", os.path.join(folder, "kernel.cubin")],
                           check=True, capture_output=True, env=dict(os.environ, KILN_CACHE_DIR=cache))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv:
        sys.exit(__doc__.strip())
    kiln = sys.argv[1] if len(sys.argv) == 2 else str(pathlib.Path(__file__).resolve().parent.parent / "build/kiln")
    print(f"| keys a tile | {' | '.join(COLUMNS)} |\n|{' --- |' * (1 + len(COLUMNS))}")
    with tempfile.TemporaryDirectory() as folder:
        for bn in (16, 32, 64, 96, 128, 160):
            row = [cpu_seconds(kiln, {"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "BN": bn, **keys}, folder)
                   for keys in COLUMNS.values()]
            print(f"| {bn} | {' | '.join(f'{seconds:.2f}' for seconds in row)} |", flush=True)


if __name__ == "__main__":
    main()
