"""What users of kthena's chart rely on: names, labels, values, arguments, variables, probes, certificate modes."""

import os
import pathlib
import re
import subprocess
import tempfile

import pytest
import yaml
from support.helm import CHART, NAMESPACE, RELEASE, SOURCE, VALUES

NETWORKING = "networking.kthenaRouter."
SELECTOR = {"app.kubernetes.io/component": "kthena-router", "app.kubernetes.io/name": "networking",
            "app.kubernetes.io/instance": RELEASE}
# The flags that kthena-router knows; others stop it (its klog ones besides -v are left out).
KTHENA_FLAGS = {"port", "tls-cert", "tls-key", "enable-webhook", "enable-gateway-api",
                "enable-gateway-api-inference-extension", "webhook-port", "webhook-tls-cert-file",
                "webhook-tls-private-key-file", "cert-secret-name", "webhook-service-name", "debug-port", "metrics-port",
                "expose-metrics-on-router-port", "kube-api-qps", "kube-api-burst", "v"}


def set_values(**values):
    return [part for key, value in values.items() for part in ("--set", NETWORKING + key.replace("__", ".") + "=" + value)]


def test_names(render):
    assert {("Deployment", "kthena-router"), ("Service", "kthena-router"), ("Service", "kthena-router-metrics"),
            ("Service", "kthena-router-webhook"), ("ConfigMap", "kthena-router-config"),
            ("ServiceAccount", "kthena-router"), ("ClusterRole", "kthena-router"),
            ("ClusterRoleBinding", "kthena-router"), ("Role", "kthena-router"), ("RoleBinding", "kthena-router"),
            ("ValidatingWebhookConfiguration", "kthena-router-validating-webhook")} <= set(render("default"))


def test_an_existing_release_gets_what_the_defaults_give(render):
    """Its file names kthena's image and nothing else that differs from our defaults."""
    ours, theirs = render("default"), render("existing-release")
    assert set(ours) == set(theirs)
    for key in ours:
        if key != ("Deployment", "kthena-router"):
            assert ours[key] == theirs[key]
    assert ours.container["image"] == "warmroute:0.1.0"
    assert theirs.container["image"] == "ghcr.io/volcano-sh/kthena-router:latest"
    assert {**ours.container, "image": ""} == {**theirs.container, "image": ""}


@pytest.mark.parametrize("values", ["default", "gateway", "cert-manager", "manual"])
def test_namespaced_objects_are_in_the_release_namespace(render, values):
    for (kind, _), thing in render(values).items():
        cluster_wide = kind in ("ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration")
        assert thing["metadata"].get("namespace") == (None if cluster_wide else NAMESPACE)


def test_labels_and_selectors(render):
    objects = render("default")
    for (kind, name), thing in objects.items():
        component = "kthena-router-metrics" if name == "kthena-router-metrics" else "kthena-router"
        assert {**SELECTOR, "app.kubernetes.io/component": component}.items() <= thing["metadata"]["labels"].items()
        if kind == "Service":
            assert thing["spec"]["selector"] == SELECTOR
    assert objects.deployment["spec"]["selector"]["matchLabels"] == SELECTOR
    assert SELECTOR.items() <= objects.deployment["spec"]["template"]["metadata"]["labels"].items()
    assert objects["PodDisruptionBudget", "kthena-router"]["spec"]["selector"]["matchLabels"] == SELECTOR


def test_services(render):
    objects = render("default", *set_values(port="8088", metrics__port="9191", service__type="NodePort"))
    router, metrics, webhook = (objects["Service", "kthena-router" + suffix]["spec"] for suffix in
                                ("", "-metrics", "-webhook"))
    assert (router["type"], router["ports"]) == ("NodePort", [{"name": "http", "port": 80, "targetPort": 8088}])
    assert metrics["ports"] == [{"name": "metrics", "port": 9191, "targetPort": "metrics"}]
    assert (metrics["type"], webhook["type"]) == ("ClusterIP", "ClusterIP")
    assert webhook["ports"] == [{"name": "webhook", "port": 443, "targetPort": 8443}]
    assert {"name": "metrics", "containerPort": 9191} in objects.container["ports"]
    assert (objects.args["port"], objects.args["metrics-port"]) == ("8088", "9191")


