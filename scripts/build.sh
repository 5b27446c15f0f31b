#!/usr/bin/env bash
# Configures and builds into build/. Called by demo.sh and test.sh; useful by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) echo "usage: scripts/build.sh [TARGET...]   configure (once) and build into build/, all targets by default"; exit 0 ;;
esac
# Ninja is what the presets use; a build folder made with another generator is left as it is.
if [ ! -f build/CMakeCache.txt ]; then cmake --preset release >/dev/null; fi
cmake --build build --parallel "$(nproc)" ${1:+--target "$@"}
