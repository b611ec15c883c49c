"""What the API server may do to a router that follows it: whatever it is, the last known state serves, and the router
comes back to the right one."""

import threading
import time

import pytest
from support import world
from support.cluster.api import Api
from support.cluster.gate import Gate
from support.cluster.stage import Stage, settings
from support.router import wait_for

NAMESPACE = "faults"
BACK = 15.0  # seconds until a change is seen after the API server is well again: pauses are 5 s at most


@pytest.fixture(name="stage")
def _stage(plane, crds):
    stage = Stage(plane, NAMESPACE)
    yield stage
    plane.restore_api()
    stage.close()


@pytest.fixture(name="gate")
def _gate():
    gate = Gate()
    yield gate
    gate.stop()


def behind(stage, gate, **kw):
    """A router that reaches the API server through the gate."""
    return stage.router(kubeconfig=settings(stage.plane, gate.url), **kw)


class Steady(threading.Thread):
    """Requests all the time; every one must be 200."""

    def __init__(self, router):
        super().__init__(daemon=True)
        self._router, self._end = router, threading.Event()
        self.answers = []
        self.start()

    def run(self):
        while not self._end.wait(0.05):
            self.answers.append(self._router.chat().status)

    def finish(self):
        self._end.set()
        self.join()
        assert set(self.answers) == {200}, sorted(set(self.answers))


def follows(stage, router, within=BACK):
    """A change is seen: the pod leaves and comes back."""
    stage.set_ready("a-1", False)
    stage.until_status(router, 503, within)
    stage.set_ready("a-1", True)
    stage.until_status(router, 200, within)


def age(router):
    return router.metric("warmroute_kube_state_age_seconds")


def test_stopped_and_started(stage):
    """A rolling update of the control plane."""
    stage.simple()
    router = stage.router()
    steady = Steady(router)
    stage.plane.stop_api()
    wait_for(lambda: age(router) >= 2, 20, "the age of the state")
    assert router.get("/readyz").status == 200
    stage.plane.start_api()
    wait_for(lambda: age(router) == 0, BACK, "a current state")
    steady.finish()
    follows(stage, router)


def test_killed(stage):
    stage.simple()
    router = stage.router()
    steady = Steady(router)
    stage.plane.kill_api()
    time.sleep(1)
    stage.plane.start_api()
    steady.finish()
    follows(stage, router)


def test_slow(stage, gate):
    """20 kB/s, as through a link that is full: the router starts, if late, and follows."""
    gate.rate = 20_000
    stage.simple()
    router = behind(stage, gate)
    follows(stage, router)


def test_closed_while_objects_are_deleted(stage, gate):
    """Events that nobody told: what is deleted while the router is cut off is gone after the next list."""
    stage.simple(2)
    router = behind(stage, gate)
    steady = Steady(router)
    gate.close()
    stage.delete("Pod", "a-1")
    stage.delete("Pod", "a-2")
    stage.apply(world.pod("a-3", stage.slot.ip(3), "a", NAMESPACE))
    stage.engine(3)
    time.sleep(2)
    steady.finish()
    assert not stage.engines[3].requests
    gate.open()

    def only_the_third():
        before = len(stage.engines[3].requests)
        assert router.chat().status == 200
        return len(stage.engines[3].requests) > before
    wait_for(only_the_third, BACK, "the pod that was made meanwhile")
    count = [len(stage.engines[last].requests) for last in (1, 2)]
    for _ in range(20):
        assert router.chat().status == 200
    assert [len(stage.engines[last].requests) for last in (1, 2)] == count


def test_history_compacted(stage, gate):
    """The version that the watch would go on from is forgotten (410): it lists again, and a lost deletion is found."""
    stage.simple()
    router = behind(stage, gate)
    steady = Steady(router)
    gate.close()
    stage.delete("ModelRoute", "mr-a")
    stage.apply(world.route("mr-b", "m-b", "ms-a", NAMESPACE))
    # The API server keeps history of its own, which begins anew with it.
    stage.plane.compact()
    stage.plane.stop_api()
    stage.plane.start_api()
    steady.finish()
    gate.open()
    stage.until_status(router, 404, BACK)
    stage.until_status(router, 200, BACK, model="m-b")


def test_silent_for_a_while(stage, gate):
    """Nothing is said and nothing closed; known engines serve. What becomes of a long silence: test_silence.py."""
    stage.simple()
    router = behind(stage, gate)
    steady = Steady(router)
    gate.silence()
    time.sleep(3)
    assert router.get("/readyz").status == 200
    steady.finish()
    gate.open()
    gate.cut()
    follows(stage, router)


def token_for(api, secret):
    """A token of the service account `follower` that dies with the Secret."""
    api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": NAMESPACE}})
    uid = api.get("Secret", secret, NAMESPACE)["metadata"]["uid"]
    answer = api.call("POST", Api.path("ServiceAccount", NAMESPACE, "follower", "token"), {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid}}})
    return answer["status"]["token"]


def test_token_rotated(stage, gate, tmp_path):
    """The token's file is read again before the old token is refused, and when it is refused."""
    api = stage.api
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "follower", "namespace": NAMESPACE}})
    api.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "follower"},
               "rules": [{"apiGroups": ["networking.serving.volcano.sh", ""], "verbs": ["get", "list", "watch"],
                          "resources": ["modelroutes", "modelservers", "externalmodelproviders", "pods"]}]})
    api.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
               "metadata": {"name": "follower"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "follower"},
               "subjects": [{"kind": "ServiceAccount", "name": "follower", "namespace": NAMESPACE}]})
    file = tmp_path / "token"
    file.write_text(token_for(api, "first"), encoding="ascii")
    stage.simple()
    router = behind_token(stage, gate, file)
    follows(stage, router)
    old = file.read_text(encoding="ascii")
    file.write_text(token_for(api, "second"), encoding="ascii")
    api.delete("Secret", "first", NAMESPACE)
    refused = Api(stage.api.server, stage.plane.pki, token=old)
    wait_for(lambda: refused.raw("GET", Api.path("Pod", NAMESPACE))[0] == 401, 30, "the old token refused", 0.5)
    gate.cut()
    follows(stage, router)
    # It is refused although it is the newest: there is no other, until one is laid.
    api.delete("Secret", "second", NAMESPACE)
    refused = Api(stage.api.server, stage.plane.pki, token=file.read_text(encoding="ascii"))
    wait_for(lambda: refused.raw("GET", Api.path("Pod", NAMESPACE))[0] == 401, 30, "the second token refused", 0.5)
    gate.cut()
    wait_for(lambda: age(router) > 0 and router.metric("warmroute_kube_failures_total") > 0, 10, "the refusal felt")
    assert router.chat().status == 200
    file.write_text(token_for(api, "third"), encoding="ascii")
    follows(stage, router)
    api.delete("Secret", "third", NAMESPACE)


def behind_token(stage, gate, file):
    return stage.router(kubeconfig=settings(stage.plane, gate.url, user=f"tokenFile: {file}"))
