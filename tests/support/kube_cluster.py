"""A router that follows a stand-in API server."""

from . import engine, fake_kube, router, slots
from .router import wait_for


class Cluster:
    """An API server, engines a-1.. and a router that follows them."""

    def __init__(self, engines=1, user=None, cluster=None, flags=(), start=True, wait_ready=True, fill=True, env=None,
                 **server):
        self.slot = slots.Slot()
        self.engines = [engine.Engine(self.slot.ip(n), answers=[engine.chat(f"from a-{n}")], name=f"a-{n}")
                        for n in range(1, engines + 1)]
        self.kube = fake_kube.FakeKube((self.slot.ip(250), 6443), **server)
        if fill:
            self.fill(engines)
        self.router = router.Router(kubeconfig="/nonexistent", slot=self.slot, start=False, flags=flags, env=env)
        self.user, self.cluster = user or {}, cluster
        self.write_kubeconfig()
        if start:
            self.router.start(wait_ready)

    def write_kubeconfig(self):
        path = fake_kube.kubeconfig(self.router.dir, self.kube.url, self.user, self.cluster)
        self.router.command = [f"--kubeconfig={path}" if part.startswith("--kubeconfig=") else part
                               for part in self.router.command]

    def fill(self, engines):
        self.kube.put("modelservers", fake_kube.model_server("ms-a", "a"))
        self.kube.put("modelroutes", fake_kube.route("mr-a", "m-a", "ms-a"))
        for n in range(1, engines + 1):
            self.kube.put("pods", fake_kube.pod(f"a-{n}", self.slot.ip(n), "a"))

    def close(self, check):
        try:
            self.router.stop(check)
        finally:
            self.kube.stop()
            for each in self.engines:
                each.stop()
            self.slot.release()

    # looking at it

    def status(self, model="m-a"):
        return self.router.chat(model).status

    def wait_status(self, status, model="m-a", timeout=3):
        wait_for(lambda: self.status(model) == status, timeout, f"status {status} for {model}")

    def members(self, name="ms-a"):
        shown = self.router.debug(f"/debug/config_dump/namespaces/golden/modelservers/{name}").json()
        return sorted(key.split("/")[1] for key in (shown.get("associatedPods") or []))

    def wait_members(self, names, name="ms-a", timeout=3):
        last = [None]

        def check():
            last[0] = self.members(name)
            return last[0] == sorted(names)

        try:
            wait_for(check, timeout, "members", 0.02)
        except AssertionError:
            raise AssertionError(f"members are {last[0]}, not {names}") from None
