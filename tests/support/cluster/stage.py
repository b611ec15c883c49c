"""What a test puts into a namespace."""

import copy
import os
import tempfile

import yaml

from .. import world
from ..engine import Engine, chat, vllm_metrics
from ..router import Router, wait_for
from ..slots import Slot
from .api import Api

ELSEWHERE = "node-elsewhere"  # pods there are objects alone


def documents(what):
    """A list of dictionaries from YAML text, one dictionary, or a list of either."""
    if isinstance(what, str):
        return [document for document in yaml.safe_load_all(what) if document]
    return [what] if isinstance(what, dict) else [d for part in what for d in documents(part)]


def ensure_namespace(api, name):
    """With the service account that pods need, which the controllers make only when they have seen the namespace."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})


class Objects:
    """Objects of one namespace. apply() takes what support/world.py writes, or dictionaries; pods become objects on
    another node with the status they have."""

    def __init__(self, api, namespace):
        self.api, self.namespace = api, namespace
        ensure_namespace(api, namespace)

    def apply(self, *what):
        for document in documents(list(what)):
            document = copy.deepcopy(document)
            document["metadata"].setdefault("namespace", self.namespace)
            if document["kind"] == "Pod":
                self._apply_pod(document)
            else:
                self.api.apply(document)

    def _apply_pod(self, pod):
        status = pod.pop("status", {})
        spec = pod.setdefault("spec", {})
        spec.setdefault("containers", [{"name": "engine", "image": "engine"}])
        spec.update(nodeName=ELSEWHERE, automountServiceAccountToken=False)
        self.api.apply(pod)
        if "podIP" in status:
            status.setdefault("podIPs", [{"ip": status["podIP"]}])
        self.api.set_status(pod, status)

    def delete(self, kind, name, **query):
        """Pods at once unless gracePeriodSeconds says otherwise: no node of theirs exists that would end them."""
        if kind == "Pod":
            query.setdefault("gracePeriodSeconds", 0)
        self.api.delete(kind, name, self.namespace, **query)

    def patch(self, kind, name, change, sub=None):
        return self.api.patch(kind, name, change, self.namespace, sub)

    def set_ready(self, pod, value):
        self.patch("Pod", pod, {"status": {"conditions": [{"type": "Ready", "status": str(value)}]}}, "status")


class Stage(Objects):
    """Objects of a test, engines on loopback addresses behind them, and routers that follow the API server."""

    def __init__(self, plane, namespace):
        super().__init__(plane.api, namespace)
        self.plane = plane
        self.slot = Slot(one_digit=True)
        self.engines, self.routers = {}, []

    def close(self, check=True):
        try:
            for router in self.routers:
                router.stop(check=check)
        finally:
            for engine in self.engines.values():
                engine.stop()
            self.slot.release()
            clear(self.api, self.namespace)

    def engine(self, last, **kw):
        ip = self.slot.ip(last)
        kw.setdefault("answers", [chat()])
        kw.setdefault("metrics", vllm_metrics())
        self.engines[last] = Engine(ip, 8000, name=ip, **kw)
        return self.engines[last]

    def simple(self, count=1, **kw):
        """Engines 1..count behind ms-a, model m-a."""
        for last in range(1, count + 1):
            self.engine(last, **kw)
        self.apply(*(world.pod(f"a-{i}", self.slot.ip(i), "a", self.namespace) for i in range(1, count + 1)),
                   world.model_server("ms-a", "a", model="real-a", namespace=self.namespace),
                   world.route("mr-a", "m-a", "ms-a", self.namespace))

    # routers

    def router(self, kubeconfig=None, flags=(), slot=None, **kw):
        router = Router(kubeconfig=kubeconfig or self.plane.kubeconfig, flags=["--enable-webhook=false", *flags],
                        slot=slot or self.slot, start=False, **kw)
        self.routers.append(router)
        return router.start()

    def until_status(self, router, status, timeout=5.0, model="m-a"):
        """The first answer of that status; requests are sent until it comes."""
        def check():
            answer = router.chat(model)
            return answer if answer.status == status else None
        return wait_for(check, timeout, f"status {status} for {model}", 0.02)


def settings(plane, url, user=""):
    """A kubeconfig for the API server at another address, or for another user."""
    file, path = tempfile.mkstemp(prefix="kubeconfig-", dir=plane.folder)
    os.close(file)
    return plane.pki.kubeconfig(path, url, user)


def clear(api, namespace):
    """Deletes what tests make in a namespace and waits until it is gone."""
    kinds = ("ModelRoute", "ModelServer", "ExternalModelProvider", "Pod")
    for kind in kinds:
        api.call("DELETE", Api.path(kind, namespace), query={"gracePeriodSeconds": "0"})
    wait_for(lambda: not any(api.list(kind, namespace) for kind in kinds), 20, f"{namespace} empty", 0.02)
