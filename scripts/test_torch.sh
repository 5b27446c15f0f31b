#!/usr/bin/env bash
# The Python suites over PyTorch and the blocks of the manual that need it: CPU tensors on the emulated device, against build/python.
#   scripts/test_torch.sh [FOLDER]     FOLDER: of the environment, build-torch by default; PyTorch and transformers come from PyPI
# $KILN_TORCH_PYTHON: an interpreter that has PyTorch and NumPy, of the version that build/python was built for; nothing is installed then.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --help ]; then sed -n '2,4s/^# //p' "$0"; exit 0; fi
folder=$(realpath -m "${1:-build-torch}")
python=${KILN_TORCH_PYTHON:-$folder/bin/python}
if [ -z "${KILN_TORCH_PYTHON:-}" ] && ! "$python" -c 'import numpy, torch, transformers' 2>/dev/null; then
  echo "installing PyTorch and transformers into $folder"
  .venv/bin/python -m venv "$folder"
  "$python" -m pip install -q --disable-pip-version-check torch transformers numpy
fi
status=0
PYTHONPATH=build/python "$python" -B -m unittest discover -v -s python/tests 2>&1 | tee build/torch_suites.log || status=$?
if grep -q "no PyTorch" build/torch_suites.log; then
  echo "test_torch.sh: $python cannot import torch" >&2
  exit 3
fi
echo "blocks of the manual that need PyTorch:"
python3 scripts/check_docs.py --torch "$(command -v "$python")" || status=1
exit "$status"
