#!/usr/bin/env bash
# Mutation testing of shipped configs: every synchronisation of each compiled kernel removed or weakened in turn, on the
# emulated device. Prints survivors; status 1 when there is one. About half a minute of CPU a config. Needs NVRTC.
#   scripts/mutate_shipped.sh KILN [CONFIG...]     default: all shipped configs
set -euo pipefail
if [ "${1:-}" = --help ] || [ $# -lt 1 ]; then sed -n '2,4s/^# //p' "$0"; exit 0; fi
kiln=$1
shift
KILN_CACHE_DIR=$(mktemp -d)
export KILN_CACHE_DIR
trap 'rm -rf "$KILN_CACHE_DIR"' EXIT
if [ $# = 0 ]; then mapfile -t configs < <("$kiln" list | awk 'NR > 1 { print $1 }'); else configs=("$@"); fi
failed=0
for config in "${configs[@]}"; do
  if out=$("$kiln" verify "$config" --mutate 2>&1); then status=ok; else status=FAILED; failed=1; fi
  echo "$status $config: $(grep -E 'killed in' <<<"$out" | sed 's/^mutants  //')"
  [ "$status" = ok ] || grep -E 'survives|finding|kiln:' <<<"$out" | cut -c1-220
done
exit $failed
