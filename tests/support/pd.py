"""A router, scripted prefill and decode engines, and what it takes to look at a prefill/decode pair."""

import json

from .engine import Engine, answer, vllm_metrics
from .router import DEFAULT_CONFIG, Router
from .slots import Slot

API = "networking.serving.volcano.sh/v1alpha1"
# connector: (inferenceEngine, kvConnector.type)
CONNECTORS = {"http": ("vLLM", None), "lmcache": ("vLLM", "lmcache"), "nixl": ("vLLM", "nixl"),
              "mooncake": ("vLLM", "mooncake"), "sglang": ("SGLang", None)}
PARAMS = '{"remote_engine_id":"e","remote_block_ids":[1,2],"remote_port":5600,"id":18446744073709551615,"f":1.0}'
PREFILLED = answer('{"id":"p","choices":[],"kv_transfer_params":%s,'
                   '"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}' % PARAMS)


def metrics(connector, kv):
    if CONNECTORS[connector][0] == "SGLang":
        return f"sglang:token_usage {kv}\nsglang:num_queue_reqs 0\nsglang:num_running_reqs 0\n"
    return vllm_metrics(kv)


def pod(name, ip, group, role, app="x", extra=None):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "golden",
                         "labels": {"app": app, "group": group, "role": role, **(extra or {})}},
            "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}}


def server(connector, port=8000, selector=None, roles=None, **spec):
    engine, kind = CONNECTORS[connector]
    roles = roles or {}
    out = {"inferenceEngine": engine, "model": "real-pd", "workloadPort": {"port": port},
           "workloadSelector": {"matchLabels": selector or {"app": "x"},
                                "pdGroup": {"groupKey": "group", "prefillLabels": {"role": "prefill", **roles},
                                            "decodeLabels": {"role": "decode", **roles}}}, **spec}
    if kind:
        out["kvConnector"] = {"type": kind}
    return {"apiVersion": API, "kind": "ModelServer", "metadata": {"name": "ms", "namespace": "golden"}, "spec": out}


def route():
    return {"apiVersion": API, "kind": "ModelRoute", "metadata": {"name": "mr", "namespace": "golden"},
            "spec": {"modelName": "m", "loraAdapters": ["lora"],
                     "rules": [{"name": "r", "targetModels": [{"modelServerName": "ms"}]}]}}


def text(documents):
    return "\n---\n".join(json.dumps(each) for each in documents) + "\n"


class Pairs:
    """`groups`: how many prefill and decode engines each has; pods p1a, p1b, d1a, d2a ..., the earlier the freer."""

    def __init__(self, connector="http", groups=((1, 1),), config=DEFAULT_CONFIG, flags=(), **spec):
        self.slot = Slot()
        self.connector = connector
        self.engines, self.pods = {}, {}
        for number, (prefill, decode) in enumerate(groups, 1):
            for role, count in (("prefill", prefill), ("decode", decode)):
                for letter in "abcdef"[:count]:
                    self.add(f"{role[0]}{number}{letter}", f"g{number}", role)
        self.server = server(connector, **spec)
        self.router = Router(self.world(), config, flags, {"METRICS_SCRAPE_INTERVAL": "500ms"}, slot=self.slot)

    def add(self, name, group, role):
        ip = self.slot.ip(len(self.engines) + 1)
        self.pods[name] = pod(name, ip, group, role)
        self.engines[name] = Engine(ip, name=name, metrics=metrics(self.connector, len(self.engines) / 100))
        if role == "prefill":
            self.engines[name].answers = [PREFILLED]
        return self.engines[name]

    def __getattr__(self, name):  # made.p1a is an engine
        engines = self.__dict__.get("engines", {})
        if name in engines:
            return engines[name]
        raise AttributeError(name)

    def world(self):
        return text([self.server, *self.pods.values(), route()])

    def rewrite(self):
        self.router.write_resource("world.yaml", self.world())

    def chat(self, content="hello", **members):
        return self.router.chat("m", content, **members)

    def asked(self):
        seen = sorted((s for e in self.engines.values() for s in e.requests), key=lambda s: s.at)
        return [s.engine for s in seen]

    def forget(self):
        for engine in self.engines.values():
            engine.requests.clear()

    def log(self, count=1):
        return self.router.wait_log(count)[-1]

    def assert_settled(self):
        """No attempt is counted as open any more, and both pods of the best pair are free again."""
        self.router.wait_metric("kthena_router_active_upstream_requests", 0)
        self.router.wait_metric("kthena_router_active_requests", 0)

    def close(self, check):
        try:
            self.router.stop(check)
        finally:
            for engine in self.engines.values():
                engine.stop()
            self.slot.release()
