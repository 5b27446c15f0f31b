#!/bin/sh
# What `kiln emulate -- PROGRAM` gives Triton in place of ptxas (TRITON_PTXAS_PATH): the emulated device runs PTX, so
# the PTX itself is handed on where machine code would be. Triton keeps what it compiles by the version below, apart
# from what a real ptxas makes.
output= input=
for argument; do
  case $argument in
    --version) echo "kiln: PTX for the emulated device, as of Cuda compilation tools, release 12.9, V12.9.0"; exit 0 ;;
  esac
done
while [ $# -gt 0 ]; do
  case $1 in
    -o | --output-file) output=$2; shift ;;
    *.ptx) input=$1 ;;
  esac
  shift
done
if [ -z "$input" ] || [ -z "$output" ]; then
  echo "ptxas of kiln: needs FILE.ptx and -o FILE" >&2
  exit 1
fi
exec cp -- "$input" "$output"
