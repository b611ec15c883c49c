"""A small client of the API server: one connection per thread, objects as dictionaries."""

import http.client
import json
import ssl
import threading
import urllib.parse

_GROUPS = {
    "api/v1": ("ConfigMap Event Namespace* Node* Pod Secret Service ServiceAccount"),
    "apis/apps/v1": "Deployment ReplicaSet",
    "apis/discovery.k8s.io/v1": "EndpointSlice",
    "apis/coordination.k8s.io/v1": "Lease",
    "apis/rbac.authorization.k8s.io/v1": "ClusterRole* ClusterRoleBinding* Role RoleBinding",
    "apis/admissionregistration.k8s.io/v1": "ValidatingWebhookConfiguration*",
    "apis/apiextensions.k8s.io/v1": "CustomResourceDefinition*",
    "apis/policy/v1": "PodDisruptionBudget",
    "apis/autoscaling/v2": "HorizontalPodAutoscaler",
    "apis/networking.k8s.io/v1": "NetworkPolicy",
    "apis/networking.serving.volcano.sh/v1alpha1": "ModelRoute ModelServer ExternalModelProvider",
}
_KINDS = {kind.rstrip("*"): (group, not kind.endswith("*")) for group, kinds in _GROUPS.items() for kind in kinds.split()}
_PLURALS = {"NetworkPolicy": "networkpolicies"}


class ApiError(Exception):
    def __init__(self, status, answer):
        self.status = status
        self.message = answer.get("message", str(answer)) if isinstance(answer, dict) else str(answer)
        super().__init__(f"{status}: {self.message}")


class Api:
    """`server`: host and port. `token` in place of the client certificate when given."""

    def __init__(self, server, pki, token=None, timeout=30.0):
        self.server, self.token, self.timeout = server, token, timeout
        self._tls = ssl.create_default_context(cafile=str(pki.ca))
        if token is None:
            self._tls.load_cert_chain(str(pki.admin_cert), str(pki.admin_key))
        self._own = threading.local()

    @staticmethod
    def path(kind, namespace=None, name=None, sub=None):
        group, namespaced = _KINDS[kind]
        parts = [group]
        if namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(_PLURALS.get(kind, kind.lower() + ("es" if kind.endswith("s") else "s")))
        return "/" + "/".join(parts + [part for part in (name, sub) if part])

    def _connect(self, timeout):
        return http.client.HTTPSConnection(*self.server, timeout=timeout, context=self._tls)

    def _headers(self, body_type="application/json"):
        headers = {"Accept": "application/json", "Content-Type": body_type}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    def raw(self, method, path, body=None, body_type="application/json", query=None):
        """(status, answer); never raises for a status."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        data = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
        for attempt in (1, 2):  # a kept connection may have been closed meanwhile
            fresh = getattr(self._own, "connection", None) is None
            if fresh:
                self._own.connection = self._connect(self.timeout)
            try:
                self._own.connection.request(method, path, data, self._headers(body_type))
                answer = self._own.connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self._own.connection.close()
                self._own.connection = None
                if fresh or attempt == 2:
                    raise
        kind = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(text) if kind.startswith("application/json") else text.decode()

    def call(self, method, path, body=None, **kw):
        status, answer = self.raw(method, path, body, **kw)
        if status >= 300:
            raise ApiError(status, answer)
        return answer

    # objects

    def _where(self, document, sub=None, named=True):
        meta = document["metadata"]
        return self.path(document["kind"], meta.get("namespace", "default"), meta["name"] if named else None, sub)

    def create(self, document, **query):
        return self.call("POST", self._where(document, named=False), document, query=query)

    def apply(self, document, **query):
        """Server-side apply."""
        return self.call("PATCH", self._where(document), document, body_type="application/apply-patch+yaml",
                         query={"fieldManager": "tests", "force": "true", **query})

    def get(self, kind, name, namespace="default"):
        return self.call("GET", self.path(kind, namespace, name))

    def list(self, kind, namespace=None, **query):
        return self.call("GET", self.path(kind, namespace), query=query)["items"]

    def patch(self, kind, name, change, namespace="default", sub=None):
        """A merge patch."""
        return self.call("PATCH", self.path(kind, namespace, name, sub), change,
                         body_type="application/merge-patch+json")

    def delete(self, kind, name, namespace="default", missing_ok=False, **query):
        try:
            return self.call("DELETE", self.path(kind, namespace, name), query=query)
        except ApiError as error:
            if error.status == 404 and missing_ok:
                return None
            raise

    def set_status(self, document, status):
        """Replaces parts of an object's status."""
        meta = document["metadata"]
        return self.patch(document["kind"], meta["name"], {"status": status}, meta.get("namespace", "default"), "status")

    # watching

    def follow(self, kind, on_event, stop, namespace=None, **query):
        """List, then watch, for ever: on_event(type, object); ("SYNC", {key: object}) after each list."""
        path = self.path(kind, namespace)
        while not stop.is_set():
            try:
                listed = Api.call(self, "GET", path, query=query)
                for item in listed["items"]:
                    item["kind"] = kind
                on_event("SYNC", {(i["metadata"].get("namespace"), i["metadata"]["name"]): i for i in listed["items"]})
                self._watch(path, listed["metadata"]["resourceVersion"], on_event, stop, query)
            except (ApiError, OSError, http.client.HTTPException, ValueError):
                stop.wait(0.2)

    def _watch(self, path, version, on_event, stop, query):
        connection = self._connect(5)
        try:
            parameters = {**query, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            connection.request("GET", path + "?" + urllib.parse.urlencode(parameters), headers=self._headers())
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode())
            buffered = b""
            while not stop.is_set():
                try:
                    data = answer.read1(1 << 16)
                except TimeoutError:
                    return  # silent for long: list again
                if not data:
                    return
                *lines, buffered = (buffered + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "BOOKMARK":
                        on_event(event["type"], event["object"])
        finally:
            connection.close()
