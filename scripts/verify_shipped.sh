#!/usr/bin/env bash
# Takes every shipped config up the verification ladder (rules, layouts, real compiler without spills or serialised wgmma,
# emulated runs under every completion policy). Prints the ones that fail. Needs NVRTC.
set -euo pipefail
if [ "${1:-}" = --help ] || [ $# -ne 1 ]; then echo "usage: scripts/verify_shipped.sh KILN"; exit 0; fi
kiln=$1
KILN_CACHE_DIR=$(mktemp -d)
export KILN_CACHE_DIR
trap 'rm -rf "$KILN_CACHE_DIR"' EXIT
"$kiln" list | awk 'NR > 1 { print $1 }' | xargs -P 2 -I{} bash -c \
  'out=$("$0" verify {} --quick --random-runs 1 2>&1) && echo "ok {}" || { echo "FAILED {}"; echo "$out"; exit 1; }' "$kiln"
