"""One node: binds pending pods to itself and runs their containers as processes (container.py).

A pod that is made with another nodeName is left alone: an object whose status the test writes itself.
"""

import datetime
import pathlib
import threading

from .api import Api, ApiError
from .container import Container
from .pki import API_SERVICE_IP
from .probes import Probes
from .volumes import Volume, environment, expand

NODE = "node-1"
SERVICES = {"KUBERNETES_SERVICE_HOST": API_SERVICE_IP, "KUBERNETES_SERVICE_PORT": "443"}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """`images`: {name without tag: (programs, command)}; programs are {path in the container: file of the host}."""

    def __init__(self, api, network, folder, images):
        self.api, self.network, self.images = api, network, images
        self.folder = pathlib.Path(folder)
        self.pods = {}       # uid: PodWorker
        self._stop = threading.Event()
        api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        api.patch("Node", NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, sub="status")
        self._thread = threading.Thread(target=api.follow, args=("Pod", self._on_event, self._stop), daemon=True)
        self._thread.start()

    def _on_event(self, kind, what):
        if kind == "SYNC":
            for pod in what.values():
                self._seen(pod)
            here = {pod["metadata"]["uid"] for pod in what.values()}
            for uid, worker in list(self.pods.items()):
                if uid not in here:
                    worker.deleted()
        elif kind == "DELETED":
            if what["metadata"]["uid"] in self.pods:
                self.pods[what["metadata"]["uid"]].deleted()
        else:
            self._seen(what)

    def _seen(self, pod):
        uid = pod["metadata"]["uid"]
        if uid in self.pods:
            self.pods[uid].changed(pod)
        elif pod["spec"].get("nodeName", NODE) == NODE and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded"):
            self.pods[uid] = PodWorker(self, pod)

    def workers(self, namespace=None, **labels):
        """The running pods that carry the labels, oldest first."""
        return [w for w in list(self.pods.values()) if not w.done.is_set()
                and namespace in (None, w.pod["metadata"]["namespace"])
                and labels.items() <= w.pod["metadata"].get("labels", {}).items()]

    def stop(self):
        self._stop.set()
        for worker in list(self.pods.values()):
            worker.abandon()


