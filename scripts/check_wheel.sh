#!/usr/bin/env bash
# Builds the wheel and uses it in a fresh virtual environment with nothing but NumPy, without a network.
#   scripts/check_wheel.sh [FOLDER]     FOLDER: for the build and the environment, build-wheel by default
# $KILN_PYTHON: an interpreter with nanobind, scikit-build-core and NumPy (.venv/bin/python). Ends with status 77 without them.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --help ]; then sed -n '2,4s/^# //p' "$0"; exit 0; fi
folder=$(realpath -m "${1:-build-wheel}")
python=${KILN_PYTHON:-.venv/bin/python}
if ! "$python" -c 'import nanobind, numpy, scikit_build_core' 2>/dev/null; then
  echo "check_wheel.sh: $python lacks nanobind, scikit-build-core or NumPy (scripts/setup.sh)" >&2
  exit 77
fi
export CC=${CC:-cc} CXX=${CXX:-c++}  # as CMake calls them by itself, so that ccache has the objects
rm -rf "$folder/dist" "$folder/env"
"$python" -m pip wheel . -q --disable-pip-version-check --no-build-isolation --no-deps --no-index -w "$folder/dist" \
  --config-settings=build-dir="$folder"
wheel=$(echo "$folder"/dist/kiln-*.whl)
echo "wheel    $(basename "$wheel"), $(du -h "$wheel" | cut -f1)"

"$python" -m venv "$folder/env"
# The NumPy and the NVRTC of the interpreter that builds, and nothing else of it.
site=$("$folder/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
numpy=$("$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')
for part in "$numpy"{,.libs} "$(dirname "$numpy")/nvidia"; do
  if [ -e "$part" ]; then ln -s "$part" "$site/"; fi
done
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-index "$wheel"
cd "$folder/env"  # nothing of the checkout is in sight
export PYTHONDONTWRITEBYTECODE=1 KILN_DEVICE=emulated KILN_CACHE_DIR="$folder/env/cache"
bin/python -m kiln list | grep llama3_8b_prefill_sm90a >/dev/null
bin/kiln plan llama3_8b_prefill_sm90a >/dev/null
bin/python -c 'import kiln, importlib.resources as r; assert (r.files("kiln") / "py.typed").is_file(); print("version ", kiln.__version__)'
# Without a kernel compiler, too.
KILN_NVRTC=/nowhere/libnvrtc.so.13 bin/python -m kiln.demo
bin/python -m kiln.demo
# NVRTC's wheel beside it, where the system has no NVRTC.
if [ -e "$site/nvidia" ]; then
  cd /
  "$folder/env/bin/python" -c 'import kiln; kiln.Runtime("emulated").load({"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64})'
fi
