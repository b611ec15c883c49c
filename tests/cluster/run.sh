#!/bin/sh
# Runs the cluster tests in network, mount and process namespaces of their own: when this ends, however it ends, the
# kernel takes every process, bridge, address, rule and mount of theirs away. Arguments are pytest's.
set -u
cd "$(dirname "$0")/.."
if ! why=$(unshare --net --mount --pid --fork --mount-proc true 2>&1); then
  echo "run.sh: the cluster tests make network, mount and process namespaces, as root with CAP_SYS_ADMIN and" \
    "CAP_NET_ADMIN: $why" >&2
  exit 1
fi
# This shell's death is that of unshare, and its death that of all in it. Ctrl-C is for pytest (conftest.py), which ends
# in good order.
WR_CLUSTER_NAMESPACES=own setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc \
  /usr/bin/python3 -B -m pytest -q -p no:cacheprovider "$@" &
tests=$!
trap : INT
while kill -0 $tests 2>/dev/null; do
  wait $tests
  code=$?
done
exit $code
