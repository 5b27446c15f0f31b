#!/usr/bin/env bash
# clang-tidy over the files changed against the main branch, then over the others in a fixed order until the time is used up.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --help ]; then
  echo "usage: scripts/check_tidy.sh [SECONDS]   needs build/compile_commands.json; default 300 seconds"
  exit 0
fi
limit=${1:-300}
changed=$( (git diff --name-only HEAD -- '*.cpp'; git show --name-only --format= HEAD -- '*.cpp') 2>/dev/null | sort -u)
others=$(git ls-files 'generator/*.cpp' 'runtime/*.cpp' 'emulator/*.cpp' 'cli/*.cpp')
bad=0
seen=" "
for file in $changed $others; do
  case "$seen" in *" $file "*) continue ;; esac
  seen="$seen$file "
  if [ ! -f "$file" ] || ! grep -qF "/$file\"" build/compile_commands.json; then continue; fi
  if [ "$SECONDS" -ge "$limit" ]; then echo "time is used up; the rest was not looked at"; break; fi
  clang-tidy --quiet -p build --extra-arg=-Wno-unknown-warning-option "$file" 2>/dev/null || { echo "clang-tidy: $file"; bad=1; }
done
exit $bad
