"""http/dynamics.jsonl on a real API server, where it was recorded; our values where the recording shows a fault."""

import os
import signal
import sys
import time

import pytest
from support.cluster import stage as cluster
from support.cluster.api import ApiError
from support.router import Router, wait_for
from support.slots import Slot

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden"))
import dynamics_steps as recorded  # noqa: E402  pylint: disable=wrong-import-position
import http_replay  # noqa: E402  pylint: disable=wrong-import-position

NAMESPACE = "golden"
# Their router ends before it would ask an API server: tests/golden plays them.
WITHOUT_CLUSTER = {"config-fairness-and-session-boost", "config-least-latency-factor-out-of-range", "config-port-in-use",
                   "config-unknown-flag"}
ONLY_CLUSTER = {"modelroute-name-edited", "api-server-stops-answering", "router-starts-without-api-server",
                "router-starts-while-api-server-hangs"}
STEPS = {}


def steps(function):
    STEPS[function.__name__.replace("_", "-")] = function
    return function


class ClusterStage(recorded.Stage):
    def __init__(self, name, slot, plane):
        super().__init__(name, slot)
        self.plane = plane
        self.made = cluster.Objects(plane.api, NAMESPACE)

    def start(self, engines=(1,), objects=None, env=None, kubeconfig=None, **kw):
        for last in engines:
            self.engine(last, metrics=recorded.vllm_metrics(kv=last / 100))
        for name in self.objects if objects is None else objects:
            self.put(name)
        spec = self.record["router"]
        self.router = Router(config=http_replay.config_text(spec), kubeconfig=kubeconfig or self.plane.kubeconfig,
                             flags=["--compat=kthena", "--enable-webhook=false", *spec["flags"]], slot=self.slot,
                             env={"METRICS_SCRAPE_INTERVAL": "1s", **spec["env"], **(env or {})}, **kw)
        return self.router

    def put(self, name, change=None):
        if change:
            change(self.objects[name])
        self.made.apply(self.objects[name])

    def remove(self, name):
        self.made.delete(self.objects[name]["kind"], name)

    def terminate(self, name):
        self.made.delete("Pod", name, gracePeriodSeconds=30)

    def replace(self, name, last):
        self.remove(name)
        ip = self.slot.ip(last)
        self.put(name, lambda d: d["status"].update(podIP=ip, podIPs=[{"ip": ip}]))

    def close(self):
        super().close()
        self.plane.restore_api()
        cluster.clear(self.plane.api, NAMESPACE)


@steps
def modelroute_name_edited(stage):
    stage.start()
    wanted = stage.observed(0)
    with pytest.raises(ApiError) as error:
        stage.made.patch("ModelRoute", "mr-a", {"spec": {"modelName": "m-new"}})
    assert (error.value.status, error.value.message) == (wanted["api_server_status"], wanted["message"])
    stage.check(stage.request(), stage.observed(1))


@steps
def api_server_stops_answering(stage):
    router = stage.start()
    stage.plane.pause_api()
    time.sleep(3)
    stage.check(stage.request(), stage.observed(1))
    ready = router.get("/readyz")
    assert {"status": ready.status, "body": ready.text} == stage.observed(2)
    stage.plane.resume_api()
    stage.put("a-1", recorded.ready(False))
    stage.until_observed(5)


def states(stage):
    return {name: value for name, value in recorded.reads(stage).items() if name.startswith("router")}


@steps
def router_starts_without_api_server(stage):
    """Ours opens its listeners at once and says that it is not ready; SIGTERM ends it in good order."""
    config = stage.plane.pki.kubeconfig(os.path.join(stage.slot_dir, "nobody"), "https://127.0.0.1:9")
    router = stage.start(objects=(), kubeconfig=config, wait_ready=False)
    wait_for(lambda: router.try_get("/healthz").status == 200, 2, "healthz")
    time.sleep(3)
    assert states(stage) == {"router /readyz": 503, "router /healthz": 200}
    router.signal(signal.SIGINT)
    assert router.wait_exit() == 0


@steps
def router_starts_while_api_server_hangs(stage):
    for name in list(stage.objects):
        stage.put(name)
    stage.plane.pause_api()
    router = stage.start(objects=(), wait_ready=False)
    time.sleep(2)
    assert states(stage) == {"router /readyz": 503, "router /healthz": 200}
    stage.plane.resume_api()
    router.wait_ready(15)
    stage.check(stage.request(), stage.observed(4))


recorded.STEPS.update(STEPS)


@pytest.mark.parametrize("name", sorted(set(recorded.RECORDS) - recorded.SKIPPED - WITHOUT_CLUSTER | ONLY_CLUSTER))
def test_dynamics(plane, crds, name, tmp_path):
    cluster.ensure_namespace(plane.api, NAMESPACE)
    slot = Slot(one_digit=True)
    try:
        recorded.run_steps(ClusterStage(name, slot, plane), tmp_path)
    finally:
        slot.release()


def test_no_record_is_forgotten():
    assert set(STEPS) == ONLY_CLUSTER <= recorded.SKIPPED
    assert WITHOUT_CLUSTER <= set(recorded.RECORDS)
