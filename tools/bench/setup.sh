#!/bin/sh
# Installs what `make bench` measures beside warmroute (nginx and HAProxy from Debian, sglang-router from PyPI into
# build/venv-bench), or with "profile" what `make profile` looks with (perf, valgrind, strace). What cannot be installed
# is written to build/bench-missing.txt, one "NAME: reason" a line, and the table names it; the rest goes on.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build
log=build/bench-setup.log
missing=build/bench-missing.txt
: >"$missing"

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 && as_root="sudo"
fi

apt() {
  # Debian may start a daemon with what it installs; the bench starts its own, on other ports.
  # shellcheck disable=SC2086 # empty for root
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" >"$log" 2>&1
}

install() { # NAME PACKAGE COMMAND
  command -v "$3" >/dev/null 2>&1 && return
  if [ "$(id -u)" -ne 0 ] && [ -z "$as_root" ]; then
    echo "$1: not installed, and neither root nor sudo to do it (apt-get install $2)" >>"$missing"
    return
  fi
  echo "installing: $2"
  apt install -y --no-install-recommends "$2" || { apt update && apt install -y --no-install-recommends "$2"; } ||
    echo "$1: apt-get install $2 failed: $(tail -n 1 "$log")" >>"$missing"
}

if [ "${1:-peers}" = profile ]; then
  install perf linux-perf perf
  install valgrind valgrind valgrind
  install strace strace strace
else
  install nginx nginx nginx
  install haproxy haproxy haproxy
  venv=build/venv-bench
  lock=tools/bench/requirements.lock
  if ! cmp -s "$lock" "$venv/installed.lock"; then
    echo "installing: sglang-router"
    if /usr/bin/python3 -m venv --clear "$venv" >"$log" 2>&1 &&
      "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input -r "$lock" >"$log" 2>&1; then
      cp "$lock" "$venv/installed.lock"
    else
      echo "sglang-router: pip install failed: $(tail -n 1 "$log")" >>"$missing"
    fi
  fi
fi
cat "$missing" >&2
