#!/usr/bin/env bash
# Builds the manual as pages into build/manual/site: docs/ and the reference, which is made from help texts, headers and
# docstrings. Dead links are errors. Needs mkdocs-material (scripts/setup.sh installs it where it can) and build/kiln.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) echo "usage: scripts/build_manual.sh   pages of the manual into build/manual/site"; exit 0 ;;
esac
python=.venv/bin/python
if [ ! -x "$python" ]; then python=python3; fi
if ! "$python" -c 'import material, mkdocs' 2>/dev/null; then
  echo "build_manual.sh: no mkdocs here (scripts/setup.sh installs it when there is a network): the pages are not built"
  exit 0
fi
rm -rf build/manual
mkdir -p build/manual
cp -r docs build/manual/docs
KILN_CACHE_DIR=$PWD/build/docs-cache python3 scripts/make_reference.py build/kiln build/manual/docs/reference
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --quiet
echo "$(find build/manual/site -name '*.html' | wc -l) pages in build/manual/site; their search wants a server:" \
  "python3 -m http.server --directory build/manual/site"
