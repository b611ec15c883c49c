#!/bin/sh
# Lays the image's root file system out in FOLDER: the programs of BUILD, the shared libraries that they load from this
# machine's Debian packages, CA certificates, time zones, and the few files that libc looks for. No shell, no package
# manager. Owner root, one time stamp (SOURCE_DATE_EPOCH, default 0): the same build gives the same bytes.
# Usage: tools/image/rootfs.sh BUILD FOLDER
set -eu
[ $# -eq 2 ] || { echo "usage: $0 BUILD FOLDER" >&2; exit 2; }
build=$1
root=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
user=65532
[ ! -e "$root" ] || { echo "rootfs: $root is there already" >&2; exit 1; }
umask 022
export LC_ALL=C
mkdir -p "$root"
root=$(cd "$root" && pwd)

mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib/ssl" "$root/usr/lib64" "$root/etc/ssl/certs" "$root/etc/config" \
  "$root/var/lib/dpkg/status.d" "$root/home/nonroot" "$root/tmp" "$root/proc" "$root/sys" "$root/dev"
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
chmod 1777 "$root/tmp"

# Programs, the default configuration and the licence; manuals and the systemd unit are for the package.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
DESTDIR=$stage cmake --install "$build" --prefix /usr --strip >/dev/null
for program in warmroute mock-engine; do
  # The build id is a hash over debug information too, which names the folder that the sources were in.
  objcopy --remove-section=.note.gnu.build-id "$stage/usr/bin/$program" "$root/usr/bin/$program"
done
ln -s warmroute "$root/usr/bin/kthena-router"
ln -s usr/bin/kthena-router "$root/kthena-router"
mkdir -p "$root/etc/warmroute" "$root/usr/share/doc/warmroute"
cp "$stage/etc/warmroute/routerConfiguration.yaml" "$root/etc/warmroute/"
ln -s /etc/warmroute/routerConfiguration.yaml "$root/etc/config/routerConfiguration.yaml"
cp "$source/LICENSE" "$root/usr/share/doc/warmroute/copyright"

# package PATH: the Debian package that PATH belongs to. dpkg knows some by their place before /lib became /usr/lib.
package() {
  { dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null || dpkg-query -S "${1#/usr}"; } |
    sed -n '1s/:.*//p'
}

packages="base-files ca-certificates tzdata"
for library in $(ldd "$root/usr/bin/warmroute" "$root/usr/bin/mock-engine" | sed -n 's/.*[ \t]\(\/[^ ]*\) (0x.*/\1/p' |
  sort -u); do
  place=$root/usr/${library#/}
  case $library in /usr/*) place=$root$library ;; esac
  mkdir -p "$(dirname "$place")"
  cp -L "$library" "$place"
  packages="$packages $(package "$library")"
done

# Certificates as the package brings them, without those of this machine.
find /usr/share/ca-certificates/mozilla -name '*.crt' | sort | xargs cat >"$root/etc/ssl/certs/ca-certificates.crt"
ln -s /etc/ssl/certs/ca-certificates.crt "$root/usr/lib/ssl/cert.pem"
mkdir -p "$root/usr/share"
cp -R /usr/share/zoneinfo "$root/usr/share/zoneinfo"
rm -rf "$root/usr/share/zoneinfo/right" "$root/usr/share/zoneinfo/posix"
rm -f "$root/usr/share/zoneinfo/localtime"  # a link to this machine's zone
cp /usr/lib/os-release "$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%s:%s:nonroot:/home/nonroot:/sbin/nologin\n' $user $user \
  >"$root/etc/passwd"
printf 'root:x:0:\nnonroot:x:%s:\n' $user >"$root/etc/group"

# What scanners of images read, and the licences.
for name in $(echo "$packages" | tr ' ' '\n' | sort -u); do
  dpkg-query -s "$name" | sed '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ /d}' >"$root/var/lib/dpkg/status.d/$name"
  if [ -e "/usr/share/doc/$name/copyright" ]; then
    mkdir -p "$root/usr/share/doc/$name"
    cp -L "/usr/share/doc/$name/copyright" "$root/usr/share/doc/$name/"
  fi
done

[ "$(id -u)" -ne 0 ] || chown -Rh 0:0 "$root"
[ "$(id -u)" -ne 0 ] || chown $user:$user "$root/home/nonroot"
find "$root" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
