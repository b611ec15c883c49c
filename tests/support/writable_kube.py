"""The fake API server with what the router writes, too: Secret, Lease, webhook configuration, status and Events."""

import copy
import json
import urllib.parse

from support import fake_kube

STATUS_KINDS = ("modelroutes", "modelservers")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kthena-router-validating-webhook"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/kthena-router"
SECRET = "/api/v1/namespaces/{}/secrets/kthena-router-webhook-certs"


def merge(target, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def merge_webhooks(target, patch):
    """The strategic merge of the list that the router patches: by name."""
    out = copy.deepcopy(target)
    for wanted in patch["webhooks"]:
        (hook,) = [hook for hook in out["webhooks"] if hook["name"] == wanted["name"]]
        hook.update(merge(hook, wanted))
    return out


class _Handler(fake_kube.Handler):
    def _begin(self):
        """(path, body) of a request; None when it was refused."""
        path = urllib.parse.urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.kube.lock:
            self.kube.writes.append((self.command, path))
        for method, part in self.kube.forbidden:
            if self.command == method and part in path:
                self._status(403, "Forbidden")
                return None
        return path, json.loads(body) if body else None

    def _send(self, code, item):
        self._answer(code, json.dumps(item).encode())

    def do_GET(self):  # pylint: disable=invalid-name
        path = urllib.parse.urlsplit(self.path).path
        item = self.kube.find(path)
        if item is None and not self.kube.is_single(path):
            return super().do_GET()
        if self._begin() is None:
            return None
        return self._status(404, "NotFound") if item is None else self._send(200, item)

    def do_POST(self):  # pylint: disable=invalid-name
        begun = self._begin()
        if begun is None:
            return None
        path, item = begun
        if path.endswith("/events"):
            self.kube.events.append(item)
            return self._send(201, item)
        with self.kube.lock:
            path += "/" + item["metadata"]["name"]
            if path in self.kube.singles:
                return self._status(409, "AlreadyExists")
            return self._send(201, self.kube.store(path, item))

    def do_PATCH(self):  # pylint: disable=invalid-name
        begun = self._begin()
        if begun is None:
            return None
        path, patch = begun
        status = path.endswith("/status")
        with self.kube.lock:
            item = self.kube.find(path[:-len("/status")] if status else path)
            if item is None:
                return self._status(404, "NotFound")
            wanted = patch.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, item["metadata"]["resourceVersion"]):
                return self._status(409, "Conflict")
            if status:
                return self._send(200, self.kube.store_status(path, item, patch))
            strategic = self.headers["Content-Type"] == "application/strategic-merge-patch+json"
            assert strategic or self.headers["Content-Type"] == "application/merge-patch+json"
            return self._send(200, self.kube.store(path, (merge_webhooks if strategic else merge)(item, patch)))


class WritableKube(fake_kube.FakeKube):
    handler = _Handler

    def __init__(self, *arguments, **more):
        self.singles = {}             # path -> object
        self.events = []
        self.writes = []              # (method, path)
        self.forbidden = []           # (method, part of path): 403
        self.drops_conditions = False  # CRDs without status.conditions
        super().__init__(*arguments, **more)

    @staticmethod
    def is_single(path):
        return any(f"/{kind}/" in path for kind in ("secrets", "leases", "validatingwebhookconfigurations"))

    def find(self, path):
        """The object with that path, or None."""
        if path in self.singles:
            return self.singles[path]
        parts = path.strip("/").split("/")
        if len(parts) > 3 and parts[-2] in STATUS_KINDS and parts[-4] == "namespaces":
            return self.objects[parts[-2]].get((parts[-3], parts[-1]))
        return None

    def store(self, path, item):
        self.version += 1
        item = copy.deepcopy(item)
        item["metadata"]["resourceVersion"] = str(self.version)
        self.singles[path] = item
        return item

    def store_status(self, path, item, patch):
        if self.drops_conditions:
            return item
        item = copy.deepcopy(item)
        item["status"] = merge(item.get("status"), patch["status"])
        self.put(path.strip("/").split("/")[-3], item)
        return self.find(path[:-len("/status")])

    def add_configuration(self):
        names = ["modelroute", "modelserver", "externalmodelprovider"]
        self.store(CONFIGURATION, {"metadata": {"name": "kthena-router-validating-webhook"}, "webhooks": [
            {"name": f"validate-{name}.volcano.sh",
             "clientConfig": {"service": {"name": "kthena-router-webhook", "namespace": "system"}}} for name in names]})

    def lease(self, namespace):
        return self.singles.get(LEASE.format(namespace))

    def conditions(self, kind, name, namespace="golden"):
        """{type: condition}"""
        found = self.objects[kind][(namespace, name)].get("status", {}).get("conditions", [])
        return {condition["type"]: condition for condition in found}

    def wrote(self, method, part):
        return sum(1 for m, path in self.writes if m == method and part in path)
