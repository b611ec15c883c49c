"""The image without a container engine: its build script runs in a clean copy of the sources, and what it lays out is
looked at and started, as a container would be: own mount and process name spaces, not root, root file system read-only.
"""

import filecmp
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import time

import pytest
from support import wire
from support.router import BINARY, SLOW, SOURCE, wait_for
from support.slots import Slot

USER = 65532
OUTSIDE = {"PATH": os.environ["PATH"]}  # chroot and nsenter are found there; nothing else reaches the programs
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="chroot and name spaces need root")


def run(*command, **kw):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
                          timeout=3600, **kw)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def ignored():
    with open(os.path.join(SOURCE, ".dockerignore"), encoding="ascii") as file:
        return {line.strip().removeprefix("**/") for line in file if line.strip()}


@pytest.fixture(name="sources", scope="module")
def _sources(tmp_path_factory):
    """The build's context: the working tree without what .dockerignore names, under a path of its own."""
    folder = tmp_path_factory.mktemp("image") / "src"
    ignore = ignored() | {".cache"}
    shutil.copytree(SOURCE, folder, symlinks=True, ignore=lambda _, names: [n for n in names if n in ignore])
    assert not (folder / "build").exists() and not (folder / ".git").exists()
    return folder


@pytest.fixture(name="image", scope="module")
def _image(sources):
    image = sources.parent / "image"
    # Objects of the ordinary build serve here too, when they are in the compiler cache.
    run(sources / "tools/image/build.sh", image, cwd="/",
        env={**os.environ, "CCACHE_BASEDIR": str(sources), "CCACHE_NOHASHDIR": "1"})
    return image


def entries(image):
    for folder, folders, files in os.walk(image):
        for name in folders + files:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, image), os.lstat(path)


def test_only_what_is_needed(image):
    names = [name for name, _ in entries(image)]
    assert sorted(os.listdir(image)) == ["bin", "dev", "etc", "home", "kthena-router", "lib", "lib64", "proc", "sbin", "sys",
                                         "tmp", "usr", "var"]
    assert sorted(os.listdir(image / "usr/bin")) == ["kthena-router", "mock-engine", "warmroute"]
    assert not [n for n in names if re.search(r"/(sh|bash|apt|dpkg|perl|python3?|ssh|curl)$", n) and n != "var/lib/dpkg"]
    assert sum(status.st_size for _, status in entries(image)) < 40 << 20


def test_owner_modes_and_times(image):
    for name, status in entries(image):
        home = name == "home/nonroot"
        if os.geteuid() == 0:
            assert (status.st_uid, status.st_gid) == ((USER, USER) if home else (0, 0)), name
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), name
        if not stat.S_ISLNK(status.st_mode) and name != "tmp":
            assert not status.st_mode & 0o022, f"{name} can be changed by others"
            assert status.st_mode & 0o004, f"{name} cannot be read"
        assert status.st_mtime == 0, name


def test_both_names_and_the_default_configuration(image):
    inside = {"kthena-router": "usr/bin/kthena-router", "usr/bin/kthena-router": "warmroute",
              "etc/config/routerConfiguration.yaml": "/etc/warmroute/routerConfiguration.yaml",
              "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt"}
    links = {name: os.readlink(image / name) for name, status in entries(image) if stat.S_ISLNK(status.st_mode)}
    assert inside.items() <= links.items()
    for name, target in links.items():
        path = os.path.normpath(os.path.join("/", os.path.dirname(name), target))
        assert os.path.lexists(f"{image}{path}"), f"{name} leads nowhere"
    assert filecmp.cmp(image / "etc/warmroute/routerConfiguration.yaml", f"{SOURCE}/config/routerConfiguration.yaml",
                       shallow=False)


def test_certificates_and_zones(image):
    text = (image / "etc/ssl/certs/ca-certificates.crt").read_text(encoding="ascii")
    assert text.count("BEGIN CERTIFICATE") == text.count("END CERTIFICATE") > 100
    assert (image / "usr/share/zoneinfo/Europe/Berlin").is_file()


