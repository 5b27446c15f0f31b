#!/usr/bin/env bash
# run.sh OUT MINUTES [--wait]: starts every fuzzer of the pack in the background, for so long, on all cores but two (one process
# each where there are fewer), and returns; with --wait at the end of all. OUT/results.txt has a line for each process as it ends. At
# any time `run.sh --summary OUT [TO]` prints a line for each and writes OUT/KIND.summary; with TO also TO/fuzz-summary.txt and
# TO/fuzz-found.tar.gz (inputs that crashed, ends of logs). Exits 1 when one found anything.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 2
usage() { sed -n '2,5s/^# //p' "$0"; exit 2; }

kinds() { for kind in "$here"/corpus/*/; do basename "$kind"; done; }
# The last line of a log that counts executions, and what was found.
count_of() {
  case "$2" in
    expressions*) grep -aoE '[0-9]+ expressions, [0-9]+ values' "$1/$2.log" | tail -n 1 ;;
    *) grep -aE '^#[0-9]+' "$1/$2.log" | tail -n 1 | sed -E 's/^#([0-9]+)[: ].*/\1 executions/' ;;
  esac
}
summary() {
  local out=$1 found=0 log kind state inputs
  for log in "$out"/*.log; do
    [ -e "$log" ] || { echo "nothing ran in $out"; return 2; }
    kind=$(basename "$log" .log)
    state=running
    if [ -e "$out/$kind.status" ]; then state="ended $(cat "$out/$kind.status")"; fi
    inputs=$(find "$out" -maxdepth 1 -regextype egrep -regex ".*/${kind%%[0-9]*}-(crash|timeout|oom|leak)-.*" | sort | tr '\n' ' ')
    case "$kind" in expressions*) grep -qa 'ERROR:' "$log" && inputs+="see $log" ;; esac
    [ -z "$inputs" ] || found=1
    echo "$kind: $(count_of "$out" "$kind"), $state, found: ${inputs:-nothing}" | tee "$out/$kind.summary"
  done
  return $found
}
if [ "${1:-}" = --summary ]; then
  [ $# -ge 2 ] || usage
  text=$(summary "$2")
  code=$?
  echo "$text"
  if [ -n "${3:-}" ]; then
    mkdir -p "$3" || exit 2
    echo "$text" >"$3/fuzz-summary.txt"
    for log in "$2"/*.log; do tail -c 20000 "$log" >"$log.end"; done
    (cd "$2" && find . -maxdepth 1 \( -name '*-crash-*' -o -name '*-timeout-*' -o -name '*-oom-*' -o -name '*-leak-*' -o -name '*.log.end' \) \
      -print0 | tar --null -czf "$3/fuzz-found.tar.gz" -T -)
  fi
  exit $code
fi

[ $# -ge 2 ] && [ "$2" -gt 0 ] 2>/dev/null || usage
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd) minutes=$2
# The C++ runtime of the pack where this machine has none, or an older one.
"$here/settings" -help=1 >/dev/null 2>&1
if [ $? -ge 126 ]; then export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
# NVRTC, without which `run`, `c_api` and `expressions` do nothing.
if [ -z "${KILN_NVRTC:-}" ]; then
  for library in "$here"/libnvrtc.so.1[23] $(ldconfig -p 2>/dev/null | sed -n 's/.*libnvrtc\.so\.1[23] .*=> //p') \
    /usr/local/cuda*/lib*/libnvrtc.so.1[23] /usr/local/cuda*/targets/*/lib/libnvrtc.so.1[23] \
    $(python3 -c 'import glob, sys; print(*[f for p in sys.path if p for f in glob.glob(p + "/nvidia/*/lib/libnvrtc.so.1[23]")])' 2>/dev/null); do
    if [ -e "$library" ]; then export KILN_NVRTC=$library; break; fi
  done
fi
echo "NVRTC: ${KILN_NVRTC:-none}" | tee "$out/environment.txt"
export KILN_CACHE_DIR=$out/cache UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=8192
# Runtimes of g++ 12 and 13 know no machine with as many random bits in addresses as newer kernels use.
same_addresses=""
if setarch -R true 2>/dev/null; then same_addresses="setarch -R"; fi
# start NAME COMMAND...: in a session of its own, with its log, its status and its line.
start() {
  local name=$1
  shift
  rm -f "$out/$name.status"
  setsid $same_addresses bash -c 'out=$1 name=$2; shift 2; "$@" >"$out/$name.log" 2>&1 </dev/null; code=$?; echo $code >"$out/$name.status"
    echo "$name: ended $code, $(grep -aE "^#[0-9]+|expressions, [0-9]+ values" "$out/$name.log" | tail -n 1)" >>"$out/results.txt"' \
    start "$out" "$name" "$@" &
}
# weight_of KIND: how many times as many processes: those that run whole kernels.
weight_of() { case "$1" in run | c_api | ptx | amd_assembly | launch_file) echo 2 ;; *) echo 1 ;; esac; }
all=($(kinds))
weights=1  # of expressions
for kind in "${all[@]}"; do weights=$((weights + $(weight_of "$kind"))); done
share=$((($(nproc) - 2) / weights))
if [ "$share" -lt 1 ]; then share=1; fi
# libFuzzer's programs start their own processes; of the others so many are started, with one folder of new inputs.
libfuzzer=1
"$here/settings" -help=1 >/dev/null 2>&1 || libfuzzer=0
for kind in "${all[@]}"; do
  jobs=$share
  if [ "$share" -gt 1 ] || [ "$(nproc)" -gt $((${#all[@]} + 8)) ]; then jobs=$((share * $(weight_of "$kind"))); fi
  mkdir -p "$out/work/$kind"
  options=(-ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_total_time=$((minutes * 60)) -max_len=4000 -timeout=120
    -rss_limit_mb=6000 -artifact_prefix="$out/$kind-")
  if [ -e "$here/$kind.dict" ]; then options+=(-dict="$here/$kind.dict"); fi
  if [ "$libfuzzer" = 1 ]; then
    start "$kind" "$here/$kind" -fork="$jobs" "${options[@]}" "$out/work/$kind" "$here/corpus/$kind"
  else
    for ((number = 1; number <= jobs; number++)); do
      start "$kind$number" "$here/$kind" "${options[@]}" "$out/work/$kind" "$here/corpus/$kind"
    done
  fi
done
if [ -x "$here/expressions" ]; then
  for ((number = 1; number <= share; number++)); do
    KILN_FUZZ_MINUTES=$minutes start "expressions$number" "$here/expressions" -tc='random expressions*'
  done
fi
if [ "${3:-}" = --wait ]; then
  wait
  summary "$out"
fi
