#!/usr/bin/env bash
# The fuzzers with address and undefined-behaviour sanitizers, packed so that they run on another x86-64 Linux machine.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/fuzz.sh [--out DIR] [--nvrtc] [--jobs N] [--dependencies DIR] [--run RESULTS MINUTES] [--help]

  --out DIR           where the pack goes (default: build-fuzz-carry)
  --nvrtc             put this machine's NVRTC into it: `run` and `c_api` compile kernels (some 40 MB more, compressed)
  --jobs N            compile so many files at a time (default: all cores)
  --dependencies DIR  build with the headers and archives of `scripts/sanitize.sh --pack`, unpacked in DIR
  --run RESULTS MIN   make no pack: run the fuzzers here, on all cores, for MIN minutes, with results in RESULTS

Builds every fuzzer and the random expressions (preset fuzz: clang with its runtime, or g++ where there is none) and makes DIR:
fuzz.tar.xz and run.sh, which runs them there: nothing but glibc and xz is needed; where NVRTC is found, configs run and sequences of
C calls launch, too.

  DIR/run.sh OUT MINUTES [--wait]     every fuzzer in the background, on all cores; OUT/results.txt has a line for each as it ends
  DIR/run.sh --summary OUT [TO]       a line for each, at any time; with TO what crashed as TO/fuzz-found.tar.gz
TEXT
}
die() { echo "fuzz.sh: $1" >&2; exit 2; }
out=build-fuzz-carry nvrtc=0 jobs=$(nproc) dependencies="" run=()
while [ $# -gt 0 ]; do
  case "$1" in
    --out | --jobs | --dependencies) [ $# -gt 1 ] || die "$1 wants a value"; printf -v "${1#--}" %s "$2"; shift ;;
    --nvrtc) nvrtc=1 ;;
    --run) [ $# -gt 2 ] || die "--run wants a folder and minutes"; run=("$2" "$3"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift
done

options=(-DKILN_BUILD_PYTHON=OFF)
command -v clang++-22 >/dev/null || options+=(-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++)
if [ -n "$dependencies" ]; then options+=(-DCMAKE_PREFIX_PATH="$(cd "$dependencies" && pwd)/usr"); fi
cmake --preset fuzz "${options[@]}" >/dev/null
cmake --build build-fuzz --parallel "$jobs" --target kiln_fuzzers kiln_test_expressions
rm -rf "$out"
mkdir -p "$out/pack/corpus" "$out/pack/lib"
for program in build-fuzz/tests/kiln_*_fuzz; do
  name=$(basename "$program" _fuzz)
  strip --strip-debug -o "$out/pack/${name#kiln_}" "$program"
  cp -r "tests/fuzz/corpus/${name#kiln_}" "$out/pack/corpus/"
done
strip --strip-debug -o "$out/pack/expressions" build-fuzz/tests/kiln_test_expressions
cp tests/fuzz/*.dict "$out/pack/"
# For a machine with an older C++ runtime, or none. g++'s sanitizers are libraries, too.
ldd "$out/pack/expressions" | awk '$1 ~ /^lib(stdc\+\+|gcc_s|asan|ubsan)\./ { print $3 }' | xargs -I{} cp -L {} "$out/pack/lib/"
if [ "$nvrtc" = 1 ]; then
  library=$(ldconfig -p | sed -n 's/.*libnvrtc\.so\.1[23] .*=> //p' | head -n 1)
  [ -n "$library" ] || library=$(ls .venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[23] | head -n 1)
  cp -L "$library" "$(dirname "$library")"/libnvrtc-builtins.so.*.* "$out/pack/"
fi
cp tests/fuzz/run_pack.sh "$out/pack/run.sh"
if [ ${#run[@]} -gt 0 ]; then exec "$out/pack/run.sh" "${run[@]}" --wait; fi
tar -C "$out" -c pack | xz -6 -T0 >"$out/fuzz.tar.xz"
rm -rf "$out/pack"
cat >"$out/run.sh" <<'TEXT'
#!/usr/bin/env bash
# Unpacks the fuzzers once, into $TMPDIR, and runs them: run.sh OUT MINUTES [--wait], run.sh --summary OUT [TO].
set -e
place=${TMPDIR:-/tmp}/kiln-fuzz
if [ ! -e "$place/unpacked" ]; then mkdir -p "$place" && tar -C "$place" -xJf "$(dirname "$0")/fuzz.tar.xz" && touch "$place/unpacked"; fi
exec "$place/pack/run.sh" "$@"
TEXT
chmod +x "$out/run.sh"
du -h "$out"/*
