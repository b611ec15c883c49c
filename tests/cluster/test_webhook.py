"""The admission webhook, called by a real API server in both forms of its configuration."""

import base64
import copy

import pytest
import yaml
from support import helm, world
from support.cluster.api import ApiError
from support.cluster.stage import Stage
from support.router import wait_for

NAMESPACE = "webhook"
KINDS = ("modelroute", "modelserver", "externalmodelprovider")
CONFIGURATION = "kthena-router-validating-webhook"


@pytest.fixture(name="stage", scope="module")
def _stage(plane, crds):
    """A router that the API server reaches by a URL, with a certificate from files; for one namespace."""
    stage = Stage(plane, NAMESPACE)
    host, port = stage.slot.ip(200), 8443
    certificate, key = plane.pki.authority.issue("webhook", f"IP:{host}")
    stage.webhook = stage.router(env={"POD_NAMESPACE": NAMESPACE}, flags=[
        "--enable-webhook=true", f"--webhook-port={port}", f"--webhook-tls-cert-file={certificate}",
        f"--webhook-tls-private-key-file={key}", "--cert-secret-name=none-here"])
    bundle = base64.b64encode(plane.pki.ca.read_bytes()).decode()
    stage.api.apply({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "by-url"}, "webhooks": [{
            "name": f"{kind}.by-url.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": f"https://{host}:{port}/validate/{kind}", "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "rules": [{"apiGroups": ["networking.serving.volcano.sh"], "apiVersions": ["v1alpha1"],
                       "operations": ["CREATE", "UPDATE"], "resources": [f"{kind}s"], "scope": "Namespaced"}],
        } for kind in KINDS]})

    def answers():
        try:
            stage.api.create(route(), dryRun="All")
            return True
        except ApiError as error:
            assert "failed calling webhook" in error.message, error
            return False
    wait_for(answers, 20, "the webhook", 0.2)
    yield stage
    stage.api.delete("ValidatingWebhookConfiguration", "by-url")
    stage.close()


def route(**spec):
    document = yaml.safe_load(world.route("mr-a", "m-a", "ms-a", NAMESPACE))
    document["spec"].update(spec)
    return document


def server(**spec):
    document = yaml.safe_load(world.model_server("ms-a", "a", namespace=NAMESPACE))
    document["spec"].update(spec)
    return document


def provider(**spec):
    return {"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ExternalModelProvider",
            "metadata": {"name": "emp-a", "namespace": NAMESPACE},
            "spec": {"providerType": "OpenAI", "baseURL": "https://api.example.com",
                     "auth": {"scheme": "Bearer", "secretRef": {"name": "s", "key": "k"}}, **spec}}


def target(**members):
    return [{"name": "r", "targetModels": [{"modelServerName": "ms-a", **members}]}]


@pytest.mark.parametrize("document", [route(), server(), route(loraAdapters=["lora-a"]), route(rules=target(weight=1))])
def test_valid_objects_are_let_through(stage, document):
    stage.api.create(document, dryRun="All")


def denied(stage):
    return stage.webhook.metric("warmroute_webhook_reviews_total", outcome="denied")


@pytest.mark.parametrize("document, problem", [
    (route(loraAdapters=["", "b"]), 'spec.loraAdapters[0]: Invalid value: "": lora adapter name cannot be an empty string'),
    (route(rules=target(weight=0)), "total weight must be greater than zero"),
    (route(rules=[{**target()[0], "modelMatch": {"headers": {"x": {"regex": "("}}}}]),
     "spec.rules[0].modelMatch.headers[x].regex: Invalid value"),
    (route(rules=[{**target()[0], "modelMatch": {"uri": {"regex": "a(b"}}}]), "spec.rules[0].modelMatch.uri.regex"),
    (route(loraAdapters=["a"], rules=[{"name": "r", "targetModels": [{"externalModelProviderName": "e"}]}]),
     "lora routes must target modelServerName"),
    (server(workloadSelector={"matchLabels": {"app": "not a label"}}), "invalid selector"),
])
def test_what_the_spec_refuses_is_refused(stage, document, problem):
    before = denied(stage)
    for dry in ({"dryRun": "All"}, {}):  # a dry run is judged, too
        with pytest.raises(ApiError) as error:
            stage.api.create(copy.deepcopy(document), **dry)
        assert " denied the request: validation failed:" in error.value.message
        assert problem in error.value.message
    # The chart's webhook, where it is installed, may have said it first; this one was asked in any case.
    wait_for(lambda: denied(stage) == before + 2, 5, "both reviews counted")


def test_an_update_is_judged(stage):
    stage.apply(route())
    with pytest.raises(ApiError) as error:
        stage.patch("ModelRoute", "mr-a", {"spec": {"loraAdapters": [""]}})
    assert "lora adapter name cannot be an empty string" in error.value.message
    stage.delete("ModelRoute", "mr-a")


def test_certificate_made_at_installation(release):
    """Mode `auto`: the Secret has its three keys, and its CA is in all three entries of the configuration."""
    secret = release.plane.api.get("Secret", "kthena-router-webhook-certs", helm.NAMESPACE)
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"} and secret["type"] == "kubernetes.io/tls"
    entries = release.plane.api.get("ValidatingWebhookConfiguration", CONFIGURATION)["webhooks"]
    assert [entry["name"] for entry in entries] == [f"validate-{kind}.volcano.sh" for kind in KINDS]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {secret["data"]["ca.crt"]}
