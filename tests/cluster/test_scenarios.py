"""kthena's router end-to-end scenarios by their names and numbers, on the installed chart."""

import time

import pytest
import yaml
from fleet import LARGE, NAMESPACE, SMALL, chat, control, ok, rule, shares
from support.cluster.api import ApiError
from support.cluster.network import run
from support import helm
from support.router import metric_types, parse_metrics, wait_for
from support.wire import exchange, request_bytes

pytestmark = pytest.mark.usefixtures("clean_routes")


@pytest.fixture(name="address")
def _address(release):
    return release.address()


def test_01_model_route_simple(fleet, address):
    fleet.target("deepseek-simple", "deepseek-r1-1-5b")
    assert SMALL in ok(address, "deepseek-simple").text


@pytest.mark.parametrize("headers, answer", [
    ((("user-type", "premium"),), LARGE), ((), SMALL), ((("user-type", "basic"),), SMALL), ((("user-type", ""),), SMALL)])
def test_02_multi_models(fleet, address, headers, answer):
    fleet.route("deepseek-multi-models", "deepseek-multi-models", rules=[
        rule("deepseek-r1-7b", headers={"user-type": {"exact": "premium"}}), rule("deepseek-r1-1-5b")])
    assert answer in ok(address, "deepseek-multi-models", headers=headers).text


def selected(release, since):
    """The pods of `selected_pod=` in the router's access log after `since` lines."""
    lines = [line for worker in release.pods() for line in worker.log().splitlines()][since:]
    return [line.split("selected_pod=", 1)[1].split()[0] for line in lines if "selected_pod=" in line]


def subset(fleet, release, weights, share):
    fleet.route("deepseek-subset", "deepseek-subset", rules=[rule(
        ("deepseek-r1-1-5b-v1", weights[0]), ("deepseek-r1-1-5b-v2", weights[1]))])
    address = release.address()
    ok(address, "deepseek-subset")
    since = sum(len(worker.log().splitlines()) for worker in release.pods())
    shares(address, "deepseek-subset", 500)
    wait_for(lambda: len(selected(release, since)) >= 0.85 * 500, 10, "the access log", 0.1)
    pods = selected(release, since)
    first = sum(pod.startswith("deepseek-r1-1-5b-v1-") for pod in pods)
    second = sum(pod.startswith("deepseek-r1-1-5b-v2-") for pod in pods)
    assert first + second == len(pods)
    assert abs(first / len(pods) - share) < 0.1, (first, second)  # five standard deviations; the suite tries five times


@pytest.fixture(name="versions", scope="module")
def _versions(fleet):
    for version in ("v1", "v2"):
        fleet.add(f"deepseek-r1-1-5b-{version}", 1, f"{SMALL}-{version}")
    for version in ("v1", "v2"):
        fleet.wait(f"deepseek-r1-1-5b-{version}", 1)
    yield
    for version in ("v1", "v2"):
        fleet.remove(f"deepseek-r1-1-5b-{version}")


def test_06_subset_70_30(fleet, release, versions):
    subset(fleet, release, (70, 30), 0.7)


def test_07_subset_50_30(fleet, release, versions):
    """The route is updated in place; the weights need not sum up to 100."""
    subset(fleet, release, (70, 30), 0.7)
    subset(fleet, release, (50, 30), 0.625)


def test_16_lora(fleet, address):
    """The adapters are on one of three pods; the other two answer 404 and are passed over."""
    fleet.route("deepseek-lora", loraAdapters=["lora-A", "lora-B"], rules=[rule("deepseek-r1-7b")])
    pod = fleet.large[0]
    for name in ("lora-A", "lora-B"):
        loaded = exchange((pod.ip, 8000), request_bytes("POST", "/v1/load_lora_adapter", {
            "lora_name": name, "lora_path": f"/{name}"}), "POST")
        assert loaded.status == 200, loaded
    for name in ("lora-A", "lora-B"):
        assert name in ok(address, name, timeout=60).text
    unknown = chat(address, "lora-unknown")
    assert unknown.status == 404 and "route not found" in unknown.text
    control(pod, loras=[])


def test_17_duplicate_name_oldest_wins(fleet, address):
    fleet.target("first", "deepseek-r1-1-5b", "deepseek-duplicate")
    time.sleep(2)  # times of creation are in whole seconds
    fleet.target("second", "deepseek-r1-7b", "deepseek-duplicate")
    time.sleep(1)
    for _ in range(5):
        assert SMALL in ok(address, "deepseek-duplicate").text
    fleet.delete("ModelRoute", "first")
    wait_for(lambda: LARGE in chat(address, "deepseek-duplicate").text, 120, "the second route", 0.1)


