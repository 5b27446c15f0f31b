#!/usr/bin/env bash
# Every C++ file of the repository is as clang-format would have it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --help ]; then echo "usage: scripts/check_format.sh   lists files that clang-format would change"; exit 0; fi
git ls-files -z '*.cpp' '*.hpp' 'include/*.h' | xargs -0 clang-format --dry-run -Werror
