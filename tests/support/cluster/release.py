"""The chart installed by helm, with the router running in pods, and engines as a Deployment of their own."""

from ..helm import CHART, NAMESPACE, RELEASE
from ..router import wait_for
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

    def restart(self):
        kubectl(self.plane, "rollout", "restart", "deployment/kthena-router", "-n", NAMESPACE)

    def address(self, service="kthena-router", port="http"):
        return self.services.address(service, NAMESPACE, port)


def engines(api, namespace, name="engine", replicas=3, arguments=(), model="real-a", labels=None):
    """A Deployment of mock engines that answer to `model`."""
    labels = {"app": name, **(labels or {})}
    api.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": [{
                "name": "engine", "image": "mock-engine:test",
                "args": ["--bind=0.0.0.0", "--port=8000", f"--model={model}", *arguments],
                "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1}}]}}}})


def wait_engines(node, namespace, count, **labels):
    def ready():
        workers = node.workers(namespace, **labels)
        return workers if len(workers) == count and all(w.ready for w in workers) else None
    return wait_for(ready, 60, f"{count} ready engines", 0.05)
