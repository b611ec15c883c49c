"""Scenarios 24 to 29: one scheduler plugin each, alone."""

import json
import threading

import pytest
import yaml
from fleet import LARGE, SMALL, chat_bytes, control, ok, rule, shares
from support.router import wait_for
from support.wire import exchange

pytestmark = pytest.mark.usefixtures("clean_routes")
MODEL = "deepseek-plugin"


def config(filters=(), scores=(), arguments=None):
    plugins = {"Filter": {"enabled": list(filters)},
               "Score": {"enabled": [{"name": name, "weight": 100} for name in scores]}}
    return yaml.safe_dump({"scheduler": {"pluginConfig": [{"name": name, "args": args}
                                                          for name, args in (arguments or {}).items()],
                                         "plugins": plugins}})


@pytest.fixture(name="start")
def _start(fleet):
    """start(config): a router with it that routes a model to a server's engines."""
    routers = []

    def start(text, model=MODEL, server="deepseek-r1-1-5b"):
        fleet.target(MODEL, server, model)
        routers.append(fleet.router(text))
        ok(routers[0].address, model)
        return routers[0]
    yield start
    for router in routers:
        router.stop()
    fleet.reset_engines()


def metric_of(router, pod, member):
    """What the router read last from a pod's metrics page."""
    pods = json.loads(router.debug("/debug/config_dump/pods").text)["pods"] or []
    return next((entry["metrics"][member] for entry in pods if entry["name"] == pod.name), None)


def share(seen, *pods):
    return sum(seen.get(pod.name, 0) for pod in pods) / sum(seen.values())


def test_24_plugin_prefix_cache(fleet, start):
    router = start(config(scores=["prefix-cache"], arguments={"prefix-cache": {
        "blockSizeToHash": 64, "maxBlocksToMatch": 128, "maxHashCacheSize": 50000, "topKMatches": 5}}))
    prompt = "The same long prompt for everybody. " * 20
    shares(router.address, MODEL, 30, lambda _: prompt)
    seen = shares(router.address, MODEL, 200, lambda _: prompt)
    assert max(seen.values()) >= 0.9 * 200, seen


def test_25_plugin_least_request(fleet, start):
    """Two of three pods are busy with requests that did not come through the router."""
    router = start(config(["least-request"], ["least-request"], {"least-request": {"maxWaitingRequests": 1}}))
    *busy, idle = fleet.small
    for pod in busy:
        control(pod, running=8, waiting=4)
    for pod in busy:
        wait_for(lambda p=pod: metric_of(router, p, "requestWaitingNum") == 4, 10, "the queue seen")
    seen = shares(router.address, MODEL, 200)
    assert share(seen, idle) >= 0.9, seen
    for kind in ("filter", "score"):
        assert router.metric("kthena_router_scheduler_plugin_duration_seconds_count", plugin="least-request", type=kind) > 0


def test_26_plugin_gpu_usage(fleet, start):
    router = start(config(scores=["gpu-usage"]))
    *hot, idle = fleet.small
    for pod in hot:
        control(pod, kv_usage=0.95)
    for pod in hot:
        wait_for(lambda p=pod: (metric_of(router, p, "gpuCacheUsage") or 0) > 0.9, 10, "the hot cache seen")
    seen = shares(router.address, MODEL, 200)
    assert share(seen, idle) >= 0.9, seen


def test_27_plugin_least_latency(fleet, start):
    """Three fast pods and a slow one, seen through their histograms."""
    fleet.add("slow", 1, SMALL)
    (slow,) = fleet.wait("slow", 1)
    try:
        # One ModelServer over both Deployments.
        for pod in [*fleet.small, slow]:
            fleet.patch("Pod", pod.name, {"metadata": {"labels": {"latency": "yes"}}})
        fleet.apply({"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ModelServer",
                     "metadata": {"name": "latency"}, "spec": {
                         "inferenceEngine": "vLLM", "model": SMALL, "workloadPort": {"port": 8000},
                         "workloadSelector": {"matchLabels": {"latency": "yes"}}}})
        router = start(config(scores=["least-latency"], arguments={"least-latency": {"TTFTTPOTWeightFactor": 0.5}}),
                       server="latency")
        stop = threading.Event()

        def serve():
            """Each pod's histograms go on as if it answered, in 20 or 500 ms."""
            count = 0
            while not stop.wait(0.1):
                count += 10
                for pod in [*fleet.small, slow]:
                    ttft = 0.5 if pod is slow else 0.02
                    control(pod, ttft={"sum": ttft * count, "count": count}, tpot={"sum": 0.01 * count, "count": count})

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            wait_for(lambda: (metric_of(router, slow, "ttft") or 0) > 0.3 and
                     all(0 < (metric_of(router, pod, "ttft") or 0) < 0.1 for pod in fleet.small), 10, "latencies seen")
            seen = shares(router.address, MODEL, 200)
        finally:
            stop.set()
            thread.join()
        assert share(seen, *fleet.small) >= 0.9, seen
    finally:
        fleet.remove("slow")
        fleet.delete("ModelServer", "latency")


def test_28_plugin_lora_affinity(fleet, start):
    fleet.route("lora", loraAdapters=["lora-A"], rules=[rule("deepseek-r1-7b")])
    router = start(config(["lora-affinity"]), LARGE, "deepseek-r1-7b")
    holder = fleet.large[1]
    control(holder, loras=["lora-A"])
    wait_for(lambda: exchange(router.address, chat_bytes("lora-A"), "POST").status == 200, 60, "the adapter", 0.1)
    # From here on no pod without it may even be tried.
    before = {pod.name: control(pod)["requests"] for pod in fleet.large if pod is not holder}
    seen = shares(router.address, "lora-A", 200)
    assert set(seen) == {holder.name}
    assert {pod.name: control(pod)["requests"] for pod in fleet.large if pod is not holder} == before


def test_29_plugin_random(fleet, start):
    router = start(config(scores=["random"]))
    seen = shares(router.address, MODEL, 600)
    for pod in fleet.small:
        assert abs(share(seen, pod) - 1 / 3) < 0.1, seen
