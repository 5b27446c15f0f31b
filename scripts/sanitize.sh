#!/usr/bin/env bash
# All suites under the sanitizers: address with undefined behaviour, and threads. Hours of processor time.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/sanitize.sh [address|threads] [SUITE...] [--jobs N] [--minutes M] [--out DIR] [--dependencies DIR] [--help]
       scripts/sanitize.sh --pack FILE

Builds the preset `sanitize` or `threads` (both, without an argument) and runs its suites, all or those named (runtime, serving,
...), each test case in a process of its own. One line a case as it ends, in DIR/results.txt, too; the output of what failed is
DIR/KIND-SUITE-CASE.log. Exits 1 when a case failed. The small shard of both that every run of the tests includes is
`ctest -R '^sanitized_'`.

  --jobs N            compile and run so much at a time (default: all cores)
  --minutes M         end what still runs then; the same command again goes on with the cases that have no line yet
  --out DIR           where results go (default: the build folder)
  --pack FILE         write the libraries' headers and archives of this Debian machine to FILE, a tar.gz of some 600 KB
  --dependencies DIR  build with those, unpacked in DIR: then g++ (12 or later), cmake (3.24) and ninja are all that is needed
TEXT
}
die() { echo "sanitize.sh: $1" >&2; exit 2; }

pack() {
  dpkg -L nlohmann-json3-dev libfmt-dev libfmt9 libcli11-dev doctest-dev libxxhash-dev libzstd-dev libdlpack-dev |
    grep -E '^/usr/(include|lib|share/(cmake|pkgconfig|nlohmann))' | grep -vE 'libzstd\.so|libxxhash\.so' | sort -u |
    while read -r path; do if [ ! -d "$path" ] || [ -L "$path" ]; then echo "${path#/}"; fi; done |
    tar -C / --files-from=- -c | gzip -9 >"$1"
  du -h "$1"
}

kinds=(address threads) suites=() jobs=$(nproc) minutes="" out="" dependencies=""
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --pack) [ $# = 2 ] || die "--pack wants a file"; pack "$2"; exit ;;
    --jobs | --minutes | --out | --dependencies)
      [ $# -gt 1 ] || die "$1 wants a value; see --help"
      printf -v "${1#--}" %s "$2"
      shift ;;
    -*) die "unknown argument '$1'; see --help" ;;
    address | threads) kinds=("$1") ;;
    *) suites+=("$1") ;;
  esac
  shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs is '$jobs'; a number from 1 on is wanted"
