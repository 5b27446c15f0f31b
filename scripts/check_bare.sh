#!/usr/bin/env bash
# The README's two commands on a minimal system: debootstrap, chroot, clone, demo.sh and test.sh, as root and as a user with
# sudo, with network and then again without.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/check_bare.sh [--suite NAME] [--mirror URL] [--users LIST] [--short] [--ccache] [--dir DIR] [--keep] [--help]

  --suite NAME   release to try: a Debian or Ubuntu code name (default: this machine's)
  --mirror URL   where its packages are (default: $KILN_BARE_MIRROR, else what this machine's apt uses for the suite)
  --users LIST   root, sudo or root,sudo (default): who runs the commands; each gets a system of its own
  --short        demo.sh and the test `package` in place of the whole suite
  --ccache       start with a copy of this machine's compiler cache: minutes in place of an hour on the same release
  --dir DIR      where the systems are made (default: a new folder in $TMPDIR; some 3 GB a user)
  --keep         leave them there

Needs root, debootstrap, git and unshare. The commit that is checked out is tried, not uncommitted changes. The settings of
apt, pip and proxies are this machine's. Prints one line a command; exits 1 when one failed.
TEXT
}
die() { echo "check_bare.sh: $1" >&2; exit "${2:-2}"; }

suite="" mirror=${KILN_BARE_MIRROR:-} users=root,sudo short=0 warm=0 dir="" keep=0
arguments=("$@")
while [ $# -gt 0 ]; do
  case "$1" in
    --suite | --mirror | --users | --dir)
      [ $# -gt 1 ] || die "$1 wants a value; see --help"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --short) short=1 ;;
    --ccache) warm=1 ;;
    --keep) keep=1 ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift
done
[[ ",$users," =~ ^(,root|,sudo)+,$ ]] || die "--users is '$users'; root, sudo or root,sudo is wanted"
[ "$(id -u)" = 0 ] || die "root is needed" 3
needed=(debootstrap git unshare)
[ "$warm" = 0 ] || needed+=(ccache)
for program in "${needed[@]}"; do
  command -v "$program" >/dev/null || die "$program is needed; install it" 3
done
# Mounts of its own, which go with the process.
if [ "${KILN_BARE_MOUNTS:-}" != own ]; then
  KILN_BARE_MOUNTS=own exec unshare --mount --propagation private "$PWD/scripts/check_bare.sh" "${arguments[@]}"
fi

[ -n "$suite" ] || suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
# "TRUSTED URL RELEASE COMPONENT" of every source of this machine.
targets() { apt-get indextargets --format '$(TRUSTED) $(REPO_URI) $(RELEASE) $(COMPONENT)' 2>/dev/null | sort -u; }
sources() { # lines of a sources.list for the suite
  if [ -n "$mirror" ]; then
    local parts=main
    [ -e "/usr/share/debootstrap/scripts/$suite" ] && grep -q ubuntu "$(readlink -f "/usr/share/debootstrap/scripts/$suite")" && parts="main universe"
    [ "${mirror#*ubuntu}" = "$mirror" ] || parts="main universe"
    echo "deb [trusted=yes] $mirror $suite $parts"
  fi
  targets | while read -r trusted url release part; do
    case "$release" in "$suite" | "$suite"-*) ;; *) continue ;; esac
    [ -z "$mirror" ] || [ "$release" != "$suite" ] || continue
    [ "$trusted" = yes ] && echo "deb [trusted=yes] $url $release $part" || echo "deb $url $release $part"
  done
}
list=$(sources)
[ -n "$list" ] || die "this machine's apt has no source for $suite; give --mirror" 3
[ -n "$mirror" ] || mirror=$(targets | awk -v suite="$suite" '$3 == suite { print $2; exit }')
[ -n "$mirror" ] || die "this machine's apt has no source for $suite itself; give --mirror" 3

if [ -z "$dir" ]; then dir=$(mktemp -d "${TMPDIR:-/tmp}/kiln-bare-XXXXXX"); else mkdir -p "$dir"; fi
finish() {
  # Only below the folder that was made, and only when nothing is mounted there any more.
  for mounted in $(awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r); do umount -l "$mounted"; done
  if [ "$keep" = 0 ]; then rm -rf --one-file-system "$dir"; else echo "kept in $dir"; fi
}
trap finish EXIT

