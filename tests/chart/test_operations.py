"""Rights, confinement, draining, scaling, monitoring, notes."""

import contextlib
import http.server
import json
import re
import shutil
import threading

import pytest
import yaml
from support.helm import CHART, NAMESPACE, RELEASE, SOURCE, VALUES, Objects

NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))


def rights(role):
    """{(group, resource, name or ""): verbs}"""
    found = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    key = group, resource, name
                    assert key not in found, f"{key} is there twice"
                    found[key] = set(rule["verbs"])
    return found


READ = {"get", "list", "watch"}
CRDS = "networking.serving.volcano.sh"


def test_cluster_rights(render):
    minimum = {
        **{(CRDS, resource, ""): READ for resource in ("modelroutes", "modelservers")},
        **{(CRDS, f"{resource}/status", ""): {"patch"} for resource in ("modelroutes", "modelservers")},
        ("", "pods", ""): READ,
        ("events.k8s.io", "events", ""): {"create"}}
    webhook = {("admissionregistration.k8s.io", "validatingwebhookconfigurations", "kthena-router-validating-webhook"):
               {"get", "patch"}}
    gateway = {
        ("gateway.networking.k8s.io", "gatewayclasses", ""): READ | {"create"},
        ("gateway.networking.k8s.io", "gateways", ""): READ | {"create"},
        ("gateway.networking.k8s.io", "httproutes", ""): READ,
        **{("gateway.networking.k8s.io", f"{resource}/status", ""): {"patch", "update"}
           for resource in ("gatewayclasses", "gateways", "httproutes")},
        ("", "namespaces", ""): READ,
        ("inference.networking.k8s.io", "inferencepools", ""): READ,
        ("inference.networking.k8s.io", "inferencepools/status", ""): {"patch", "update"}}
    role = ("ClusterRole", "kthena-router")
    assert rights(render("default")[role]) == {**minimum, **webhook}
    assert rights(render("gateway")[role]) == {**minimum, **gateway}
    assert rights(render("production")[role]) == {**minimum, **webhook, ("", "secrets", ""): {"list", "watch"}}


def test_rights_in_the_namespace(render):
    lease = {("coordination.k8s.io", "leases", ""): {"create"},
             ("coordination.k8s.io", "leases", "kthena-router"): {"get", "patch"}}
    secret = "", "secrets", "kthena-router-webhook-certs"
    role = ("Role", "kthena-router")
    assert rights(render("default")[role]) == {**lease, ("", "secrets", ""): {"create"}, secret: {"get", "patch"}}
    assert rights(render("manual")[role]) == {**lease, secret: {"get"}}
    assert rights(render("cert-manager")[role]) == {**lease, secret: {"get"}}
    assert rights(render("gateway")[role]) == lease


@pytest.mark.parametrize("values", NAMES)
def test_bindings(render, values):
    objects = render(values)
    assert objects.pod["serviceAccountName"] == "kthena-router"
    for kind in ("Role", "ClusterRole"):
        binding = objects[kind + "Binding", "kthena-router"]
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "kthena-router"}
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "kthena-router", "namespace": NAMESPACE}]


@pytest.mark.parametrize("values", NAMES)
def test_confinement(render, values):
    objects = render(values)
    pod = objects.pod["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"], pod["runAsGroup"]) == (True, 65532, 65532)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert objects.container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    # What is written to is a volume of its own; all others are read-only.
    writable = {m["mountPath"] for m in objects.container["volumeMounts"] if not m.get("readOnly")}
    assert writable == ({"/var/log/router"} if values == "production" else set())


@pytest.mark.parametrize("values", NAMES)
def test_volumes_and_mounts_belong_together(render, values):
    objects = render(values)
    assert sorted(v["name"] for v in objects.pod["volumes"]) == sorted(
        m["name"] for m in objects.container["volumeMounts"])


def seconds(text):
    return sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", text))


