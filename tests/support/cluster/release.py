"""The chart installed by helm, with the router running in pods, and engines as a Deployment of their own."""

from ..helm import CHART, NAMESPACE, RELEASE
from ..router import wait_for
from ..wire import exchange, request_bytes
from .control_plane import kubectl

IMAGE = ("networking.kthenaRouter.image.repository=warmroute,networking.kthenaRouter.image.tag=test,"
         "networking.kthenaRouter.service.type=ClusterIP")
ROUTER = {"app.kubernetes.io/component": "kthena-router"}


class Release:
    def __init__(self, plane, helm, node, services):
        self.plane, self.helm, self.node, self.services = plane, helm, node, services

    def _run(self, *arguments):
        done = self.helm.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, *arguments):
        self._run("install", RELEASE, CHART, "--namespace", NAMESPACE, "--create-namespace", "--set", IMAGE, *arguments)

    def upgrade(self, *arguments):
        self._run("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)

    def uninstall(self):
        self.helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")
        wait_for(lambda: not self.node.workers(NAMESPACE), 30, "the router's pods gone")

    def pods(self):
        return self.node.workers(NAMESPACE, **ROUTER)

    def wait_available(self, timeout=60.0):
        """Every replica is of the newest template and ready, and no other is left."""
        try:
            kubectl(self.plane, "rollout", "status", "deployment/kthena-router", "-n", NAMESPACE, f"--timeout={timeout}s")
        except RuntimeError as error:
            logs = "\n".join(f"{w.name}: {getattr(w, 'last_error', '')}\n{w.log()[-2000:]}" for w in self.pods())
            raise AssertionError(f"{error}\n{logs}") from None

    def wait_serving(self):
        """New connections to the Service reach a ready replica, which follows the endpoints a moment later."""
        address = self.address()

        def ready():
            try:
                return exchange(address, request_bytes("GET", "/readyz"), "GET").status == 200
            except OSError:
                return False
        wait_for(ready, 15, "the Service", 0.05)

    def restart(self):
        kubectl(self.plane, "rollout", "restart", "deployment/kthena-router", "-n", NAMESPACE)

    def configure(self, text):
        """Other content of the router's ConfigMap, and a restart, which it needs."""
        self.plane.api.patch("ConfigMap", "kthena-router-config", {"data": {"routerConfiguration": text}}, NAMESPACE)
        self.restart()
        self.wait_available()
        wait_for(lambda: len(self.pods()) == 1, 60, "the old pod gone")

    def address(self, service="kthena-router", port="http"):
        return self.services.address(service, NAMESPACE, port)


def engines(api, namespace, name, replicas, arguments=(), model="real-a", port=8000, labels=None):
    """A Deployment of mock engines that answer to `model`, each with its pod's name in x-mock-engine."""
    labels = {"app": name, **(labels or {})}
    api.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": [{
                "name": "engine", "image": "mock-engine:test",
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "args": ["--bind=0.0.0.0", f"--port={port}", f"--model={model}", "--name=$(POD_NAME)", *arguments],
                "readinessProbe": {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 1}}]}}}})


def wait_engines(node, namespace, count, **labels):
    """The pods of that many ready engines."""
    def ready():
        workers = node.workers(namespace, **labels)
        return workers if len(workers) == count and all(w.ready for w in workers) else None
    return wait_for(ready, 60, f"{count} ready engines", 0.05)
