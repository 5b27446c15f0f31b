#!/usr/bin/env bash
# The main job, shown step by step: config -> source -> JIT -> cache -> launch -> checked result.
# A Llama-3-8B-shaped prefill over a batch of requests with lengths of a serving trace.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/demo.sh [TRACE] [--help]

TRACE   lengths to use: a CSV with a ContextTokens column, or JSON lines with input_length.
        Without it, lengths are drawn from the distribution of a conversation trace.

Installs what is missing (scripts/setup.sh), builds into build/, then runs on the GPU when there is one,
else on the emulated device. KILN_DEVICE=emulated or cuda:1 chooses.
TEXT
}
trace=""
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) echo "demo.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  "") ;;
  *) trace=$1; if [ ! -r "$trace" ]; then echo "demo.sh: cannot read '$trace'" >&2; exit 2; fi ;;
esac

step() { printf '\n== %s\n' "$*"; }
# Lengths of COUNT requests cut to MAX: inverse-transform sampling from the 5 % quantiles of context lengths in a public
# conversation trace (measured once; the trace itself is not here), by a fixed linear congruential generator.
draw_lengths() {
  awk -v count="$1" -v max="$2" 'BEGIN {
    n = split("2 181 207 372 387 396 403 414 703 984 1020 1045 1071 1097 1130 1189 1315 1876 2734 4083 14050", q, " ")
    state = 20231116
    for (i = 0; i < count; ++i) {
      state = (state * 16807) % 2147483647
      x = state / 2147483647 * (n - 1); k = int(x)
      length_ = int(q[k + 1] + (x - k) * (q[k + 2] - q[k + 1]))
      if (length_ > max) length_ = max
      printf "%s%d", i ? "," : "", length_
    }
  }'
}

step "1. set-up and build"
scripts/setup.sh
scripts/build.sh kiln_installed  # the command, and what `cmake --install build` needs
kiln=build/kiln

step "2. what is here"
$kiln doctor
device=${KILN_DEVICE:-auto}
config=llama3_8b_prefill_sm90a
if [ "${device%%:*}" = emulated ] || { [ "$device" = auto ] && ! $kiln doctor --json | grep -q '"device": "cuda'; }; then
  device=emulated
  heads=(--heads-q 8 --heads-kv 2)
  requests=8
  max=512
  echo "no GPU used: the emulated device gets 8 query heads over 2 KV heads (the model has 32 over 8), $requests requests,"
  echo "lengths cut to $max tokens; the code that runs is the same"
else
  heads=(--heads-q 32 --heads-kv 8)
  requests=16
  max=8192
  if ! $kiln doctor --json | grep -q '"target": "sm_90a"'; then config=llama3_8b_prefill_sm80; fi
fi

step "3. config -> source"
$kiln generate "$config" --out build/demo

step "4. source -> machine code, through the cache"
$kiln compile "$config"
echo "and once more, from the cache:"
$kiln compile "$config"

step "5. launch and check against a float64 reference"
if [ -n "$trace" ]; then
  echo "lengths: the first $requests requests of $trace, cut to $max"
  lengths=(--trace "$trace" --requests "$requests" --max-length "$max")
else
  list=$(draw_lengths "$requests" "$max")
  echo "lengths, drawn: $list"
  lengths=(--lengths-q "$list" --lengths-k "$list")
fi
$kiln run "$config" --device "$device" "${heads[@]}" "${lengths[@]}" --seed 1 --check

step "6. where things are"
echo "source    build/demo/$config.cu (readable; compiles alone with nvcc)"
echo "manifest  build/demo/$config.json"
printf 'cache     '
$kiln cache stats
