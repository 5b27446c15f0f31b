#!/usr/bin/env bash
# All suites under the sanitizers: address with undefined behaviour, and threads. Hours of processor time.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/sanitize.sh [address|threads] [SUITE...] [--help]

Builds the preset `sanitize` or `threads` (both, without an argument) and runs its suites, all or those named (runtime, cache,
...). One line a suite; exits 1 when one failed. The small shard of both that every run of the tests includes is
`ctest -R '^sanitized_'`.
TEXT
}
kinds=(address threads)
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  address | threads) kinds=("$1"); shift ;;
esac
failed=0
for kind in "${kinds[@]}"; do
  preset=$kind
  if [ "$kind" = address ]; then preset=sanitize; fi
  cmake --preset "$preset" >/dev/null
  suites=("$@")
  if [ $# = 0 ]; then
    for folder in tests/*/; do
      if compgen -G "$folder*.cpp" >/dev/null && [ "$folder" != tests/fuzz/ ]; then suites+=("$(basename "$folder")"); fi
    done
  fi
  cmake --build "build-$preset" --parallel "$(nproc)" --target kiln "${suites[@]/#/kiln_test_}"
  export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp" ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
  for suite in "${suites[@]}"; do
    start=$SECONDS
    log=build-$preset/$suite.log
    if "build-$preset/tests/kiln_test_$suite" >"$log" 2>&1; then
      echo "ok      $kind $suite ($((SECONDS - start)) s)"
    else
      failed=1
      echo "FAILED  $kind $suite ($((SECONDS - start)) s), $log:"
      grep -aE 'ERROR|WARNING: Thread|runtime error|SUMMARY' "$log" | head -n 20 || true
    fi
  done
done
exit $failed