@pytest.mark.parametrize("values", NAMES)
def test_draining(render, values):
    """Requests may take the whole drain time before the kubelet kills; no pod goes before another is ready."""
    objects = render(values)
    needed = seconds(objects.env["WARMROUTE_DRAIN_DELAY"]) + seconds(objects.env["DRAIN_TIMEOUT"])
    assert objects.pod["terminationGracePeriodSeconds"] > needed
    assert objects.deployment["spec"]["strategy"] == {
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert "lifecycle" not in objects.container


def test_disruption_budget(render):
    budget = render("default")["PodDisruptionBudget", "kthena-router"]["spec"]
    assert (budget["maxUnavailable"], budget.get("minAvailable")) == (1, None)
    budget = render("production")["PodDisruptionBudget", "kthena-router"]["spec"]
    assert (budget.get("maxUnavailable"), budget["minAvailable"]) == (None, "50%")
    assert ("PodDisruptionBudget", "kthena-router") not in render("gateway")


def test_autoscaling(render):
    assert render("default").deployment["spec"]["replicas"] == 1
    assert not [kind for kind, _ in render("default") if kind == "HorizontalPodAutoscaler"]
    scaler = render("production")["HorizontalPodAutoscaler", "kthena-router"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kthena-router"}
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 10)
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    assert "replicas" not in render("production").deployment["spec"], "an upgrade would undo the scaler's work"
    (metric,) = render("manual")["HorizontalPodAutoscaler", "kthena-router"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "kthena_router_active_downstream_requests"


def test_network_policy(render):
    assert not [kind for kind, _ in render("default") if kind == "NetworkPolicy"]
    objects = render("production")
    policy = objects["NetworkPolicy", "kthena-router"]["spec"]
    template = objects.deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= template.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["egress"] == [{}]
    opened = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    assert set(opened) == {8080, 9090, 8443, 8081}
    assert opened[8443] is None and opened[8080] != opened[9090]
    policy = render("default", "--set", "networking.kthenaRouter.networkPolicy.enabled=true")[
        "NetworkPolicy", "kthena-router"]["spec"]
    assert policy["policyTypes"] == ["Ingress"] and "egress" not in policy


def test_service_monitor(render):
    objects = render("production")
    monitor = objects["ServiceMonitor", "kthena-router"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    service = objects["Service", "kthena-router-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "path": "/metrics", "interval": "15s"}]
    assert ("ServiceMonitor", "kthena-router") not in render("default")


@pytest.fixture(name="dashboard", scope="module")
def _dashboard(render):
    return json.loads(render("default")["ConfigMap", "kthena-router-dashboard"]["data"]["kthena-score-plugins.json"])


def test_dashboard_panels(dashboard):
    assert (dashboard["uid"], dashboard["refresh"], dashboard["time"]["from"]) == ("kthena-score-plugins", "30s", "now-1h")
    assert [p["title"] for p in dashboard["panels"] if p["type"] != "row"] == [
        "Prefix cache hit rate", "Prefix match ratio p50/p90/p99", "Prefix cache entries & eviction rate",
        "KV cache hit rate", "Redis lookup latency p50/p99", "Tokenize latency p50/p99",
        "KV cache match ratio p50/p90/p99", "KV cache error rate by stage"]
    variables = {v["name"]: v for v in dashboard["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["model"]["query"]["query"] == (
        "label_values(kthena_router_prefix_cache_match_ratio_count, model)")
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_dashboard_expressions(dashboard):
    known = set(re.findall(r"`(kthena_router_\w+)`", (SOURCE / "docs/metrics.md").read_text(encoding="utf-8")))
    known |= {"kthena_router_kvcache_aware_" + name for name in (
        "match_ratio", "redis_duration_seconds", "tokenize_duration_seconds", "errors_total")}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            assert expression.count("(") == expression.count(")")
            for name in re.findall(r"kthena_router_\w+", expression):
                assert name in known or re.sub("_(bucket|count)$", "", name) in known, name
            assert set(re.findall(r"\[(\d\w+)\]", expression)) <= {"5m"}
        if panel["title"].endswith("hit rate"):
            (target,) = panel["targets"]
            pattern = re.search(r'_bucket\{[^}]*le=~"([^"]+)"', target["expr"])[1]
            # Prometheus 2 keeps the exposition's 0, version 3 writes 0.0; its matchers are anchored.
            assert [le for le in ("0", "0.0", "0.1", "0.05", "10", "1", "+Inf", "0x0") if re.fullmatch(pattern, le)] == [
                "0", "0.0"]


class KubernetesWithController(http.server.BaseHTTPRequestHandler):
    """Just enough of an API server for helm: it can be reached, and has the Deployment of kthena's workload controller."""

    owner = ""

    def do_GET(self):  # pylint: disable=invalid-name
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "kthena-controller-manager", "namespace": NAMESPACE,
            "annotations": {"meta.helm.sh/release-name": self.owner}}}
        resources = [{"name": "deployments", "singularName": "deployment", "namespaced": True, "kind": "Deployment",
                      "verbs": ["get"]}]
        answers = {
            "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                 "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]},
            "/apis/apps/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1",
                              "resources": resources},
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/kthena-controller-manager": deployment}
        answer = answers.get(self.path.split("?")[0])
        body = json.dumps(answer or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                                     "code": 404}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(name="cluster")
def _cluster(tmp_path):
    """cluster(OWNER): the environment for helm to reach a cluster where OWNER's release has the controller."""
    with contextlib.ExitStack() as stack:
        def start(owner):
            handler = type("Handler", (KubernetesWithController,), {"owner": owner})
            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            config = tmp_path / "kubeconfig"
            config.write_text(yaml.safe_dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]}))
            return {"KUBECONFIG": str(config)}
        yield start


def test_notes_name_both_paths(helm, cluster, tmp_path):
    """Of a copy without objects, which helm would want to check against a real API server."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, ignore=lambda folder, names: [
        name for name in names if folder.endswith(("/templates", "/crds")) and name not in ("NOTES.txt", "_helpers.tpl")])
    environment = cluster("kthena")

    def notes(*arguments):
        done = helm.run("install", RELEASE, chart, "--namespace", NAMESPACE, "--dry-run=client", *arguments,
                        environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("NOTES:\n")[1]
    text = notes()
    assert "image.repository=" in text and "networking.enabled=false" in text
    assert "Never upgrade the old parent release" in text
    assert "names kthena's own router" not in text
    assert "names kthena's own router" in notes("--values", VALUES / "existing-release.yaml")


@pytest.mark.parametrize("owner, refused", [(RELEASE, True), ("kthena", False)])
def test_an_upgrade_never_removes_the_workload_controller(helm, cluster, owner, refused):
    done = helm.run("template", RELEASE, CHART, "--namespace", NAMESPACE, "--is-upgrade", "--dry-run=server",
                    environment=cluster(owner))
    if refused:
        assert done.returncode != 0 and "would remove its workload controller" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert Objects(done.stdout).deployment
