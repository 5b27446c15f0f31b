#!/bin/sh
# Builds the recorder with the host's compiler and records the suite: record.sh OUTPUT_FOLDER [FAMILY].
# Needs g++ (C++20), cuda.h of a CUDA toolkit (CUDA_HOME, default /usr/local/cuda) and a GPU of compute capability 9.0.
set -eu
out=$(cd "${1:?usage: record.sh OUTPUT_FOLDER [FAMILY]}" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
for source in bench/conformance/record.cpp tests/emulator/conformance/*.cpp emulator/tensor/tensor_map.cpp emulator/tensor/tma.cpp \
  emulator/tensor/numeric.cpp emulator/tensor/numeric_arithmetic.cpp; do
  [ "$source" = tests/emulator/conformance/conformance.cpp ] && continue
  g++ -std=c++20 -O1 -I"$root" -I"${CUDA_HOME:-/usr/local/cuda}/include" -c "$source" -o "$work/$(basename "$source").o" &
done
wait
g++ "$work"/*.o -ldl -o "$work/record"
"$work/record" "$out/h200.bin" ${2+"$2"}
ls -l "$out/h200.bin"
