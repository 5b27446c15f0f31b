#!/usr/bin/env bash
# Installs what kiln needs to build and to compile kernels: Debian packages by name, and NVRTC where no CUDA toolkit is present.
# Does nothing (and needs no network) when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--tests] [--help]

Installs, only where missing:
  - the Debian/Ubuntu packages that the build needs (apt-get, as root or through sudo)
  - NVRTC 13: taken from an installed CUDA toolkit, else the nvidia-cuda-nvrtc wheel in a local .venv/
  - what the Python package is built and tested with, in .venv/: nanobind, scikit-build-core, NumPy, and pdoc for its
    reference; kiln builds without them
  - what the pages of the manual are built with, in .venv/: mkdocs-material; the manual is readable without it
  - where the distribution has them, the compilers for AMD targets: clang 22 with lld (gfx90a, gfx942, gfx950) and
    HIPRTC 5.2 (gfx90a)
  - with --tests, as scripts/test.sh calls it: Chromium, in which the pages of `kiln inspect --html` are opened
Safe to run again; offline once done.
TEXT
}
tests=0
case "${1:-}" in
  "") ;;
  --tests) tests=1 ;;
  -h | --help) usage; exit 0 ;;
  *) echo "setup.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
esac

packages=(g++ cmake ninja-build nlohmann-json3-dev libfmt-dev libcli11-dev doctest-dev
  libxxhash-dev libzstd-dev libdlpack-dev locales)
# Used when there, never required: a failure to install these is only said.
extras=(ccache python3-dev clang-format clang-tidy clang-22 lld-22 libamdhip64-5 libhiprtc-builtins5)
if [ "$tests" = 1 ]; then extras+=(chromium); fi

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing_of() {
  local name
  for name in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then echo "$name"; fi
  done
}

install_packages() {
  local required wanted
  required=$(missing_of "${packages[@]}")
  wanted=$(missing_of "${extras[@]}")
  if [ -z "$required$wanted" ]; then return; fi
  if ! command -v apt-get >/dev/null; then
    if [ -z "$required" ]; then return; fi
    echo "setup.sh: not a Debian system; install the equivalents of:" $required >&2
    exit 3
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    if [ -z "$required" ]; then return; fi
    echo "setup.sh: run as root once (no sudo here) to install:" $required >&2
    exit 3
  fi
  echo "installing:" $required $wanted
  as_root apt-get update -qq || true
  if [ -n "$required" ]; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $required >/dev/null || {
      echo "setup.sh: apt-get could not install:" $required >&2
      exit 3
    }
  fi
  # One by one: a distribution may lack some of them.
  local name
  for name in $wanted; do
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$name" >/dev/null 2>&1 ||
      echo "setup.sh: optional package was not installed: $name" >&2
  done
}

# A file that kiln would open, or nothing. The wheel counts only when its builtins library came along.
find_nvrtc() {
  local dir file
  if [ -n "${KILN_NVRTC:-}" ] && [ -e "$KILN_NVRTC" ]; then echo "$KILN_NVRTC"; return; fi
  file=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnvrtc\.so\.1[23] .*=> //p' | head -n 1)
  if [ -n "$file" ]; then echo "$file"; return; fi
  for dir in "${CUDA_HOME:-/nowhere}/lib64" "${CUDA_PATH:-/nowhere}/lib64" /usr/local/cuda/lib64 \
    .venv/lib/python3*/site-packages/nvidia/*/lib; do
    for file in "$dir"/libnvrtc.so.1[23]; do
      if [ -e "$file" ] && compgen -G "$dir/libnvrtc-builtins.so*" >/dev/null; then echo "$file"; return; fi
    done
  done
}

make_venv() {
  if [ -x .venv/bin/pip ]; then return; fi
  rm -rf .venv
  if ! python3 -m venv .venv 2>/dev/null; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    rm -rf .venv
    python3 -m venv .venv
  fi
}

# What the Python package is built with; kiln builds without it.
install_python_tools() {
  if [ -x .venv/bin/python ] && .venv/bin/python -c 'import nanobind, numpy, pdoc, scikit_build_core' 2>/dev/null; then return; fi
  make_venv || return 0
  echo "installing nanobind, scikit-build-core, NumPy and pdoc into .venv"
  .venv/bin/pip install -q --disable-pip-version-check nanobind 'scikit-build-core>=1.0' numpy pdoc ||
    echo "setup.sh: could not install all of them; without nanobind the Python package is not built" >&2
}

# What the pages of the manual are built with.
install_manual_tools() {
  if [ ! -x .venv/bin/python ] || .venv/bin/python -c 'import material, mkdocs' 2>/dev/null; then return; fi
  echo "installing mkdocs-material into .venv"
  .venv/bin/python -m pip install -q --disable-pip-version-check --retries 1 'mkdocs-material>=9.5,<10' ||
    echo "setup.sh: could not install it; the pages of the manual are not built" >&2
}

install_nvrtc() {
  if [ -n "$(find_nvrtc)" ]; then return; fi
  if [ "$(uname -m)" != x86_64 ] && [ "$(uname -m)" != aarch64 ]; then return; fi
  echo "installing NVRTC into .venv"
  make_venv
  # 13.0: what the golden results were made with, and old enough for every driver of CUDA 13.
  .venv/bin/pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc>=13.0,<13.1' || {
    echo "setup.sh: could not install nvidia-cuda-nvrtc; kiln will build, but cannot compile kernels" >&2
    return
  }
}

# NVIDIA's disassembler, for the SASS of `kiln inspect --html`, where CUDA brought none.
install_nvdisasm() {
  if command -v nvdisasm >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvdisasm" ] || [ ! -x .venv/bin/pip ] ||
    compgen -G '.venv/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm' >/dev/null; then return; fi
  if [ "$(uname -m)" != x86_64 ] && [ "$(uname -m)" != aarch64 ]; then return; fi
  echo "installing nvdisasm into .venv"
  .venv/bin/pip install -q --disable-pip-version-check --retries 1 'nvidia-cuda-nvdisasm>=13.0,<14' ||
    echo "setup.sh: could not install it; pages of kiln inspect show PTX without SASS" >&2
}

install_packages
install_nvrtc
install_python_tools
install_manual_tools
install_nvdisasm
nvrtc=$(find_nvrtc)
clang=$(command -v "${KILN_CLANG:-clang-22}" || true)
echo "set-up complete; NVRTC: ${nvrtc:-none (generate, plan and validate work without it)};" \
  "clang for AMD targets: ${clang:-none (see kiln doctor)}"