def test_packages_are_told_to_scanners(image):
    told = {}
    for name in os.listdir(image / "var/lib/dpkg/status.d"):
        text = (image / "var/lib/dpkg/status.d" / name).read_text(encoding="utf-8")
        assert re.search(rf"^Package: {re.escape(name)}$", text, re.MULTILINE)
        told[name] = re.search(r"^Version: (\S+)$", text, re.MULTILINE)[1]
        assert (image / f"usr/share/doc/{name}/copyright").is_file(), name
    assert {"base-files", "ca-certificates", "libc6", "libssl3", "libstdc++6", "tzdata"} <= set(told)
    installed = run("dpkg-query", "-W", "-f=${Package} ${Version}\n", *told).splitlines()
    assert dict(line.split() for line in installed) == told


def tree(folder):
    """A digest of names, kinds, modes, owners, times and contents."""
    found = hashlib.sha256()
    for name, status in sorted(entries(folder)):
        path = os.path.join(folder, name)
        what = (os.readlink(path) if stat.S_ISLNK(status.st_mode) else
                hashlib.sha256(open(path, "rb").read()).hexdigest() if stat.S_ISREG(status.st_mode) else "")
        line = [name, oct(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, what]
        found.update(json.dumps(line).encode())
    return found.hexdigest()


def test_the_same_again(sources, image):
    again = sources.parent / "again"
    run(sources / "tools/image/rootfs.sh", sources / "build/release", again, cwd=sources)
    assert tree(again) == tree(image)


def test_the_programs_do_not_know_where_they_were_built(image, tmp_path):
    """The ordinary build, in another folder, gives the same bytes."""
    run(os.path.join(SOURCE, "tools/image/rootfs.sh"), os.path.dirname(BINARY), tmp_path / "ordinary", cwd=SOURCE)
    for name in ("warmroute", "mock-engine"):
        assert filecmp.cmp(tmp_path / "ordinary/usr/bin" / name, image / "usr/bin" / name, shallow=False)


def inside(image, *command):
    return ["chroot", f"--userspec={USER}:{USER}", str(image), *command]


@root_only
@pytest.mark.parametrize("program", ["/kthena-router", "/usr/bin/warmroute", "/usr/bin/mock-engine"])
def test_programs_start(image, program):
    assert re.search(r"\d+\.\d+\.\d+", run(*inside(image, program, "--version"), env=OUTSIDE))


@root_only
def test_a_container(image, tmp_path):
    """The router as process 1; its health check knows its flags from there."""
    (tmp_path / "resources.yaml").write_text("""\
apiVersion: warmroute.dev/v1alpha1
kind: StaticPods
metadata: {name: nobody}
spec: {labels: {app: a}, endpoints: ["127.0.0.1:1"]}
""", encoding="ascii")
    tmp_path.chmod(0o755)
    slot = Slot()
    flags = ["--port=9123", f"--bind-address={slot.ip(200)}", f"--debug-port={slot.debug_port}", "--resources=/tmp",
             "--drain-delay=0s"]
    # The mounts go with the name space. `exec` keeps the process id: unshare's child is process 1.
    script = ('mount --bind "$1" "$1" && mount --bind "$2" "$1/tmp" && mount -t proc proc "$1/proc" && '
              'mount -o remount,bind,ro "$1" && image=$1 && shift 2 && '
              f'exec chroot --userspec={USER}:{USER} "$image" /kthena-router "$@"')
    with open(tmp_path.parent / "router.log", "wb") as log:
        process = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "sh", "-c", script, "sh",
                                    str(image), str(tmp_path), *flags], env=OUTSIDE, stdout=log,
                                   stderr=log)
    try:
        def answers():
            assert process.poll() is None, (tmp_path.parent / "router.log").read_text()
            try:
                with wire.Conn((slot.ip(200), 9123), timeout=2) as conn:
                    conn.send(wire.request_bytes("GET", "/healthz"))
                    return conn.read_response("GET").status == 200
            except OSError:
                return False
        wait_for(answers, 10, "the router answers")
        child = run("pgrep", "--parent", process.pid).strip()
        with open(f"/proc/{child}/status", encoding="ascii") as file:
            status = dict(line.strip().split(":\t", 1) for line in file if ":\t" in line)
        assert status["Uid"].split() == status["Gid"].split() == [str(USER)] * 4
        assert status["NSpid"].split()[-1] == "1"
        assert [file for file in ("/etc/passwd", "/home/nonroot") if os.access(f"/proc/{child}/root{file}", os.W_OK)] == []
        enter = ["nsenter", "--target", child, "--mount", "--pid", "chroot", f"--userspec={USER}:{USER}",
                 str(image)]
        assert run(*enter, "/usr/bin/warmroute", "healthcheck", env=OUTSIDE) == ""
        other = subprocess.run([*enter, "/usr/bin/warmroute", "healthcheck", f"--bind-address={slot.ip(200)}"], env=OUTSIDE,
                               stderr=subprocess.PIPE, check=False, text=True, timeout=20)
        assert (other.returncode, other.stderr) == (1, "unhealthy: connect: Connection refused\n")
        started = time.monotonic()
        os.kill(int(child), 15)
        process.wait(20)
        assert time.monotonic() - started < 10 * SLOW
        assert process.returncode == 0, (tmp_path.parent / "router.log").read_text()
    finally:
        process.kill()
        process.wait()
        slot.release()


