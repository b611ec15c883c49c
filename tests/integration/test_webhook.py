"""Admission webhook, its certificate, Lease, status and Events, against an API server in Python."""

import base64
import json
import shutil
import signal
import ssl

import pytest
from support.engine import Engine, vllm_metrics
from support.fake_kube import kubeconfig, model_server, pod, route
from support.router import Router, wait_for
from support.slots import Slot
from support.tls import Authority
from support.wire import Conn, request_bytes
from support.writable_kube import CONFIGURATION, SECRET, WritableKube

NAME = "kthena-router-webhook.golden.svc"
GOOD = {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "a"}]}]}


class World:
    """An API server, an engine behind model m-a, and routers that follow."""

    def __init__(self, folder, ready=True):
        self.slot = Slot()
        self.folder = folder
        self.kube = WritableKube((self.slot.ip(150), 6443))
        self.kube.add_configuration()
        self.engine = Engine(self.slot.ip(1), name="a-1", metrics=vllm_metrics())
        for kind, item in (("modelservers", model_server("ms-a", "a")), ("modelroutes", route("mr-a", "m-a", "ms-a")),
                           ("pods", pod("a-1", self.slot.ip(1), "a", ready=ready))):
            item["metadata"].update(generation=1, uid="uid-" + item["metadata"]["name"])
            self.kube.put(kind, item)
        self.routers = []

    def start(self, *flags, slot=None, **more):
        config = kubeconfig(self.folder, self.kube.url, {})
        self.routers.append(Router(kubeconfig=config, flags=flags, slot=slot or self.slot, **more))
        return self.routers[-1]

    def secret(self, key):
        item = self.kube.singles.get(SECRET.format("golden"))
        return item and base64.b64decode(item["data"][key]).decode()

    def close(self, check):
        try:
            for router in self.routers:
                router.stop(check)
        finally:
            self.engine.stop()
            self.kube.stop()
            self.slot.release()


@pytest.fixture(name="world")
def _world(starter, tmp_path):
    return starter(lambda **more: World(tmp_path, **more))


def review(router, trust, spec, kind="modelroute", name=NAME):
    """The `response` of a review over TLS, with the certificate checked."""
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {"uid": "u-1", "object": {"spec": spec}}}
    with Conn((router.host, 8443), trust, name) as conn:
        conn.send(request_bytes("POST", f"/validate/{kind}?timeout=30s", body, [("Content-Type", "application/json")]))
        answer = conn.read_response()
    assert answer.status == 200, answer.text
    parsed = json.loads(answer.text)
    assert parsed["kind"] == "AdmissionReview" and parsed["request"] == body["request"]
    return parsed["response"]


def test_a_certificate_is_made_stored_and_trusted_and_reviews_are_answered(world):
    made = world()
    router = made.start()
    hooks = wait_for(lambda: [h for h in made.kube.singles[CONFIGURATION]["webhooks"]
                              if h["clientConfig"].get("caBundle")], 10, "the CA in the configuration")
    ca = made.secret("ca.crt")
    assert [base64.b64decode(h["clientConfig"]["caBundle"]).decode() for h in hooks] == [ca] * 3
    assert [h["clientConfig"]["service"]["name"] for h in hooks] == ["kthena-router-webhook"] * 3
    secret = made.kube.singles[SECRET.format("golden")]
    assert secret["type"] == "kubernetes.io/tls" and sorted(secret["data"]) == ["ca.crt", "tls.crt", "tls.key"]
    trust = ssl.create_default_context(cadata=ca)
    assert review(router, trust, GOOD) == {"uid": "u-1", "allowed": True}
    assert review(router, trust, GOOD, name="kthena-router-webhook.golden.svc.cluster.local")["allowed"]
    assert review(router, trust, {"loraAdapters": [""]}) == {
        "uid": "u-1", "allowed": False, "status": {"metadata": {}, "message":
            'validation failed:\n  - spec.loraAdapters[0]: Invalid value: "": lora adapter name cannot be an empty string'}}
    assert review(router, trust, {}, "modelserver")["status"]["message"] == (
        "validation failed:   - spec.workloadSelector: Required value: workloadSelector must be specified")
    assert router.metric("warmroute_webhook_reviews_total", outcome="denied") == 2
    assert router.metric("warmroute_webhook_certificate_expiry_seconds") > 2e9
    assert router.chat().status == 200


