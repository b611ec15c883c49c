#!/bin/sh
# Installs what the build, the tests and the packaging need on Debian 12, with `cluster` also what the cluster tests need
# beside the programs of tools/cluster/setup.sh. Works as root or through sudo; does nothing when everything is there.
set -eu

packages="
  ca-certificates ccache clang-16 clang-format-16 clang-tidy-16 cmake curl dpkg-dev g++ libclang-rt-16-dev lld-16
  llvm-16 make ninja-build pkg-config
  catch2 libboost1.81-dev libcivetweb-dev libcli11-dev libcurl4-openssl-dev libfmt-dev libmimalloc-dev libre2-dev
  libsimdjson-dev libspdlog-dev libssl-dev libxxhash-dev libyaml-cpp-dev prometheus-cpp-dev zlib1g-dev
  openssl python3 python3-pytest python3-venv python3-yaml
"

[ "${1:-}" != cluster ] || packages="$packages iproute2 nftables util-linux"

missing=""
for package in $packages; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1; then
  as_root="sudo"
else
  echo "install-deps: not root and no sudo; as root: apt-get install$missing" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  # shellcheck disable=SC2086 # empty for root
  if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "install-deps: apt-get $1 failed" >&2
    return 1
  fi
}

echo "installing:$missing"
# A package list that is there may do; it is fetched only when something cannot be found in it.
# shellcheck disable=SC2086 # a list of words
apt install -y --no-install-recommends $missing 2>/dev/null || {
  apt update
  apt install -y --no-install-recommends $missing
}
