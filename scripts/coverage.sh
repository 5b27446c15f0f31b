#!/usr/bin/env bash
# Line coverage of the test suites: builds with counters into build-coverage/, runs ctest, prints a table by folder.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --help ]; then echo "usage: scripts/coverage.sh   needs gcovr (apt-get install gcovr)"; exit 0; fi
if ! command -v gcovr >/dev/null; then echo "coverage.sh: gcovr is missing: apt-get install gcovr" >&2; exit 3; fi
cmake --preset coverage >/dev/null
cmake --build build-coverage --parallel "$(nproc)"
find build-coverage -name '*.gcda' -delete
status=0
ctest --test-dir build-coverage --output-on-failure || status=$?
gcovr --root . --object-directory build-coverage --filter '(generator|runtime|workbench|emulator|cli)/' \
  --exclude-throw-branches --html-details build-coverage/coverage.html --print-summary
echo "details: build-coverage/coverage.html"
exit $status
