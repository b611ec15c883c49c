#!/bin/sh
# The image's build: compiles in this source tree and lays the image's root file system out in FOLDER, which must not be
# there yet. The Dockerfile runs this, and so does the test of the image. Usage: tools/image/build.sh FOLDER
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
cd "$(dirname "$0")/../.."
cmake --preset release -DWR_TESTS=OFF --log-level=WARNING >/dev/null
cmake --build build/release --target warmroute mock-engine
tools/image/rootfs.sh build/release "$1"
