#!/usr/bin/env bash
# Set-up, build, the test suites, static checks. Non-zero on any failure; the last line counts.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--all] [--long] [--torch] [--no-tidy] [--tidy-all] [--help]

  --all       what CI runs: also the cases of suites that repeat others with more configs, every shipped config up the
              ladder, the config sweeps, random configs, the registers of kernels and the wheel; and the suites (but for
              serving) compile each kernel to machine code, whose spills they check
  --long      as --all, serving too, the config sweeps over every combination, instead of the subset that fits CI
  --torch     the Python suites over PyTorch as well, on CPU tensors; installs PyTorch in build-torch/ (4 GB)
  --no-tidy   leave out clang-tidy, the slowest of the static checks
  --tidy-all  clang-tidy over every source instead of those that changed; takes an hour

Runs set-up, builds into build/, then the suites (without --all those that a change needs at once), then the static
checks: layering, lengths of functions, words, format, clang-tidy. On a terminal it shows how far the suites are.
TEXT
}
long=OFF
all=0
torch=0
tidy=1
tidy_options=()
for argument in "$@"; do
  case "$argument" in
    --all) all=1 ;;
    --long) long=ON all=1 ;;
    --torch) torch=1 ;;
    --no-tidy) tidy=0 ;;
    --tidy-all) tidy_options=(--all) ;;
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

scripts/setup.sh --tests
scripts/build.sh --help >/dev/null
cmake --preset release -DKILN_LONG_SWEEPS=$long >/dev/null
scripts/build.sh

echo "running the test suites"
results=build/ctest.xml
status=0
# The suites are parallel inside (emulated blocks run on all cores), so two at a time are enough.
progress=()
if [ -t 1 ]; then progress=(--progress); fi
select=()
if [ "$all" = 0 ]; then
  select=(-LE breadth)
  export KILN_TEST_PTX_ONLY=1
fi
ctest --test-dir build "${select[@]}" --output-on-failure --output-junit ctest.xml -j 2 "${progress[@]}" || status=$?
if [ -f "$results" ]; then
  tests=$(grep -c '<testcase ' "$results" || true)
  bad=$(grep -c '<failure' "$results" || true)
  passed=$((passed + tests - bad))
  failed=$((failed + bad))
fi
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi

if [ "$torch" = 1 ]; then check "torch" scripts/test_torch.sh; fi
check "layers" python3 scripts/check_layers.py
check "functions" python3 scripts/check_functions.py
check "words" python3 scripts/check_words.py
python=.venv/bin/python
if [ ! -x "$python" ]; then python=python3; fi
if "$python" -c 'import material, mkdocs' 2>/dev/null; then
  check "manual" scripts/build_manual.sh
else
  echo "skipped manual: no mkdocs-material (scripts/setup.sh installs it where there is a network)"
fi
check "charts" python3 scripts/make_charts.py --check
if command -v clang-format >/dev/null; then check "format" scripts/check_format.sh; else echo "skipped format: no clang-format"; fi
if [ "$tidy" = 1 ] && command -v clang-tidy >/dev/null; then
  check "tidy" scripts/check_tidy.sh "${tidy_options[@]}"
else
  echo "skipped tidy"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
