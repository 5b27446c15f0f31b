#!/usr/bin/env bash
# clang-tidy over the sources that changed, or with --all over everything.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() {
  cat <<'TEXT'
usage: scripts/check_tidy.sh [--all]

Looks at the .cpp files that differ from KILN_TIDY_BASE: by default where this branch left the main branch, on the main
branch itself the commit before. --all looks at every source, which takes an hour.
TEXT
}
all=0
case "${1:-}" in
  "") ;;
  --all) all=1 ;;
  -h | --help) usage; exit 0 ;;
  *) echo "check_tidy.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
esac

sources() {
  local patterns=('cli/*.cpp' 'generator/*.cpp' 'code_object/*.cpp' 'runtime/*.cpp' 'parallel/*.cpp' 'workbench/*.cpp' 'emulator/*.cpp'
                  'driver/*.cpp' 'python/native/*.cpp')
  if [ "$all" = 1 ]; then git ls-files "${patterns[@]}"; return; fi
  local base=${KILN_TIDY_BASE:-}
  if [ -z "$base" ]; then base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true); fi
  if [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --verify -q HEAD~1 || true)
  fi
  if [ -z "$base" ]; then return; fi  # a clone of one commit has nothing to compare with
  git diff --name-only --diff-filter=d "$base" -- "${patterns[@]}"
}

mapfile -t files < <(sources)
echo "clang-tidy: ${#files[@]} files"
if [ "${#files[@]}" = 0 ]; then exit 0; fi
# Each source by itself, and without g++'s precompiled headers, which clang cannot read. Structures of CUDA's interface have
# unnamed types in unnamed unions.
cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DKILN_UNITY=OFF -DKILN_PRECOMPILE=OFF -DKILN_BUILD_TESTS=OFF \
  -DKILN_BUILD_BENCH=OFF >/dev/null
# Not those that this machine does not build (the Python package without its headers).
built() {
  for file in "${files[@]}"; do
    if grep -qF "\"file\": \"$PWD/$file\"" build/tidy/compile_commands.json; then echo "$file"; fi
  done
}
built | xargs -P 2 -I{} bash -c \
  'clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-nested-anon-types "{}" 2>/dev/null || { echo "clang-tidy: {}"; exit 1; }'
