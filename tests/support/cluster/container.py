"""A container: a process in the pod's network namespace and a mount namespace of its own, with a root of its own."""

import pathlib
import shlex
import signal
import subprocess
import time

_CAPABILITIES_DROPPED = "--bounding-set=-all --inh-caps=-all"


class Container:
    """`programs`: {path in the container: file of the host}, read-only. `mounts`: [(source, path, read-only)].

    The root is a tmpfs with the host's /usr for shared libraries, /proc and /dev; read-only where the pod says so.
    """

    def __init__(self, folder, pod_network, spec, security, programs, mounts, environment):
        self.name = spec["name"]
        self.folder = pathlib.Path(folder)
        self.log_path = self.folder / f"{self.name}.log"
        self._network = pod_network
        root = self.folder / f"{self.name}.root"
        root.mkdir(exist_ok=True)
        security = {**security, **spec.get("securityContext", {})}
        user, group = security.get("runAsUser", 0), security.get("runAsGroup", 0)
        if security.get("runAsNonRoot") and not user:
            raise ValueError(f"container {self.name} has runAsNonRoot and would run as root")
        self._script = self._mount_script(root, programs, mounts, security.get("readOnlyRootFilesystem", False))
        groups = f"--groups={security['fsGroup']}" if "fsGroup" in security else "--clear-groups"
        dropped = _CAPABILITIES_DROPPED if "ALL" in security.get("capabilities", {}).get("drop", []) else ""
        privileges = "" if security.get("allowPrivilegeEscalation", True) else "--no-new-privs"
        words = [*(f"{name}={value}" for name, value in environment.items()), *spec["command"], *spec.get("args", [])]
        self._script += (f"cd {root}\nexec chroot . /usr/bin/setpriv --reuid={user} --regid={group} {groups} {dropped} "
                         f"{privileges} /usr/bin/env -i {shlex.join(words)}\n")
        self.process = None
        self.started_at = None
        self.restarts = -1

    @staticmethod
    def _mount_script(root, programs, mounts, read_only):
        lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs -o mode=755 tmpfs {root}", f"cd {root}",
                 "mkdir usr etc etc/config proc dev", "for name in bin sbin lib lib64; do ln -s usr/$name $name; done",
                 "mount --bind /usr usr", "mount -o remount,bind,ro usr", "mount -t proc proc proc",
                 "mount --rbind /dev dev", "cp /etc/ld.so.cache etc/",
                 "printf 'root:x:0:0::/:/\\nnonroot:x:65532:65532::/:/\\n' >etc/passwd"]
        binds = [(source, path, True) for path, source in programs.items()] + list(mounts)
        for source, path, bind_read_only in binds:
            place = shlex.quote(str(path).lstrip("/"))
            source = shlex.quote(str(source))
            lines += [f"mkdir -p $(dirname {place})", f"if [ -d {source} ]; then mkdir -p {place}; else : >{place}; fi",
                      f"mount --bind {source} {place}"]
            if bind_read_only:
                lines.append(f"mount -o remount,bind,ro {place}")
        if read_only:
            lines.append(f"cd / && mount -o remount,ro {root}")
        return "\n".join(lines) + "\n"

    def start(self):
        self.restarts += 1
        command = ["ip", "netns", "exec", self._network, "unshare", "--mount", "sh", "-c", self._script]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.started_at = time.time()

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.running:
            self.process.send_signal(number)

    def end(self, grace, still_wanted=lambda: True):
        """SIGTERM, then SIGKILL after `grace` seconds (sooner when no longer wanted)."""
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.running and time.monotonic() < deadline and still_wanted():
            time.sleep(0.02)
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def execute(self, command, timeout):
        """Runs a command inside; whether it exited with 0."""
        try:
            done = subprocess.run(["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root", "--wd",
                                   *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                                  check=False)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""
