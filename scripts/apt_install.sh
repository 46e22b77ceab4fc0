#!/usr/bin/env bash
# scripts/apt_install.sh PACKAGE...: installs those Debian or Ubuntu packages that are not there.
#
# One dpkg query for the whole list, so that nothing missing costs nothing. The package lists are
# fetched only when an installation fails with those on the disk.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian or Ubuntu system: make sure that the equivalents of these are installed: $*"
  exit 0
fi

# "ii " is dpkg's word for wanted and installed; a multi-arch package may come once per architecture.
installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null || true)
missing=()
for package in "$@"; do
  grep -qx "ii  $package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "these packages are missing, and without root or sudo they cannot be installed here:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp -t tessera-install-XXXXXX.log)
echo "installing ${missing[*]}  (log: $log)"
# Two attempts: package lists that are stale name files the mirror no longer has.
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1
}
if ! install; then
  echo "fetching the package lists"
  if ! { "${as_root[@]}" apt-get update >>"$log" 2>&1 && install; }; then
    echo "could not install ${missing[*]}; the end of $log:" >&2
    tail -n 15 "$log" >&2
    exit 1
  fi
fi
