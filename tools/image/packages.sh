#!/bin/sh
# In the image's build stage: what the build needs, and the state of Debian that the image's libraries come from: today's,
# or that of SNAPSHOT (as on snapshot.debian.org, e.g. 20250811T000000Z), which makes a build repeatable.
# Usage: tools/image/packages.sh [SNAPSHOT]; APT_SOURCES names another file than apt's own, for tests.
set -eu
snapshot=${1:-}
sources=${APT_SOURCES:-/etc/apt/sources.list.d/debian.sources}
if [ -n "$snapshot" ]; then
  {
    for archive in "debian/$snapshot bookworm bookworm-updates" "debian-security/$snapshot bookworm-security"; do
      echo "Types: deb"
      echo "URIs: http://snapshot.debian.org/archive/${archive%% *}"
      echo "Suites: ${archive#* }"
      echo "Components: main"
      echo "Check-Valid-Until: no"
      echo "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"
      echo
    done
  } >"$sources"
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get upgrade -qq -y
"$(dirname "$0")/../install-deps.sh"
