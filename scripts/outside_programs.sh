#!/usr/bin/env bash
# Runs programs of Triton, CUB and CuTe on the emulated device, and whole applications of CUTLASS, CUB, Thrust, Numba and
# CuPy under `kiln emulate --`, and prints a table: right?, findings, mutants killed.
#   scripts/outside_programs.sh KILN FOLDER [options of bench/outside/run.py]
# Installs Triton, NumPy, Numba, CuPy and CUTLASS's headers from PyPI into FOLDER/venv first; CUB and nvcc come with the
# toolkit.
set -euo pipefail
kiln=$(realpath "$1") folder=$(realpath -m "$2")
shift 2
mkdir -p "$folder"
[[ -x $folder/venv/bin/python ]] || python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet triton numpy numba-cuda cupy-cuda13x
"$folder/venv/bin/pip" install --quiet --no-deps nvidia-cutlass
exec "$folder/venv/bin/python" "$(dirname "$0")/../bench/outside/run.py" "$kiln" "$folder/programs" "$@"
