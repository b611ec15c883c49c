"""Status, Events and the Lease on a real API server; and what happens without the rights or the schema for them."""

import copy

import pytest
from fleet import SMALL, ok
from support.cluster.api import Api
from support.cluster.control_plane import kubectl
from support.helm import CHART, NAMESPACE
from support.router import wait_for

pytestmark = pytest.mark.usefixtures("clean_routes")
MODEL = "deepseek-status"
GROUP = "networking.serving.volcano.sh"
# What kthena's chart grants (Gateway API off).
OLD_CLUSTER_ROLE = [
    {"apiGroups": [GROUP], "resources": ["modelroutes", "modelservers", "externalmodelproviders"],
     "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]},
    {"apiGroups": [GROUP], "resources": ["modelroutes/status", "modelservers/status", "externalmodelproviders/status"],
     "verbs": ["get", "patch", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
     "verbs": ["get", "update", "patch"]},
    {"apiGroups": [""], "resources": ["services", "services/status"], "verbs": ["*"]},
]
OLD_ROLE = [
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["kthena-router-webhook-certs"], "verbs": ["get"]},
]


def conditions(fleet, kind, name):
    found = fleet.api.get(kind, name, fleet.namespace).get("status", {}).get("conditions", [])
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in found}


def test_conditions_and_events(fleet, release):
    fleet.target(MODEL, "deepseek-r1-1-5b")
    wait_for(lambda: conditions(fleet, "ModelRoute", MODEL).get("Ready", ("",))[0] == "True", 20, "the route's condition")
    wait_for(lambda: conditions(fleet, "ModelServer", "deepseek-r1-1-5b").get("Ready", ("",))[0] == "True", 20, "the server's")
    fleet.target(MODEL, "nobody")
    wait_for(lambda: conditions(fleet, "ModelRoute", MODEL).get("ResolvedRefs") == ("False", "ModelServerNotFound"), 20,
             "a reference that leads nowhere")

    def told():
        events = fleet.api.list("Event", fleet.namespace)
        return any(event["involvedObject"]["name"] == MODEL and event["reason"] == "ModelServerNotFound" for event in events)
    wait_for(told, 20, "the Event")


def test_one_of_the_replicas_leads(release):
    kubectl(release.plane, "scale", "deployment/kthena-router", "-n", NAMESPACE, "--replicas=2")
    try:
        release.wait_available()
        wait_for(lambda: len(release.pods()) == 2, 30, "two pods")
        lease = wait_for(lambda: release.plane.api.list("Lease", NAMESPACE), 30, "the Lease")[0]
        assert lease["metadata"]["name"] == "kthena-router"
        holder = lease["spec"]["holderIdentity"]
        assert sum(pod.name in holder for pod in release.pods()) == 1, holder
    finally:
        kubectl(release.plane, "scale", "deployment/kthena-router", "-n", NAMESPACE, "--replicas=1")
        wait_for(lambda: len(release.pods()) == 1, 60, "one pod")


@pytest.fixture(name="old_schema")
def _old_schema(plane):
    """The CRDs as kthena has them: without status.conditions."""
    for kind in ("modelroutes", "modelservers"):
        path = Api.path("CustomResourceDefinition", name=f"{kind}.{GROUP}")
        definition = copy.deepcopy(plane.api.call("GET", path))
        for version in definition["spec"]["versions"]:
            status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
            status.get("properties", {}).pop("conditions", None)
        plane.api.call("PUT", path, definition)
    yield
    kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", CHART / "crds")


@pytest.fixture(name="old_rights")
def _old_rights(plane, release):
    """Exactly what the old chart's roles grant."""
    kept = {}
    for kind, rules in (("ClusterRole", OLD_CLUSTER_ROLE), ("Role", OLD_ROLE)):
        kept[kind] = plane.api.get(kind, "kthena-router", NAMESPACE)["rules"]
        plane.api.patch(kind, "kthena-router", {"rules": rules}, NAMESPACE)
    yield
    for kind, rules in kept.items():
        plane.api.patch(kind, "kthena-router", {"rules": rules}, NAMESPACE)
    release.restart()
    release.wait_available()


def test_row_54_no_permission_beyond_the_old_chart(fleet, release, old_schema, old_rights):
    """Lease and Events are refused: said once each, and everything else works."""
    plane = release.plane
    plane.api.call("DELETE", Api.path("Lease", NAMESPACE))
    release.restart()
    release.wait_available()
    wait_for(lambda: len(release.pods()) == 1, 60, "the old pod gone")
    release.wait_serving()
    fleet.target(MODEL, "deepseek-r1-1-5b")
    assert SMALL in ok(release.address(), MODEL).text
    fleet.target(MODEL, "deepseek-r1-7b")
    wait_for(lambda: "7B" in ok(release.address(), MODEL).text, 10, "the changed route", 0.1)
    (pod,) = release.pods()
    refused = wait_for(lambda: [line for line in pod.log().splitlines() if "leases" in line.lower() and "403" in line
                                or "forbidden" in line.lower()], 20, "one line about the Lease")
    assert len(refused) == 1, refused
    assert plane.api.list("Lease", NAMESPACE) == []
    assert conditions(fleet, "ModelRoute", MODEL) == {}


def test_old_schema_with_all_rights(fleet, release, old_schema):
    """A condition that does not read back is written once and then no more."""
    release.restart()
    release.wait_available()
    wait_for(lambda: len(release.pods()) == 1, 60, "the old pod gone")
    fleet.target(MODEL, "deepseek-r1-1-5b")
    (pod,) = release.pods()
    lines = wait_for(lambda: [line for line in pod.log().splitlines() if "status.conditions" in line], 40, "said in the log")
    version = fleet.api.get("ModelRoute", MODEL, fleet.namespace)["metadata"]["resourceVersion"]
    fleet.api.apply({"apiVersion": f"{GROUP}/v1alpha1", "kind": "ModelServer",
                     "metadata": {"name": "unrelated", "namespace": fleet.namespace}, "spec": {
                         "inferenceEngine": "vLLM", "workloadPort": {"port": 8000},
                         "workloadSelector": {"matchLabels": {"app": "nobody"}}}})
    assert SMALL in ok(release.address(), MODEL).text
    assert fleet.api.get("ModelRoute", MODEL, fleet.namespace)["metadata"]["resourceVersion"] == version
    assert len([line for line in pod.log().splitlines() if "status.conditions" in line]) == len(lines) <= 2
    fleet.delete("ModelServer", "unrelated")