def test_the_secret_of_before_is_taken(world, tmp_path):
    made = world()
    authority = Authority(tmp_path)
    files = authority.issue("hook", f"DNS:{NAME}")
    texts = {"tls.crt": files[0], "tls.key": files[1], "ca.crt": authority.cert}
    made.kube.store(SECRET.format("golden"), {"metadata": {"name": "kthena-router-webhook-certs"}, "data": {
        key: base64.b64encode(open(path, "rb").read()).decode() for key, path in texts.items()}})
    router = made.start()
    wait_for(lambda: made.kube.wrote("PATCH", "validatingwebhookconfigurations"), 10, "the CA")
    assert review(router, authority.client(), GOOD)["allowed"]
    assert made.kube.wrote("POST", "secrets") == 0


def test_a_missing_file_does_no_harm_and_is_taken_when_it_comes(world, tmp_path):
    made = world()
    made.kube.forbidden = [("GET", "secrets")]
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    router = made.start(f"--webhook-tls-cert-file={cert}", f"--webhook-tls-private-key-file={key}")
    assert router.chat().status == 200
    authority = Authority(tmp_path)
    with pytest.raises((ssl.SSLError, OSError)):
        review(router, authority.client(), GOOD)
    for source, target in zip(authority.issue("hook", f"DNS:{NAME}"), (cert, key)):
        shutil.copy(source, target)

    def answers():
        try:
            return review(router, authority.client(), GOOD)["allowed"]
        except (ssl.SSLError, OSError):
            return False
    wait_for(answers, 10, "the certificate of the files", 0.1)
    assert made.kube.wrote("POST", "secrets") == 0
    assert router.stderr().count("no certificate") == 1


def test_it_can_be_switched_off(world):
    made = world()
    router = made.start("--enable-webhook=false")
    with pytest.raises(OSError):
        Conn((router.host, 8443)).close()
    wait_for(lambda: made.kube.lease("golden"), 10, "the Lease")
    assert not [path for _, path in made.kube.writes if "secrets" in path or "webhook" in path]


def test_status_and_events_follow_what_is_there(world):
    made = world(ready=False)
    made.start(wait_ready=False)
    server = wait_for(lambda: made.kube.conditions("modelservers", "ms-a").get("Ready"), 15, "a condition")
    assert (server["status"], server["reason"], server["observedGeneration"]) == ("False", "NoReadyPods", 1)
    wait_for(lambda: made.kube.conditions("modelroutes", "mr-a").get("Ready"), 15, "the route's condition")
    route_conditions = made.kube.conditions("modelroutes", "mr-a")
    assert route_conditions["ResolvedRefs"]["status"] == "True"
    assert route_conditions["Ready"]["reason"] == "NoReadyPods"

    made.kube.put("pods", pod("a-1", made.slot.ip(1), "a"))
    wait_for(lambda: made.kube.conditions("modelroutes", "mr-a")["Ready"]["status"] == "True", 15, "the route is ready")
    since = made.kube.conditions("modelroutes", "mr-a")["Ready"]["lastTransitionTime"]

    def rename(item):  # a change that no condition shows
        item["spec"]["rules"][0]["name"] = "other"
        item["metadata"]["generation"] = 2
    made.kube.edit("modelroutes", "mr-a", rename)
    wait_for(lambda: made.kube.conditions("modelroutes", "mr-a")["Ready"]["observedGeneration"] == 2, 15, "seen")
    assert made.kube.conditions("modelroutes", "mr-a")["Ready"]["lastTransitionTime"] == since
    made.kube.delete("modelservers", "ms-a")
    wait_for(lambda: made.kube.conditions("modelroutes", "mr-a")["ResolvedRefs"]["status"] == "False", 15, "missing")
    condition = made.kube.conditions("modelroutes", "mr-a")["Ready"]
    assert condition["message"] == "there is no ModelServer golden/ms-a"

    wait_for(lambda: any(e["reason"] == "ModelServerNotFound" for e in made.kube.events), 10, "the Event")
    told = [(e["regarding"]["name"], e["type"], e["reason"]) for e in made.kube.events]
    assert len(told) == len(set(told))
    assert {("ms-a", "Warning", "NoReadyPods"), ("mr-a", "Normal", "Ready"),
            ("mr-a", "Warning", "ModelServerNotFound")} <= set(told)
    for event in made.kube.events:
        assert event["metadata"]["namespace"] == "golden" and event["reportingController"] and event["eventTime"]


