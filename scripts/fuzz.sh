#!/usr/bin/env bash
# The fuzzers with address and undefined-behaviour sanitizers, packed so that they run on another x86-64 Linux machine.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/fuzz.sh [--out DIR] [--nvrtc] [--jobs N] [--help]

  --out DIR   where the pack goes (default: build-fuzz-carry)
  --nvrtc     put this machine's NVRTC into it: `run` and `c_api` compile kernels (some 40 MB more, compressed)
  --jobs N    compile so many files at a time (default: all cores)

Builds every fuzzer (preset fuzz: clang with its runtime) and makes DIR: fuzz.tar.xz, and COMMAND.txt, which says how to run it:
nothing but glibc is needed there. Each fuzzer runs on a share of the cores for the minutes given; exits 1 when one found anything.
TEXT
}
out=build-fuzz-carry nvrtc=0 jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --jobs) [ $# -gt 1 ] || { echo "fuzz.sh: $1 wants a value" >&2; exit 2; }; printf -v "${1#--}" %s "$2"; shift ;;
    --nvrtc) nvrtc=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "fuzz.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

cmake --preset fuzz >/dev/null
cmake --build build-fuzz --parallel "$jobs" --target kiln_fuzzers
rm -rf "$out"
mkdir -p "$out/pack/corpus"
for program in build-fuzz/tests/kiln_*_fuzz; do
  name=$(basename "$program" _fuzz)
  strip --strip-debug -o "$out/pack/${name#kiln_}" "$program"
  cp -r "tests/fuzz/corpus/${name#kiln_}" "$out/pack/corpus/"
done
cp tests/fuzz/*.dict "$out/pack/" 2>/dev/null || true
if [ "$nvrtc" = 1 ]; then
  library=$(ldconfig -p | sed -n 's/.*libnvrtc\.so\.1[23] .*=> //p' | head -n 1)
  [ -n "$library" ] || library=$(ls .venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23] | head -n 1)
  cp -L "$library" "$(dirname "$library")"/libnvrtc-builtins.so.*.* "$out/pack/"
fi
cat >"$out/pack/run.sh" <<'TEXT'
#!/usr/bin/env bash
# run.sh MINUTES [FOLDER]: every fuzzer for so long, all at once, sharing the cores; what crashed goes to FOLDER.
cd "$(dirname "$0")" || exit 2
minutes=${1:-30} found=$(realpath -m "${2:-found}")
export KILN_CACHE_DIR=$PWD/cache ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
for library in libnvrtc.so.1[23]; do if [ -e "$library" ]; then export KILN_NVRTC=$PWD/$library; fi; done
mkdir -p "$found" work
programs=()
for program in *; do if [ -d "corpus/$program" ] && [ -x "$program" ]; then programs+=("$program"); fi; done
share=$((($(nproc) + ${#programs[@]} - 1) / ${#programs[@]}))
for program in "${programs[@]}"; do
  mkdir -p "work/$program"
  dictionary=()
  if [ -e "$program.dict" ]; then dictionary=(-dict="$program.dict"); fi
  "./$program" -fork="$share" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_total_time=$((minutes * 60)) -max_len=4000 \
    -timeout=120 -rss_limit_mb=4096 "${dictionary[@]}" -artifact_prefix="$found/$program-" "work/$program" "corpus/$program" \
    >"$found/$program.log" 2>&1 &
done
wait
for program in "${programs[@]}"; do
  echo "$program: $(grep -a '^#' "$found/$program.log" | tail -n 1)"
done
crashes=$(find "$found" -name '*-crash-*' -o -name '*-timeout-*' -o -name '*-oom-*' -o -name '*-leak-*' | sort)
echo "found: ${crashes:-nothing}"
[ -z "$crashes" ]
TEXT
chmod +x "$out/pack/run.sh"
tar -C "$out" -cJf "$out/fuzz.tar.xz" pack
rm -rf "$out/pack"
cat >"$out/COMMAND.txt" <<TEXT
mkdir -p /tmp/fuzz && tar -C /tmp/fuzz -xJf $out/fuzz.tar.xz && /tmp/fuzz/pack/run.sh MINUTES FOLDER
MINUTES: for each fuzzer, all at once. FOLDER: gets logs and what crashed. The last line says "found: nothing", or names files.
TEXT
du -h "$out"/*
