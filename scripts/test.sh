#!/usr/bin/env bash
# Set-up, build, static checks, the whole test suite. Non-zero on any failure; the last line counts.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--long] [--no-tidy] [--help]

  --long     the config sweeps over every combination, instead of the subset that fits CI
  --no-tidy  leave out clang-tidy, the slowest of the static checks

Runs set-up, builds into build/, checks layering, format and clang-tidy (a bounded set of files), then ctest.
TEXT
}
long=OFF
tidy=1
for argument in "$@"; do
  case "$argument" in
    --long) long=ON ;;
    --no-tidy) tidy=0 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test.sh: unknown argument '$argument'; see --help" >&2; exit 2 ;;
  esac
done

passed=0
failed=0
# check NAME COMMAND...: runs, prints the output of what fails, and counts.
check() {
  local name=$1 start=$SECONDS log
  shift
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s)"
    tail -n 100 "$log"
  fi
  rm -f "$log"
}

scripts/setup.sh
scripts/build.sh --help >/dev/null
cmake --preset release -DKILN_LONG_SWEEPS=$long >/dev/null
scripts/build.sh

check "layers" python3 scripts/check_layers.py
if command -v clang-format >/dev/null; then check "format" scripts/check_format.sh; else echo "skipped format: no clang-format"; fi
if [ "$tidy" = 1 ] && command -v clang-tidy >/dev/null; then check "tidy" scripts/check_tidy.sh; else echo "skipped tidy"; fi

echo "running the test suites"
results=build/ctest.xml
status=0
# The suites are parallel inside (emulated blocks run on all cores), so two at a time are enough.
ctest --test-dir build --output-on-failure --output-junit ctest.xml -j 2 || status=$?
if [ -f "$results" ]; then
  tests=$(grep -c '<testcase ' "$results" || true)
  bad=$(grep -c '<failure' "$results" || true)
  passed=$((passed + tests - bad))
  failed=$((failed + bad))
fi
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