def page(release):
    text = exchange(release.address("kthena-router-metrics", "metrics"), request_bytes("GET", "/metrics"), "GET").text
    return parse_metrics(text), text


def total(metrics, name, **labels):
    return sum(value for (sample, pairs), value in metrics.items()
               if sample == name and labels.items() <= dict(pairs).items())


def test_18_metrics(fleet, release, address):
    fleet.target("deepseek-metrics", "deepseek-r1-1-5b")
    ok(address, "deepseek-metrics")
    labels = {"model": "deepseek-metrics", "path": "/v1/chat/completions", "status_code": "200"}
    missed = {"model": "unknown", "status_code": "404", "error_type": "route_not_found"}
    before, _ = page(release)
    for _ in range(3):
        assert chat(address, "deepseek-metrics").status == 200
    assert chat(address, "no-such-model").status == 404

    def grown():
        now, _ = page(release)
        return all(total(now, f"kthena_router_{name}", **which) - total(before, f"kthena_router_{name}", **which) == by
                   for name, which, by in (("requests_total", labels, 3), ("request_duration_seconds_count", labels, 3),
                                           ("requests_total", missed, 1)))
    wait_for(grown, 5, "the counters", 0.1)


def test_20_sglang_metrics(fleet, address):
    """The engine's page after a request has the series that the router reads."""
    direct = chat((fleet.sglang[0].ip, 30000), SMALL)
    assert direct.status == 200
    text = exchange((fleet.sglang[0].ip, 30000), request_bytes("GET", "/metrics"), "GET").text
    known = metric_types(text)
    for name in ("sglang:token_usage", "sglang:num_queue_reqs", "sglang:time_to_first_token_seconds"):
        assert name in known, sorted(known)
    fleet.target("sglang", "sglang-mock")
    assert SMALL in ok(address, "sglang").text


def in_pod(worker, *command):
    return run("ip", "netns", "exec", worker.network, *command)


def test_21_router_config_update(fleet, release, address):
    """A ConfigMap edited by hand and a restart: only that plugin runs."""
    kept = release.plane.api.get("ConfigMap", "kthena-router-config", helm.NAMESPACE)["data"]["routerConfiguration"]
    config = {"scheduler": {"pluginConfig": [{"name": "least-request", "args": {"maxWaitingRequests": 10}}],
                            "plugins": {"Score": {"enabled": [{"name": "least-request", "weight": 100}]}}}}
    try:
        release.configure(yaml.safe_dump(config))
        fleet.target("deepseek-config", "deepseek-r1-1-5b")
        ok(address, "deepseek-config")
        _, text = page(release)
        series = [line for line in text.splitlines() if line.startswith("kthena_router_scheduler_plugin_duration_seconds_count")]
        assert any('plugin="least-request"' in line and 'type="score"' in line for line in series), series
        for plugin in ("prefix-cache", "gpu-usage", "least-latency"):
            assert f'plugin="{plugin}"' not in text
    finally:
        release.configure(kept)


def test_22_debug_server(fleet, release):
    (worker,) = release.pods()
    with pytest.raises(OSError):
        exchange((worker.ip, 15000), request_bytes("GET", "/debug/config_dump/pods"), "GET")
    for name in ("modelroutes", "modelservers", "pods", "gateways", "httproutes", "inferencepools"):
        text = in_pod(worker, "curl", "-sS", "-m", "5", "-w", " %{http_code}",
                      f"http://localhost:15000/debug/config_dump/{name}")
        body, code = text.rsplit(" ", 1)
        assert code == "200" and name in yaml.safe_load(body), text


def test_23_webhook(fleet, release):
    valid = {"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ModelRoute",
             "metadata": {"name": "checked", "namespace": NAMESPACE},
             "spec": {"modelName": "checked", "rules": [rule("deepseek-r1-1-5b")]}}
    fleet.api.create(valid, dryRun="All")
    invalid = {**valid, "spec": {**valid["spec"], "loraAdapters": [""]}}
    with pytest.raises(ApiError) as error:
        fleet.api.create(invalid, dryRun="All")
    assert "lora adapter name cannot be an empty string" in error.value.message