def test_configuration(render):
    objects = render("default")
    text = objects["ConfigMap", "kthena-router-config"]["data"]["routerConfiguration"]
    mine = yaml.safe_load((SOURCE / "config/routerConfiguration.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(text) == mine, "the chart's default is the program's"
    assert mine["scheduler"]["plugins"]["Score"]["enabled"] == [
        {"name": name, "weight": 1} for name in ("least-request", "gpu-usage", "least-latency", "prefix-cache")]
    assert {"name": "prefix-cache", "args": {"blockSizeToHash": 64, "maxBlocksToMatch": 128, "maxHashCacheSize": 50000,
                                             "topKMatches": 5}} in mine["scheduler"]["pluginConfig"]
    (mount,) = [m for m in objects.container["volumeMounts"] if m["name"] == "config"]
    assert (mount["mountPath"], mount["subPath"]) == ("/etc/config/routerConfiguration.yaml", "routerConfiguration")


def test_a_change_of_the_configuration_restarts_the_pods(render, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("compat: kthena\nscheduler: {}\n", encoding="utf-8")
    own = render("default", "--set-file", f"{NETWORKING}routerConfiguration={file}")
    assert own["ConfigMap", "kthena-router-config"]["data"]["routerConfiguration"] == file.read_text(encoding="utf-8")

    def checksum(objects):
        return objects.deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert checksum(own) != checksum(render("default"))
    assert checksum(render("manual")) == checksum(render("default"))


def test_flags(render):
    assert render("default").args == {
        "port": "8080", "metrics-port": "9090", "expose-metrics-on-router-port": "false", "debug-port": "15000",
        "enable-webhook": "true", "enable-gateway-api": "false", "webhook-port": "8443",
        "webhook-tls-cert-file": "/etc/tls/tls.crt", "webhook-tls-private-key-file": "/etc/tls/tls.key",
        "cert-secret-name": "kthena-router-webhook-certs", "webhook-service-name": "kthena-router-webhook"}
    for path in VALUES.glob("*.yaml"):
        flags = set(render(path.stem).args)
        assert flags - {"max-body-bytes"} <= KTHENA_FLAGS, "kthena-router would not start with this"
    gateway = render("gateway").args
    assert gateway["enable-gateway-api-inference-extension"] == "true"
    assert gateway["expose-metrics-on-router-port"] == "true"
    assert gateway["enable-webhook"] == "false" and "webhook-port" not in gateway
    production = render("production").args
    assert (production["kube-api-qps"], production["kube-api-burst"], production["v"]) == ("50", "1000000", "4")
    assert "debug-port" not in production, "0 would stop the router"


def test_variables(render):
    env = render("default").env
    assert env["POD_NAMESPACE"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert env["REDIS_HOST"] == {"configMapKeyRef": {"name": "redis-config", "key": "REDIS_HOST", "optional": True}}
    assert env["REDIS_PORT"] == {"configMapKeyRef": {"name": "redis-config", "key": "REDIS_PORT", "optional": True}}
    assert env["REDIS_PASSWORD"] == {"secretKeyRef": {"name": "redis-secret", "key": "password", "optional": True}}
    assert {name: env[name] for name in ("ACCESS_LOG_ENABLED", "ACCESS_LOG_FORMAT", "ACCESS_LOG_OUTPUT",
                                         "DRAIN_TIMEOUT")} == {
        "ACCESS_LOG_ENABLED": "true", "ACCESS_LOG_FORMAT": "text", "ACCESS_LOG_OUTPUT": "stdout", "DRAIN_TIMEOUT": "5m"}
    assert not [name for name in env if name.startswith(("ENABLE_", "FAIRNESS_", "SESSION_"))]
    fairness = {name: value for name, value in render("manual").env.items() if "FAIRNESS" in name}
    assert fairness == {"ENABLE_FAIRNESS_SCHEDULING": "true", "FAIRNESS_WINDOW_SIZE": "10m",
                        "FAIRNESS_INPUT_TOKEN_WEIGHT": "1", "FAIRNESS_OUTPUT_TOKEN_WEIGHT": "2",
                        "FAIRNESS_MAX_CONCURRENT": "32"}
    boost = {name: value for name, value in render("gateway").env.items() if "SESSION" in name}
    assert boost == {"ENABLE_SESSION_BOOST": "true", "SESSION_BOOST_HEADER": "X-Session-ID",
                     "SESSION_BOOST_MAX_SESSIONS": "1000000", "SESSION_BOOST_INFLIGHT_PER_POD": "16",
                     "SESSION_BOOST_GRACE_PERIOD": "0s", "SESSION_BOOST_TIMEOUT": "30s"}


def test_probes(render):
    for values, scheme in (("default", "HTTP"), ("cert-manager", "HTTPS"), ("production", "HTTPS"), ("manual", "HTTP")):
        container = render(values).container
        for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            assert container[probe] == {"httpGet": {"path": path, "port": 8080, "scheme": scheme},
                                        "initialDelaySeconds": 1, "periodSeconds": 5}


def test_router_tls(render):
    for values, secret in (("cert-manager", "kthena-router-tls"), ("production", "router-certificate"),
                           ("manual", None), ("default", None)):
        objects = render(values)
        mounts = {m["name"]: m["mountPath"] for m in objects.container["volumeMounts"]}
        secrets = {v["name"]: v["secret"]["secretName"] for v in objects.pod["volumes"] if "secret" in v}
        assert secrets.get("router-tls") == secret
        assert mounts.get("router-tls") == (secret and "/etc/router-tls")
        assert objects.args.get("tls-cert") == (secret and "/etc/router-tls/tls.crt")
        assert objects.args.get("tls-key") == (secret and "/etc/router-tls/tls.key")


def test_webhook_configuration(render):
    for values, bundle, port in (("default", None, 443), ("manual", "LS0tLS1CRUdJTg==", 443), ("cert-manager", None, 9443)):
        objects = render(values)
        configuration = objects["ValidatingWebhookConfiguration", "kthena-router-validating-webhook"]
        names = []
        for hook in configuration["webhooks"]:
            kind = re.fullmatch(r"validate-(\w+)\.volcano\.sh", hook["name"])[1]
            names.append(kind)
            service = {"name": "kthena-router-webhook", "namespace": NAMESPACE, "path": f"/validate/{kind}", "port": port}
            assert hook["clientConfig"] == {"service": service, **({"caBundle": bundle} if bundle else {})}
            assert hook["rules"] == [{"apiGroups": ["networking.serving.volcano.sh"], "apiVersions": ["v1alpha1"],
                                      "operations": ["CREATE", "UPDATE"], "resources": [kind + "s"],
                                      "scope": "Namespaced"}]
            assert (hook["failurePolicy"], hook["sideEffects"], hook["timeoutSeconds"]) == ("Fail", "None", 30)
        assert names == ["modelroute", "modelserver", "externalmodelprovider"]
        injected = configuration["metadata"].get("annotations", {}).get("cert-manager.io/inject-ca-from")
        assert injected == (f"{NAMESPACE}/kthena-router-webhook-cert" if values == "cert-manager" else None)
        (volume,) = [v for v in objects.pod["volumes"] if v["name"] == "webhook-certs"]
        assert volume["secret"] == {"secretName": "kthena-router-webhook-certs", "optional": True}


def test_certificates(render):
    objects = render("cert-manager")
    issued = {name: objects["Certificate", name]["spec"] for kind, name in objects if kind == "Certificate"}
    assert {name: (spec["secretName"], spec["dnsNames"], spec["issuerRef"]["name"]) for name, spec in issued.items()} == {
        "kthena-router-cert": ("kthena-router-tls", ["llm.example.com"], "kthena-router-issuer"),
        "kthena-router-webhook-cert": (
            "kthena-router-webhook-certs",
            [f"kthena-router-webhook.{NAMESPACE}.svc", f"kthena-router-webhook.{NAMESPACE}.svc.cluster.local"],
            "kthena-router-webhook-issuer")}
    for spec in issued.values():
        assert objects["Issuer", spec["issuerRef"]["name"]]["spec"] == {"selfSigned": {}}
    assert not [key for key in render("default") if key[0] in ("Issuer", "Certificate")]


@pytest.mark.parametrize("values", [["webhook__enabled", "false"], ["enabled", "false"]])
def test_without_webhook(render, values):
    objects = render("default", *set_values(**dict([values])))
    assert ("Deployment", "kthena-router") in objects
    assert not [name for _, name in objects if "webhook" in name]
    assert objects.args["enable-webhook"] == "false"
    assert not [v for v in objects.pod["volumes"] if v["name"] == "webhook-certs"]
    assert "secrets" not in str(objects["Role", "kthena-router"]["rules"])
    assert "admissionregistration" not in str(objects["ClusterRole", "kthena-router"]["rules"])


@pytest.mark.parametrize("arguments, told", [
    (["--set", "global.certManagementMode=manual"], "global.webhook.caBundle is required"),
    (["--set", "global.certManagementMode=none"], "certManagementMode"),
    (set_values(fairness__enabled="true", sessionBoost__enabled="true"), "mutually exclusive"),
    (set_values(accessLog__output="access.log"), "absolute path"),
    (set_values(accessLog__output="/access.log"), "absolute path"),
    (set_values(port="0"), "port"),
    (set_values(port="70000"), "port"),
    (set_values(compat="go"), "compat"),
    (set_values(autoscaling__replicas="3"), "replicas"),
    (set_values(routerConfiguration=""), "routerConfiguration"),
])
def test_refused(helm, arguments, told):
    assert told in helm.refused(*arguments)


def test_numbers_given_as_text(render):
    """kthena's templates take them; so do these."""
    objects = render("default", "--set-string", f"{NETWORKING}port=8088,{NETWORKING}debugPort=0,{NETWORKING}replicas=2")
    assert objects.args["port"] == "8088"
    assert "debug-port" not in objects.args
    assert objects.deployment["spec"]["replicas"] == 2


def test_versions_are_the_programs():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    version = re.search(r"project\(warmroute VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.skipif("WR_BIN" not in os.environ, reason="needs the router")
@pytest.mark.parametrize("values", ["default", "existing-release", "production", "cert-manager"])
def test_the_router_takes_flags_variables_and_configuration(render, values):
    objects = render(values)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "routerConfiguration.yaml"
        file.write_text(objects["ConfigMap", "kthena-router-config"]["data"]["routerConfiguration"], encoding="utf-8")
        env = {name: value for name, value in objects.env.items() if isinstance(value, str)}
        done = subprocess.run([os.environ["WR_BIN"], *objects.container["args"], "--check", f"--config={file}"], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