echo "making a minimal $suite"
script=()
[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=(/usr/share/debootstrap/scripts/"$([ "${mirror#*ubuntu}" = "$mirror" ] && echo sid || echo gutsy)")
debootstrap --variant=minbase --no-check-gpg "$suite" "$dir/base" "$mirror" "${script[@]}" >"$dir/debootstrap.log" 2>&1 ||
  { tail -n 20 "$dir/debootstrap.log" >&2; die "debootstrap failed" 3; }
rm -f "$dir"/base/etc/apt/sources.list.d/*
echo "$list" >"$dir/base/etc/apt/sources.list"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/apt/apt.conf; do
  if [ -e "$file" ]; then cp -L "$file" "$dir/base$file"; fi
done
# Proxies and certificates of this machine, not its packages.
if grep -rls '^ *Acquire::' /etc/apt/apt.conf.d >/dev/null 2>&1; then
  grep -rh '^ *Acquire::' /etc/apt/apt.conf.d >"$dir/base/etc/apt/apt.conf.d/90machine" || true
fi
# Under a name of its own: the package ca-certificates writes the usual file anew.
certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
mkdir -p "$dir/base/etc/ssl"
if [ -e "$certificates" ]; then cp -L "$certificates" "$dir/base/etc/ssl/machine.crt"; fi
git bundle create -q "$dir/kiln.bundle" HEAD
environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
while IFS= read -r setting; do environment+=("$setting"); done < <(env | grep -iE '^(PIP_[A-Z_]+|https?_proxy|no_proxy)=' || true)
if [ -e "$certificates" ]; then environment+=(PIP_CERT=/etc/ssl/machine.crt); fi

failed=0
# attempt NAME COMMAND...: runs, keeps the output, prints one line.
attempt() {
  local name=$1 start=$SECONDS log
  shift
  log="$dir/$(echo "$name" | tr ' /' '--').log"
  if "$@" >"$log" 2>&1 </dev/null; then
    echo "ok      $name ($((SECONDS - start)) s): $(tail -n 1 "$log")"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s)"
    tail -n 60 "$log"
  fi
}

# copy_ccache HOME: objects of this machine's cache are found there, as paths count from HOME and the compiler is the same.
copy_ccache() {
  mkdir -p "$1/.cache" "$1/.config/ccache"
  cp -r "$(ccache --get-config cache_dir)" "$1/.cache/ccache"
  printf 'base_dir = %s\nhash_dir = false\n' "${1#"$root"}" >"$1/.config/ccache/ccache.conf"
  chown -R --reference="$1" "$1/.cache" "$1/.config"
}

try_user() {
  local user=$1 root=$dir/$1 home=/root as=() network isolate
  cp -a "$dir/base" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  # Wheels that pip's settings name as a folder of this machine.
  local place
  for place in $(env | sed -n 's/^PIP_FIND_LINKS=//p'); do
    if [ -d "$place" ] && [ ! -e "$root$place" ]; then
      mkdir -p "$root$place"
      mount --bind "$place" "$root$place"
    fi
  done
  cp "$dir/kiln.bundle" "$root/kiln.bundle"
  inside() { env -i "${environment[@]}" HOME=$home "$@"; }
  local tools=git
  [ "$user" = root ] || tools="git sudo"
  # What the contract presumes: git; and sudo, for those who are not root.
  attempt "$suite $user: apt-get install $tools" inside chroot "$root" sh -c \
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $tools"
  if [ "$user" = sudo ]; then
    chroot "$root" useradd -m -s /bin/bash builder
    echo 'builder ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/builder"
    echo 'Defaults env_keep += "http_proxy https_proxy no_proxy"' >>"$root/etc/sudoers.d/builder"
    home=/home/builder
    as=(--userspec=builder:builder)
  fi
  inside chroot "${as[@]}" "$root" git -c advice.detachedHead=false clone -q /kiln.bundle $home/kiln
  [ "$warm" = 0 ] || copy_ccache "$root$home"
  local second='scripts/test.sh'
  # What cmake --install and the test need, and the test.
  [ "$short" = 0 ] || second='scripts/setup.sh && cmake --preset release >/dev/null && scripts/build.sh --help >/dev/null &&
    cmake --build build --target kiln kiln_shared && ctest --test-dir build -R "^package$" --output-on-failure'
  for network in with without; do
    isolate=()
    [ "$network" = with ] || isolate=(unshare --net)
    attempt "$suite $user: demo.sh $network network" inside "${isolate[@]}" chroot "${as[@]}" "$root" \
      sh -c "cd $home/kiln && scripts/demo.sh"
    attempt "$suite $user: test.sh $network network" inside "${isolate[@]}" chroot "${as[@]}" "$root" \
      bash -c "cd $home/kiln && $second"
  done
}

for user in ${users//,/ }; do try_user "$user"; done
[ "$failed" = 0 ]
