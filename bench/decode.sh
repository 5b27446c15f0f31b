#!/usr/bin/env bash
# One round of decode on a machine with a GPU: check every shipped decode config and the append and chunked-prefill ones,
# replay a trace, share a prefix, then time beside torch's cuDNN over contiguous keys and a pure read of the same bytes.
#
#   bench/decode.sh BUILD OUT [TRACE.jsonl]
#
# BUILD is the build folder, OUT takes logs, decode.md (table) and decode.svg. Needs NVRTC, nvcc, a driver, and python3
# with torch for the timing. KILN_CASES chooses cases (BATCHxKEYSxHEADS_QxHEADS_KV,...), KILN_ONLY configs.
set -uo pipefail
if [ $# -lt 2 ] || [ "$1" = --help ]; then sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0; fi
cd "$(dirname "$0")/.."
kiln=$(realpath "$1")/kiln replay=$(realpath "$1")/examples/kiln_replay_trace shared=$(realpath "$1")/examples/kiln_shared_prefix out=$2 trace=${3:-}
mkdir -p "$out"
export KILN_CACHE_DIR=${KILN_CACHE_DIR:-$(mktemp -d)}
failed=0
configs=$("$kiln" list | awk 'NR > 1 { print $1 }' | grep -E '^([a-z0-9_]*_decode|decode_|append_|prefill.*(paged|continuous)).*_sm(80|90a)$' | grep -E "${KILN_ONLY:-.}")

for config in $configs; do
  if timeout 120 "$kiln" run "$config" --device cuda --heads-q 32 --heads-kv 8 --lengths-q 1,1,2,1,16,1 \
    --lengths-k 1,0,63,64,20000,4097 --check >"$out/$config.log" 2>&1; then
    echo "ok      $config  $(grep -oE 'relative error [0-9.e-]+' "$out/$config.log")"
  else
    echo "FAILED  $config"; tail -n 3 "$out/$config.log"; failed=$((failed + 1))
  fi
done | tee "$out/checks.txt"
failed=$(grep -c FAILED "$out/checks.txt")

if [ -n "$trace" ]; then
  "$replay" "$trace" --requests "${KILN_REQUESTS:-200}" --batch 64 --max-output 64 --steps 300 | tee "$out/replay.txt" || failed=$((failed + 1))
fi

for own in 4096 1024 256; do
  "$shared" --batch 64 --prefix 8192 --own "$own"
done | tee "$out/shared_prefix.txt"
[ "$(grep -c passed "$out/shared_prefix.txt")" = 3 ] || failed=$((failed + 1))

# Kernels for sm_80 go as PTX, which the driver compiles for the device.
kernels=$(mktemp -d)
# Bit masks, FP8 queries, sinks and latent caches are checked above; the timing poses none of them.
for config in $(grep -vE 'prefill|append|_custom_|_fp8q_|mla|gpt_oss|llama4' <<<"$configs"); do
  form=cubin
  case $config in *_sm80) form=ptx ;; esac
  "$kiln" generate "$config" --out "$kernels" >/dev/null &&
    "$kiln" compile "$config" --emit "$form" --out "$kernels/$config.cubin" >/dev/null || failed=$((failed + 1))
done
nvcc -arch=sm_90a -cubin -o "$kernels/read.cubin" bench/device/read.cu || failed=$((failed + 1))
python3 -u bench/device/decode.py "$kernels" --no-check --reps "${KILN_REPS:-3}" ${KILN_CASES:+--cases "$KILN_CASES"} ${trace:+--ragged "$trace"} |
  tee "$out/decode.txt" || failed=$((failed + 1))
python3 bench/device/decode_chart.py "$out/decode.txt" "$out/decode.md" "$out/decode.svg"
[ "$failed" = 0 ]
