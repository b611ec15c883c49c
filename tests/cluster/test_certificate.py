"""The webhook's certificate in its Secret, on a real API server: made once by several replicas, renewed by one."""

import base64
import ssl

import pytest
from support.cluster.stage import Stage
from support.router import wait_for
from support.slots import Slot
from support.tls import Authority
from support.wire import Conn, request_bytes

NAMESPACE = "certificate"
NAME = f"kthena-router-webhook.{NAMESPACE}.svc"


@pytest.fixture(name="stage")
def _stage(plane, crds):
    stage = Stage(plane, NAMESPACE)
    stage.slots = [Slot(one_digit=True), Slot(one_digit=True)]
    yield stage
    try:
        for name in ("Secret", "kthena-router-webhook-certs"), ("Lease", "kthena-router"):
            stage.api.delete(*name, NAMESPACE, missing_ok=True)
        stage.close()
    finally:
        for slot in stage.slots:
            slot.release()


def start(stage, slot, **env):
    return stage.router(flags=["--enable-webhook=true"], slot=slot, env={"POD_NAMESPACE": NAMESPACE, **env})


def secret(stage):
    data = stage.api.get("Secret", "kthena-router-webhook-certs", NAMESPACE)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def answers(router, trust):
    try:
        with Conn((router.host, 8443), trust, NAME) as conn:
            conn.send(request_bytes("GET", "/healthz"))
            return conn.read_response("GET").text == "ok"
    except OSError:
        return False


def test_replicas_that_start_together_show_one_certificate(stage):
    routers = [start(stage, slot, HOSTNAME=name) for slot, name in zip(stage.slots, ("a", "b"))]
    wait_for(lambda: all(r.metric("warmroute_webhook_certificate_expiry_seconds") for r in routers), 20, "certificates")
    trust = ssl.create_default_context(cadata=secret(stage)["ca.crt"])
    assert all(answers(router, trust) for router in routers)
    wait_for(lambda: sum(r.metric("warmroute_leader") for r in routers) == 1, 20, "one leader")


def test_the_leader_renews_and_the_old_authority_stays_trusted(stage, tmp_path):
    authority = Authority(tmp_path, "kthena-webhook-ca")
    files = authority.issue("hook", "DNS:another-name.svc")  # as good a reason as an end that is near
    texts = {"tls.crt": files[0], "tls.key": files[1], "ca.crt": authority.cert}
    old = {key: open(path, encoding="ascii").read() for key, path in texts.items()}
    stage.api.create({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                      "metadata": {"name": "kthena-router-webhook-certs", "namespace": NAMESPACE},
                      "data": {key: base64.b64encode(text.encode()).decode() for key, text in old.items()}})
    routers = [start(stage, slot, HOSTNAME=name) for slot, name in zip(stage.slots, ("a", "b"))]
    renewed = wait_for(lambda: secret(stage)["tls.crt"] != old["tls.crt"] and secret(stage), 60, "the renewal", 0.5)
    assert renewed["ca.crt"].count("BEGIN CERTIFICATE") == 2
    assert "".join(old["ca.crt"].split()) in "".join(renewed["ca.crt"].split())
    trust = ssl.create_default_context(cadata=renewed["ca.crt"])
    wait_for(lambda: all(answers(router, trust) for router in routers), 60, "both show it, without a restart", 0.5)