def test_an_object_that_cannot_be_used_says_why(world):
    made = world()
    broken = model_server("ms-b", "b")
    broken["metadata"].update(generation=3, uid="uid-ms-b")
    broken["spec"]["workloadSelector"]["matchLabels"] = {}
    made.kube.put("modelservers", broken)
    made.start()
    condition = wait_for(lambda: made.kube.conditions("modelservers", "ms-b").get("Ready"), 15, "a condition")
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("False", "Invalid", 3)
    assert condition["message"].startswith("spec.workloadSelector.matchLabels: ")
    wait_for(lambda: any(e["reason"] == "Invalid" and e["regarding"]["uid"] == "uid-ms-b" for e in made.kube.events),
             10, "the Event")

    def mend(item):
        item["spec"]["workloadSelector"]["matchLabels"] = {"app": "b"}
        item["metadata"]["generation"] = 4
    made.kube.edit("modelservers", "ms-b", mend)
    wait_for(lambda: made.kube.conditions("modelservers", "ms-b")["Ready"]["reason"] == "NoPodSelected", 15, "mended")
    assert made.kube.conditions("modelservers", "ms-b")["Ready"]["observedGeneration"] == 4


def test_one_of_two_replicas_leads_and_the_other_follows_at_once(world):
    made = world()
    other = Slot()
    try:
        first = made.start()
        wait_for(lambda: made.kube.lease("golden"), 10, "the Lease")
        second = made.start(slot=other)
        wait_for(lambda: made.kube.conditions("modelservers", "ms-a"), 10, "status")
        assert (first.metric("warmroute_leader"), second.metric("warmroute_leader")) == (1, 0)
        assert made.kube.wrote("POST", "secrets") == 1
        writes = made.kube.wrote("PATCH", "/status")
        first.signal(signal.SIGTERM)
        wait_for(lambda: second.metric("warmroute_leader") == 1, 10, "the second leads")
        made.kube.delete("pods", "a-1")
        wait_for(lambda: made.kube.conditions("modelservers", "ms-a")["Ready"]["reason"] == "NoPodSelected", 15,
                 "status by the second")
        assert made.kube.wrote("PATCH", "/status") > writes
        assert made.kube.lease("golden")["spec"]["leaseTransitions"] == 1
        first.wait_exit(20)
    finally:
        other.release()


def test_rights_of_the_old_chart_are_enough_to_route(world):
    """No Leases, no Events, Secrets by create and get alone, CRDs without conditions: row 54."""
    made = world()
    made.kube.drops_conditions = True
    made.kube.forbidden = [(method, part) for part in ("leases", "events") for method in ("GET", "POST", "PATCH")]
    made.kube.forbidden += [("PATCH", "secrets")]
    router = made.start()
    wait_for(lambda: made.kube.wrote("GET", "leases"), 10, "the question for the Lease")
    wait_for(lambda: made.secret("ca.crt"), 10, "the Secret")
    trust = ssl.create_default_context(cadata=made.secret("ca.crt"))
    wait_for(lambda: made.kube.wrote("PATCH", "validatingwebhookconfigurations"), 10, "the CA")
    assert review(router, trust, GOOD)["allowed"]
    assert router.chat().status == 200
    assert router.metric("warmroute_leader") == 0
    assert made.kube.wrote("PATCH", "/status") == 0 and not made.kube.events
    assert router.stderr().count("no status, no Events and no renewal") == 1


def test_crds_that_drop_conditions_get_one_write_of_each_kind(world):
    made = world()
    made.kube.drops_conditions = True
    made.kube.put("modelroutes", {**route("mr-b", "m-b", "ms-a")})
    router = made.start()
    wait_for(lambda: router.stderr().count("drops status.conditions") == 2, 15, "both kinds")
    made.kube.delete("pods", "a-1")
    wait_for(lambda: {e["reason"] for e in made.kube.events} == {"NoPodSelected", "NoReadyPods"}, 15, "Events go on")
    assert made.kube.wrote("PATCH", "/status") == 2


def test_without_pod_namespace_outside_of_a_cluster_nothing_is_written(world):
    made = world()
    router = made.start(env={"POD_NAMESPACE": ""})
    assert router.chat().status == 200
    wait_for(lambda: "POD_NAMESPACE is not set" in router.stderr(), 10, "the reason")
    assert not made.kube.writes
