#!/bin/sh
# Runs the cluster tests in network, mount and process namespaces of their own: when this ends, however it ends, the
# kernel takes every process, bridge, address, rule and mount of theirs away. Arguments are pytest's.
set -u
cd "$(dirname "$0")/.."
exec unshare --net --mount --pid --fork --kill-child --mount-proc \
  env WR_CLUSTER_NAMESPACES=own /usr/bin/python3 -B -m pytest -q -p no:cacheprovider "$@"