class PodWorker(threading.Thread):
    def __init__(self, kubelet, pod):
        meta = pod["metadata"]
        super().__init__(name=meta["name"], daemon=True)
        self.kubelet, self.api, self.pod = kubelet, kubelet.api, pod
        self.name, self.uid = meta["name"], meta["uid"]
        self.folder = kubelet.folder / f"{meta['name']}-{self.uid[:8]}"
        self.network = f"pod-{self.uid[:13]}"
        self.ip = None
        self.containers, self.volumes, self._probes = [], [], {}
        self.done = threading.Event()
        self.last_code = None        # of the first container, when it ended
        self._gone = self._abandoned = False
        self._wake = threading.Event()
        self._written = None
        self.start()

    # from outside

    def changed(self, pod):
        self.pod = pod
        self._wake.set()

    def deleted(self):
        self._gone = True
        self._wake.set()

    def abandon(self):
        self._abandoned = True
        for container in self.containers:
            if container.running:
                container.process.kill()
        self._wake.set()

    @property
    def ready(self):
        return self._written is not None and self._written[0]

    def log(self):
        return self.containers[0].log() if self.containers else ""

    def refresh(self):
        """Looks at the sources of the volumes now; tokens are renewed when it is time."""
        for volume in self.volumes:
            volume.refresh()

    # the life of the pod

    @property
    def _terminating(self):
        return self._gone or "deletionTimestamp" in self.pod["metadata"]

    def run(self):
        try:
            self._set_up()
            self._sync()
            self._tear_down()
        except ApiError as error:
            if not self._abandoned and error.status != 404:
                self._fail(error)
        except Exception as error:  # a pod that cannot start is said in its status, as a node does
            if not self._abandoned:
                self._fail(error)
        finally:
            for container in self.containers:
                container.end(0)
            if self.ip is not None:
                self.kubelet.network.remove_pod(self.network)
            self.done.set()

    def _fail(self, error):
        self.last_error = error
        try:
            self.api.set_status(self.pod, {"phase": "Failed", "reason": "Stand-in", "message": str(error)})
        except (ApiError, OSError):
            pass

    def _set_up(self):
        meta, spec = self.pod["metadata"], self.pod["spec"]
        if "nodeName" not in spec:
            self.api.call("POST", Api.path("Pod", meta["namespace"], self.name, "binding"), {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}})
            spec["nodeName"] = NODE
        self.ip = self.kubelet.network.add_pod(self.network)
        self.pod.setdefault("status", {})["podIP"] = self.ip
        self.folder.mkdir(parents=True)
        self.volumes = [Volume(self.api, self.pod, volume, self.folder / "volumes") for volume in spec.get("volumes", [])]
        for volume in self.volumes:
            volume.refresh()
        for entry in spec["containers"]:
            programs, command = self.kubelet.images[entry["image"].rsplit(":", 1)[0]]
            values = environment(self.api, self.pod, entry, SERVICES)
            entry = {**entry, "command": expand(entry.get("command", command), values),
                     "args": expand(entry.get("args", []), values)}
            self.containers.append(Container(self.folder, self.network, entry, spec.get("securityContext", {}), programs,
                                             self._mounts(entry), values))
        for container in self.containers:
            self._start(container)

    def _mounts(self, entry):
        folders = {volume.name: volume.folder for volume in self.volumes}
        mounts = []
        for mount in entry.get("volumeMounts", []):
            source = folders[mount["name"]]
            if "subPath" in mount:  # bound as it is now: later changes do not reach the container
                source = (source / mount["subPath"]).resolve(strict=True)
            mounts.append((source, mount["mountPath"], mount.get("readOnly", False)))
        return mounts

    def _start(self, container):
        container.start()
        spec = next(c for c in self.pod["spec"]["containers"] if c["name"] == container.name)
        self._probes[container.name] = Probes(spec, container, self.ip, lambda: threading.Thread(
            target=container.end, args=(self.pod["spec"].get("terminationGracePeriodSeconds", 30),), daemon=True).start())

    def _sync(self):
        ticks = 0
        while not self._terminating and not self._abandoned:
            for container in self.containers:
                if not container.running:
                    self._probes[container.name].stop()
                    self.last_code = container.process.returncode
                    self._write_status()
                    if self._wake.wait(1.0) and (self._terminating or self._abandoned):
                        break
                    self._start(container)
            self._write_status()
            ticks += 1
            if ticks % 20 == 0:
                try:
                    self.refresh()
                except (ApiError, OSError):
                    pass  # the API server is away: the content stays
            self._wake.wait(0.1)
            self._wake.clear()

    def _write_status(self):
        ready = all(self._probes[c.name].ready and c.running for c in self.containers)
        states = [{
            "name": c.name, "image": entry["image"], "imageID": "", "containerID": f"process://{c.process.pid}",
            "restartCount": c.restarts, "ready": self._probes[c.name].ready and c.running,
            "started": self._probes[c.name].started,
            "state": {"running": {"startedAt": datetime.datetime.fromtimestamp(
                c.started_at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}} if c.running else
                     {"terminated": {"exitCode": c.process.returncode if c.process.returncode >= 0 else
                                     128 - c.process.returncode}},
        } for c, entry in zip(self.containers, self.pod["spec"]["containers"])]
        if self._written == (ready, states):
            return
        conditions = [{"type": kind, "status": "True" if kind == "PodScheduled" or kind == "Initialized" or ready else
                       "False", "lastTransitionTime": now()}
                      for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
        try:
            self.api.set_status(self.pod, {
                "phase": "Running", "podIP": self.ip, "podIPs": [{"ip": self.ip}], "hostIP": "10.200.0.1",
                "startTime": self.pod["metadata"]["creationTimestamp"], "conditions": conditions,
                "containerStatuses": states})
            self._written = (ready, states)
        except OSError:
            pass  # tried again at the next turn
        except ApiError as error:
            if error.status == 404:
                self._gone = True

    def _tear_down(self):
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds", 30)
        for probes in self._probes.values():
            probes.stop()
        enders = [threading.Thread(target=c.end, args=(grace, lambda: not self._gone)) for c in self.containers]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        self.last_code = self.containers[0].process.returncode
        while not self._gone and not self._abandoned:
            try:
                self.api.delete("Pod", self.name, self.pod["metadata"]["namespace"], missing_ok=True, gracePeriodSeconds=0)
                break
            except OSError:
                self._wake.wait(0.2)
