#!/usr/bin/env bash
# One full round on a machine with a GPU: check every shipped config, run a real trace, then time beside torch's cuDNN.
#
#   bench/device.sh KILN OUT [TRACE] [--no-check]
#
# KILN is the built command in its build folder, OUT a folder for logs, TRACE a request trace (CSV or JSON lines; one with hash ids
# is replayed through the paged cache, too). Needs NVRTC and a driver; the timing parts need python3 with torch. Set KILN_ONLY to a
# regular expression to take fewer configs, KILN_CASES to choose decode cases.
set -uo pipefail
cd "$(dirname "$0")/.."
kiln=$(realpath "$1") out=$2 trace="" check=1
for argument in "${@:3}"; do
  if [ "$argument" = --no-check ]; then check=0; else trace=$argument; fi
done
replayed=""
case $trace in *.jsonl) replayed=$trace ;; esac
mkdir -p "$out"
export KILN_CACHE_DIR=${KILN_CACHE_DIR:-$(mktemp -d)}
failed=0
configs=$("$kiln" list --json | python3 -c 'import json, sys; print("\n".join(c["name"] for c in json.load(sys.stdin)))' |
  grep -E '_sm(80|90a)$' | grep -E "${KILN_ONLY:-.}")

check_config() {
  local config=$1 bn operation lengths queries shape
  read -r bn operation < <("$KILN" plan "$config" --json | python3 -c 'import json, sys; r = json.load(sys.stdin)["resolved"]; print(r["BN"], r["operation"])')
  lengths=1,$((bn - 1)),$bn,$((bn + 1)),$((3 * bn + 7))
  if [ "$operation" = decode ]; then
    queries=1,2,3,1,5 shape="--batch 5 --heads-q 32 --heads-kv 8 --seqlen-q 1 --seqlen-k 8200"
    if "$KILN" plan "$config" --json | grep -q '"kind": *"contiguous"'; then queries=1,1,1,1,1; fi
  else
    queries=$lengths shape="--batch 2 --heads-q 16 --heads-kv 16 --seqlen-q 8192 --seqlen-k 8192"
  fi
  if timeout 120 "$KILN" run "$config" --device cuda --heads-q 8 --heads-kv 2 --lengths-q "$queries" --lengths-k "$lengths" --check >"$LOGS/$config.lengths" 2>&1 &&
    timeout 120 "$KILN" run "$config" --device cuda $shape --check >"$LOGS/$config.long" 2>&1; then
    echo "ok      $config  $(grep -h '^check' "$LOGS/$config.lengths" "$LOGS/$config.long" | grep -oE 'relative error [0-9.e-]+' | tr '\n' ' ')"
  else
    echo "FAILED  $config"; tail -n 3 "$LOGS/$config.lengths" "$LOGS/$config.long" 2>/dev/null
  fi
}
if [ "$check" = 1 ]; then
  export -f check_config
  KILN=$kiln LOGS=$(mktemp -d) xargs -P 6 -I{} bash -c 'check_config {}' <<<"$configs" | tee "$out/checks.txt"
  failed=$((failed + $(grep -c FAILED "$out/checks.txt")))
  echo "$(grep -c '^ok' "$out/checks.txt") shipped configs passed, $(grep -c FAILED "$out/checks.txt") failed"
  if [ -n "$trace" ]; then
    "$kiln" run llama3_8b_prefill_sm90a --device cuda --heads-q 32 --heads-kv 8 --trace "$trace" --requests 32 --max-length 8192 --check |
      tee "$out/trace.txt" || failed=$((failed + 1))
  fi
fi

kernels=$(mktemp -d)
for config in $(grep -E '^prefill_bf16_d(64|128|256)_(causal_)?sm90a$' <<<"$configs"); do
  "$kiln" generate "$config" --out "$kernels" >/dev/null && "$kiln" compile "$config" --emit cubin --out "$kernels/$config.cubin" >/dev/null ||
    failed=$((failed + 1))
done
python3 -u bench/device/peers.py "$kernels" --reps "${KILN_REPS:-5}" | tee "$out/peers.txt" || failed=$((failed + 1))

bash bench/decode.sh "$(dirname "$kiln")" "$out/decode" "$replayed" || failed=$((failed + 1))
[ "$failed" = 0 ]
