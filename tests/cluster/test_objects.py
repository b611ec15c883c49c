"""Our CRDs and everything that the chart renders, given to a real API server."""

import pathlib

import pytest
import yaml
from support.cluster.api import ApiError
from support.cluster.control_plane import kubectl
from support.cluster.stage import Stage, ensure_namespace
from support.helm import NAMESPACE, VALUES, Helm
from support import world

GROUP = "networking.serving.volcano.sh"
# Of other projects: objects of theirs are in the chart, their definitions are not here.
FOREIGN = {"ServiceMonitor": ("monitoring.coreos.com", "v1"), "Certificate": ("cert-manager.io", "v1"),
           "Issuer": ("cert-manager.io", "v1")}


def foreign_definition(kind):
    group, version = FOREIGN[kind]
    plural = kind.lower() + "s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced",
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                     "versions": [{"name": version, "served": True, "storage": True, "schema": schema}]}}


@pytest.fixture(name="foreign", scope="module")
def _foreign(plane):
    for kind in FOREIGN:
        plane.api.apply(foreign_definition(kind))
    for kind, (group, _) in FOREIGN.items():
        kubectl(plane, "wait", "--for=condition=Established", "--timeout=30s", f"crd/{kind.lower()}s.{group}")


@pytest.mark.parametrize("values", sorted(path.stem for path in pathlib.Path(VALUES).glob("*.yaml")))
def test_the_api_server_takes_what_the_chart_renders(plane, crds, foreign, values, tmp_path):
    """First as a dry run with strict checks, then for good, in order; all of it goes again."""
    ensure_namespace(plane.api, NAMESPACE)
    text = Helm(tmp_path).template("--values", VALUES / f"{values}.yaml", "--skip-crds")
    # No webhook answers here; its configuration would refuse the objects of other tests.
    documents = [d for d in yaml.safe_load_all(text) if d]
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 0
    text = yaml.safe_dump_all(documents)
    arguments = ("--server-side", "--validate=strict", "-f", "-")
    try:
        kubectl(plane, "apply", "--dry-run=server", *arguments, data=text)
        kubectl(plane, "apply", *arguments, data=text)
    finally:
        kubectl(plane, "delete", "--ignore-not-found", "--wait=true", "-f", "-", data=text)


def test_crds_apply_and_print_their_columns(plane, crds):
    stage = Stage(plane, "objects")
    try:
        stage.apply(world.model_server("ms-a", "a", namespace="objects"))
        heads = kubectl(plane, "get", "modelservers", "-n", "objects").splitlines()[0].split()
        assert heads == ["NAME", "ENGINE", "PORT", "PROTOCOL", "AGE"]
    finally:
        stage.close()


@pytest.fixture(name="stage")
def _stage(plane, crds):
    stage = Stage(plane, "objects")
    yield stage
    stage.close()


def refused(stage, document, change=None):
    with pytest.raises(ApiError) as error:
        if change:
            stage.patch(*document, change)
        else:
            stage.apply(document)
    return error.value


def route_with(**spec):
    document = yaml.safe_load(world.route("mr-a", "m-a", "ms-a", "objects"))
    document["spec"].update(spec)
    return document


def test_model_name_is_immutable(stage):
    stage.apply(world.route("mr-a", "m-a", "ms-a", "objects"))
    error = refused(stage, ("ModelRoute", "mr-a"), {"spec": {"modelName": "m-b"}})
    assert error.status == 422
    assert error.message.endswith("modelName is immutable")


@pytest.mark.parametrize("spec, words", [
    ({"rules": [{"targetModels": [{"weight": 1}]}]}, "exactly one of modelServerName or externalModelProviderName"),
    ({"rules": [{"targetModels": [{"modelServerName": "a", "externalModelProviderName": "b"}]}]},
     "exactly one of modelServerName or externalModelProviderName"),
    ({"rules": [{"targetModels": [{"modelServerName": "a", "weight": 101}]}]}, "less than or equal to 100"),
    ({"rules": [{"targetModels": [{"modelServerName": "a"}]}] * 17}, "must have at most 16 items"),
    ({"rules": [{"targetModels": [{"modelServerName": "a"}] * 17}]}, "must have at most 16 items"),
    ({"loraAdapters": [f"lora-{i}" for i in range(11)]}, "must have at most 10 items"),
])
def test_schema_refuses(stage, spec, words):
    error = refused(stage, route_with(**spec))
    assert error.status == 422 and words in error.message, error.message


def test_defaults_are_filled_in(stage):
    stage.apply(route_with(rateLimit={"inputTokensPerUnit": 5}))
    spec = stage.api.get("ModelRoute", "mr-a", "objects")["spec"]
    assert spec["rules"][0]["targetModels"][0]["weight"] == 100
    assert spec["rateLimit"]["unit"] == "second"
    server = yaml.safe_load(world.model_server("ms-a", "a", namespace="objects"))
    server["spec"]["kvConnector"] = {}
    stage.apply(server)
    assert stage.api.get("ModelServer", "ms-a", "objects")["spec"]["kvConnector"]["type"] == "http"