[[ $minutes =~ ^([1-9][0-9]*)?$ ]] || die "--minutes is '$minutes'; a number from 1 on is wanted"
if [ ${#suites[@]} = 0 ]; then
  for folder in tests/*/; do
    if compgen -G "$folder*.cpp" >/dev/null && [[ $folder != tests/@(fuzz|sanitized|consumer)/ ]]; then
      suites+=("$(basename "$folder")")
    fi
  done
fi
if [ -n "$dependencies" ]; then dependencies=$(cd "$dependencies" && pwd); fi

# Without random addresses: runtimes of g++ 12 and 13 know no machine with as many random bits as newer kernels use.
same_addresses=""
if setarch -R true 2>/dev/null; then same_addresses="setarch -R"; fi
export same_addresses

build() { # KIND
  local preset=$1 options=(-DKILN_BUILD_PYTHON=OFF -DKILN_BUILD_BENCH=OFF)
  if [ "$1" = address ]; then preset=sanitize; fi
  if [ "$1" = threads ] && ! clang++-22 -fsanitize=thread -x c++ - -o /dev/null <<<'int main() {}' 2>/dev/null; then
    options+=(-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++)
  fi
  if [ -n "$dependencies" ]; then options+=(-DCMAKE_PREFIX_PATH="$dependencies/usr"); fi
  cmake --preset "$preset" "${options[@]}" >"build-$preset-configure.log" 2>&1 || { cat "build-$preset-configure.log" >&2; return 1; }
  rm "build-$preset-configure.log"
  # Some are not built under some sanitizers.
  local known suite
  known=$(cmake --build "build-$preset" --target help)
  for suite in "${!suites[@]}"; do
    grep -q "^kiln_test_${suites[suite]}:" <<<"$known" || { echo "not built with $1: ${suites[suite]}"; unset "suites[suite]"; }
  done
  # The build runs programs that it built.
  $same_addresses cmake --build "build-$preset" --parallel "$jobs" --target "${suites[@]/#/kiln_test_}"
}

# Lines "NUMBER SUITE NAME" of the cases that have no result yet: the first of every suite, then the second of each, so that long
# suites do not come last. NUMBER 0 is a suite whose cases share what they compile.
cases() { # KIND PROGRAMS RESULTS
  local suite number
  for suite in "${suites[@]}"; do
    if [ "$suite" = emulator ]; then echo "0 $suite all"; continue; fi
    $same_addresses "$2/kiln_test_$suite" -ltc | grep -vE '^(\[doctest\]|====)' | awk -v suite="$suite" '{ print NR, suite, $0 }'
  done | sort -n -s -k1,1 | while read -r number suite name; do
    grep -qE "^[A-Za-z]+ +$1 $suite $number " "$3" || echo "$number $suite $name"
  done
}

# One case: its line, and its output where it failed.
run_case() { # KIND PROGRAMS OUT CASE
  local kind=$1 number suite name start=$SECONDS status=0 range=() word="ok    "
  read -r number suite name <<<"$4"
  local log="$3/$kind-$suite-$number.log"
  if [ "$number" != 0 ]; then range=(--first="$number" --last="$number"); fi
  $same_addresses "$2/kiln_test_$suite" "${range[@]}" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    137 | 143) rm -f "$log"; return ;; # ended from outside: no result
    0) rm -f "$log" ;;
    *)
      # doctest ends with a status of its own when it is ended from outside.
      if grep -qa 'SIGTERM - Termination' "$log"; then rm -f "$log"; return; fi
      word=FAILED ;;
  esac
  echo "$word  $kind $suite $number ($((SECONDS - start)) s) $name" | tee -a "$3/results.txt"
  if [ $status != 0 ]; then grep -aE 'ERROR|WARNING: Thread|runtime error|SUMMARY' "$log" | head -n 5 || true; fi
}
export -f run_case

# No GPU takes part: its driver would be what is looked at.
export CUDA_VISIBLE_DEVICES="" TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp history_size=4"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
failed=0
for kind in "${kinds[@]}"; do
  folder=build-$kind
  if [ "$kind" = address ]; then folder=build-sanitize; fi
  results=${out:-$folder}
  limit=()
  mkdir -p "$results"
  if [ -z "$minutes" ]; then rm -f "$results/results.txt"; fi
  touch "$results/results.txt"
  build "$kind" || die "the build failed"
  for suite in "${suites[@]}"; do
    $same_addresses "$folder/tests/kiln_test_$suite" -ltc >/dev/null || die "kiln_test_$suite does not start"
  done
  if [ -n "$minutes" ]; then limit=(timeout --kill-after=10 $((minutes * 60 > SECONDS ? minutes * 60 - SECONDS : 1))); fi
  cases "$kind" "$folder/tests" "$results/results.txt" |
    "${limit[@]}" xargs -r -d '\n' -P "$jobs" -n 1 bash -c 'run_case "$@"' run_case "$kind" "$folder/tests" "$results" || true
  left=$(cases "$kind" "$folder/tests" "$results/results.txt" | wc -l)
  bad=$(grep -c "^FAILED  $kind " "$results/results.txt" || true)
  echo "$kind: $(grep -c "^ok *$kind " "$results/results.txt" || true) cases ok, $bad failed, $left without a result"
  [ "$bad$left" = 00 ] || failed=1
done
exit $failed
