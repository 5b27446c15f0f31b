#!/usr/bin/env bash
# Compares the machine code of two builds of kiln: NVRTC's cubins and clang's AMD code objects, section by section
# (instructions, constants, kernel descriptors; not debug information). Prints the configs that differ; status 1 when
# one does. A kernel whose source is the same, comments apart, is not compiled.
#   scripts/compare_machine_code.sh OLD_KILN NEW_KILN [CONFIG...]     default: all shipped configs
# KILN_COMPARE_CACHE names a cache folder to keep between runs. Needs NVRTC and a clang that knows AMD GPUs.
set -euo pipefail
if [ "${1:-}" = --help ] || [ $# -lt 2 ]; then sed -n '2,6s/^# //p' "$0"; exit 0; fi
old=$1 new=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KILN_CACHE_DIR=${KILN_COMPARE_CACHE:-$work/cache}
if [ $# = 0 ]; then set -- "$root"/configs/{sm_,gfx}*/*.json; fi

cat >"$work/sections.py" <<'PY'
"""Prints a digest of every section of an ELF file that a device reads."""
import hashlib, struct, sys
data = open(sys.argv[1], "rb").read()
table, size, count, names = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HHH", data, 58)
headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
for name, kind, flags, address, offset, length, *_ in headers:
    start = headers[names][4] + name
    section = data[start:data.index(b"\0", start)].decode()
    if not section.startswith((".text", ".rodata", ".nv.constant", ".nv.shared", ".nv.global")): continue
    content = b"" if kind == 8 else data[offset:offset + length]
    print(section, length, hashlib.sha256(content).hexdigest())
PY

# bare FILE: the source without comments, blank lines and indentation.
bare() { sed -E 's,[[:space:]]*//.*$,,; s/^[[:space:]]+//; /^$/d' "$1" 2>/dev/null || echo "no source"; }

differ=0 same_text=0 same_code=0
for config in "$@"; do
  name=$(basename "$config" .json)
  for side in old new; do
    mkdir -p "$work/$name/$side"
    "${!side}" generate "$config" --out "$work/$name/$side" >"$work/$name/$side.log" 2>&1 || true
  done
  source=$(cd "$work/$name/old" && ls | grep -E '\.(cu|hip)$' || true)
  if [ -z "$source" ]; then
    if [ -n "$(ls "$work/$name/new")" ]; then echo "$config: only the new build plans it"; differ=$((differ + 1)); fi
    continue
  fi
  if cmp -s <(bare "$work/$name/old/$source") <(bare "$work/$name/new/$source"); then
    same_text=$((same_text + 1))
    rm -rf "${work:?}/$name"
    continue
  fi
  kind=cubin
  case "$source" in *.hip) kind=hsaco ;; esac
  for side in old new; do
    if "${!side}" compile "$config" --emit $kind --out "$work/$name/$side.bin" >"$work/$name/$side.log" 2>&1; then
      python3 "$work/sections.py" "$work/$name/$side.bin" >"$work/$name/$side.txt"
    else
      cp "$work/$name/$side.log" "$work/$name/$side.txt"
    fi
  done
  if cmp -s "$work/$name/old.txt" "$work/$name/new.txt"; then
    same_code=$((same_code + 1))
  else
    differ=$((differ + 1))
    facts() { grep -oE '[0-9]+ registers, [0-9]+ bytes spilled' "$work/$name/$1.log" || tail -n 1 "$work/$name/$1.log"; }
    size() { awk '$1 ~ /^\.text/ { bytes += $2 } END { print bytes + 0 }' "$work/$name/$1.txt"; }
    echo "$config differs: $(size old) bytes of code ($(facts old)) -> $(size new) ($(facts new))"
  fi
  rm -rf "${work:?}/$name"
done
echo "$# configs: $same_text of the same source, $same_code of other source and the same machine code, $differ differ"
[ "$differ" = 0 ]