def test_dockerfile(image):
    """It builds with the script tested here, and what it names is there."""
    with open(os.path.join(SOURCE, "Dockerfile"), encoding="ascii") as file:
        text = file.read()
    first, last = re.split(r"^FROM scratch$", text, flags=re.MULTILINE)
    assert re.search(r"^FROM \$\{DEBIAN\} AS build$", first, re.MULTILINE)
    assert re.search(r"^ARG DEBIAN=debian:bookworm-slim$", first, re.MULTILINE)
    assert re.search(r"^RUN tools/image/build.sh /image$", first, re.MULTILINE)
    steps = dict(line.split(maxsplit=1) for line in last.strip().splitlines())
    assert steps["COPY"] == "--from=build /image/ /"
    assert steps["USER"] == f"{USER}:{USER}"
    for step in ("HEALTHCHECK", "ENTRYPOINT"):
        command = json.loads(re.search(r"\[.*\]", steps[step])[0])
        assert os.access(f"{image}{command[0]}", os.X_OK)
    assert steps["HEALTHCHECK"].endswith('["/usr/bin/warmroute", "healthcheck"]')
    for copied in re.findall(r"^COPY (tools/\S+)", text, re.MULTILINE):
        assert os.path.exists(os.path.join(SOURCE, copied))


def test_snapshot_of_debian(tmp_path):
    """The sources apt would read; the packages themselves are the container build's business."""
    for name in ("apt-get", "install-deps.sh"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "image").mkdir()
    script = shutil.copy(os.path.join(SOURCE, "tools/image/packages.sh"), tmp_path / "image")
    sources = tmp_path / "debian.sources"
    run(script, "20250811T000000Z", env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "APT_SOURCES": str(sources)})
    found = [dict(line.split(": ", 1) for line in part.splitlines())
             for part in sources.read_text(encoding="ascii").strip().split("\n\n")]
    assert [(part["URIs"], part["Suites"]) for part in found] == [
        ("http://snapshot.debian.org/archive/debian/20250811T000000Z", "bookworm bookworm-updates"),
        ("http://snapshot.debian.org/archive/debian-security/20250811T000000Z", "bookworm-security")]
    assert {part["Check-Valid-Until"] for part in found} == {"no"}
