"""The fixtures that kthena's end-to-end suite has: three engines of 1.5B, three of 7B and two of SGLang in pods."""

import json

from support import world
from support.cluster.release import engines, wait_engines
from support.cluster.stage import Objects
from support.router import Router, wait_for
from support.wire import Conn, exchange, request_bytes

NAMESPACE = "e2e"
SMALL = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
LARGE = "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"


class Fleet(Objects):
    """Deployments deepseek-r1-1-5b, deepseek-r1-7b and sglang-mock, each with a ModelServer of its name."""

    def __init__(self, plane, node):
        super().__init__(plane.api, NAMESPACE)
        self.plane, self.node = plane, node
        self._routes = []
        self.add("deepseek-r1-1-5b", 3, SMALL)
        self.add("deepseek-r1-7b", 3, LARGE)
        self.add("sglang-mock", 2, SMALL, engine="SGLang", port=30000)
        self.small = self.wait("deepseek-r1-1-5b", 3)
        self.large = self.wait("deepseek-r1-7b", 3)
        self.sglang = self.wait("sglang-mock", 2)

    def add(self, name, replicas, model, engine="vLLM", port=8000, arguments=()):
        if engine == "SGLang":
            arguments = ("--engine=sglang", *arguments)
        engines(self.api, NAMESPACE, name, replicas, arguments, model, port)
        self.apply(world.model_server(name, name, port=port, model=model, engine=engine, namespace=NAMESPACE))

    def wait(self, name, count):
        return wait_engines(self.node, NAMESPACE, count, app=name)

    def remove(self, name):
        self.api.delete("Deployment", name, NAMESPACE)
        self.delete("ModelServer", name)

    def route(self, name, model=None, **spec):
        document = {"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ModelRoute",
                    "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**spec}}
        if model:
            document["spec"]["modelName"] = model
        if name not in self._routes:
            self._routes.append(name)
        self.apply(document)

    def target(self, name, server, model=None):
        self.route(name, model or name, rules=[rule(server)])

    def clear_routes(self):
        while self._routes:
            self.api.delete("ModelRoute", self._routes.pop(), NAMESPACE, missing_ok=True)

    def reset_engines(self):
        for worker in self.small + self.large:
            control(worker, kv_usage=None, waiting=None, running=None, ttft=None, tpot=None, loras=[], reset_cache=True)

    def router(self, config, **kw):
        """A router beside the pods, in place of the release's: for one configuration each."""
        return Router(config=config, kubeconfig=self.plane.kubeconfig, flags=["--enable-webhook=false"],
                      env={"METRICS_SCRAPE_INTERVAL": "200ms"}, **kw)


def rule(*servers, headers=None):
    """A rule to one server, or to (server, weight) pairs."""
    targets = [{"modelServerName": s} if isinstance(s, str) else {"modelServerName": s[0], "weight": s[1]} for s in servers]
    out = {"name": "-".join(t["modelServerName"] for t in targets)[:60], "targetModels": targets}
    if headers:
        out["modelMatch"] = {"headers": headers}
    return out


def control(worker, port=8000, **members):
    body = json.dumps(members)
    answer = exchange((worker.ip, port), request_bytes("POST", "/control", body.encode(),
                                                       (("Content-Type", "application/json"),)), "POST")
    assert answer.status == 200, answer
    return json.loads(answer.text)


def chat_bytes(model, content="hello", headers=()):
    return request_bytes("POST", "/v1/chat/completions",
                         {"model": model, "stream": False, "max_tokens": 16,
                          "messages": [{"role": "user", "content": content}]},
                         (("Content-Type", "application/json"), *headers))


def chat(address, model, content="hello", headers=()):
    return exchange(address, chat_bytes(model, content, headers), "POST")


def ok(address, model, timeout=10.0, **kw):
    """The answer as the suite wants it: 200 without the word error, within some tries."""
    last = []

    def good():
        last[:] = [chat(address, model, **kw)]
        return last[0] if last[0].status == 200 and "error" not in last[0].text.lower() else None
    try:
        return wait_for(good, timeout, f"an answer for {model}", 0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}; last: {last[0].status} {last[0].text}") from None


def shares(address, model, count, content=str, headers=()):
    """{engine: requests} over one connection; every answer is 200."""
    seen = {}
    with Conn(address) as conn:
        for number in range(count):
            conn.send(chat_bytes(model, content(number), headers))
            answer = conn.read_response()
            assert answer.status == 200, answer
            name = answer.headers.get("x-mock-engine")
            seen[name] = seen.get(name, 0) + 1
    return seen
