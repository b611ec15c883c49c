"""An API server with as much of Kubernetes as the router asks for: lists in pages, watches with bookmarks, selectors,
tokens and client certificates; and with the faults that a real one cannot be made to have on demand."""

import base64
import copy
import json
import os
import re
import select
import socket
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler

GROUP = "/apis/networking.serving.volcano.sh/v1alpha1"
KINDS = {"modelroutes": "ModelRoute", "modelservers": "ModelServer", "pods": "Pod"}


class Object(dict):
    @property
    def key(self):
        return self["metadata"]["namespace"], self["metadata"]["name"]

    @property
    def labels(self):
        return self["metadata"].get("labels") or {}

    @property
    def version(self):
        return int(self["metadata"]["resourceVersion"])


def matches(selector, labels):
    """a=b and a in (b,c), with commas between them."""
    for part in re.split(r",(?![^(]*\))", selector):
        among = re.fullmatch(r"(\S+) in \((.*)\)", part)
        key, values = (among[1], among[2].split(",")) if among else (part.partition("=")[0], [part.partition("=")[2]])
        if part and labels.get(key) not in values:
            return False
    return True


class FakeKube:
    """`address`: (ip, port). All attributes may be changed while it runs."""

    handler = None                    # another class than Handler

    def __init__(self, address, tls=None, token=None):
        self.address = address
        self.tls = tls
        self.token = token            # None: whoever comes
        self.client_certificates = False  # True: a connection must have one
        self.lock = threading.Condition()
        self.version = 100
        self.objects = {kind: {} for kind in KINDS}
        self.history = []             # (version, kind, type, object, object before)
        self.oldest = 0               # watches from before this version get 410
        self.bookmarks = 0.3          # seconds of silence after which a watch gets one; None: never
        self.fail = None              # f(verb, kind, query) -> (status, reason) or raw bytes, or None to serve
        self.silent = False           # watches stay open and say nothing
        self.list_delay = 0
        self.requests = []            # (verb, kind, query)
        self.tokens = []              # of each request
        self.delivered = 0            # objects sent, in lists and events
        self.seen_certificates = []
        self._streams = {}            # generation: watches
        self._generation = 0
        self._snapshot = None
        self._listener = None
        self.start()

    # life

    def start(self):
        for _ in range(200):  # an earlier listener of this address may just be closing
            listener = socket.socket(socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(self.address)
                break
            except OSError:
                listener.close()
                time.sleep(0.05)
        listener.listen(64)
        with self.lock:
            self._generation += 1
            self._listener = listener
        self.address = listener.getsockname()[:2]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self):
        """Refuses connections, and ends those that are open."""
        with self.lock:
            listener, self._listener = self._listener, None
            self._generation += 1
            self.lock.notify_all()
        if listener:
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()

    def cut_watches(self):
        """Ends the open connections; new ones are served."""
        with self.lock:
            self._generation += 1
            self.lock.notify_all()

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            connection.settimeout(30)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self.seen_certificates.append(connection.getpeercert())
            (self.handler or Handler)(connection, ("", 0), self)
        except OSError:
            pass
        finally:
            try:
                connection.close()
            except OSError:
                pass

    @property
    def url(self):
        host = f"[{self.address[0]}]" if ":" in self.address[0] else self.address[0]
        return f"{'https' if self.tls else 'http'}://{host}:{self.address[1]}"

    @property
    def streams(self):
        """Watches that are open, those that were cut not counted."""
        with self.lock:
            return self._streams.get(self._generation, 0)

    # objects

    def put(self, kind, item, tell=True):
        """Creates or replaces. `tell` False: no watch hears of it. The version."""
        with self.lock:
            self.version += 1
            item = Object(copy.deepcopy(item))
            item["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            item["metadata"]["resourceVersion"] = str(self.version)
            before = self.objects[kind].get(item.key)
            self.objects[kind][item.key] = item
            if tell:
                self.history.append((self.version, kind, "MODIFIED" if before else "ADDED", item, before))
                self.lock.notify_all()
            return self.version

    def delete(self, kind, name, namespace="golden", tell=True):
        with self.lock:
            self.version += 1
            before = self.objects[kind].pop((namespace, name))
            gone = Object(copy.deepcopy(before))
            gone["metadata"]["resourceVersion"] = str(self.version)
            if tell:
                self.history.append((self.version, kind, "DELETED", gone, before))
                self.lock.notify_all()
            return self.version

    def edit(self, kind, name, change, namespace="golden", tell=True):
        item = copy.deepcopy(self.objects[kind][(namespace, name)])
        change(item)
        return self.put(kind, item, tell)

    def compact(self):
        """Every version so far is too old to go on from."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.history = []

    def remember(self):
        """lag(True) serves lists from this state."""
        with self.lock:
            self._snapshot = (self.version, copy.deepcopy(self.objects))

    def lag(self, on):
        with self.lock:
            self._lags = on

    _lags = False

    def count(self, verb=None, kind=None):
        return sum(1 for v, k, _ in self.requests if verb in (None, v) and kind in (None, k))

    def world(self):
        """(version, objects) that a list sees."""
        if self._lags:
            return self._snapshot
        return self.version, self.objects


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, connection, peer, kube):
        self.kube = kube
        super().__init__(connection, peer, kube)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def _status(self, code, reason, headers=()):
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                           "message": f"fake: {reason}"}).encode()
        self._answer(code, body, headers)

    def _answer(self, code, body, headers=()):
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # pylint: disable=invalid-name
        kube = self.kube
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        kind = parts[-1]
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
        known = kind in KINDS and (url.path.startswith(GROUP) or kind == "pods")
        verb = "watch" if query.get("watch") else "list"
        token = self.headers.get("Authorization", "")
        with kube.lock:
            kube.requests.append((verb, kind, query))
            kube.tokens.append(token)
        if kube.token is not None and token != "Bearer " + kube.token:
            return self._status(401, "Unauthorized")
        if kube.client_certificates and not self.connection.getpeercert():
            return self._status(401, "Unauthorized")
        fault = kube.fail and kube.fail(verb, kind, query)
        if isinstance(fault, bytes):
            self.wfile.write(fault)
            self.close_connection = True
            return None
        if fault:
            return self._status(*fault)
        if not known:
            return self._status(404, "NotFound")
        return (self._watch if verb == "watch" else self._list)(kind, namespace, query)

    def _list(self, kind, namespace, query):
        kube = self.kube
        time.sleep(kube.list_delay)
        selector = query.get("labelSelector", "")
        with kube.lock:
            if "continue" in query:
                version, start = json.loads(base64.b64decode(query["continue"]))
                if version < kube.oldest:
                    return self._status(410, "Expired")
            else:
                version, start = kube.world()[0], 0
            keys = sorted(key for key, item in kube.world()[1][kind].items()
                          if namespace in (None, key[0]) and matches(selector, item.labels))
            limit = int(query.get("limit", 0)) or len(keys)
            items = [kube.world()[1][kind][key] for key in keys[start:start + limit]]
            meta = {"resourceVersion": str(version)}
            if start + limit < len(keys):
                meta["continue"] = base64.b64encode(json.dumps([version, start + limit]).encode()).decode()
            kube.delivered += len(items)
            body = json.dumps({"kind": KINDS[kind] + "List", "apiVersion": "v1", "metadata": meta, "items": items})
        return self._answer(200, body.encode())

    def _watch(self, kind, namespace, query):
        kube = self.kube
        at = int(query.get("resourceVersion") or 0)
        with kube.lock:
            if at < kube.oldest:
                return self._status(410, "Expired")
            generation = kube._generation  # pylint: disable=protected-access
            kube._streams[generation] = kube._streams.get(generation, 0) + 1  # pylint: disable=protected-access
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            self._stream(kind, namespace, query, at, generation)
        finally:
            with kube.lock:
                kube._streams[generation] -= 1  # pylint: disable=protected-access
        self.close_connection = True
        return None

    def _stream(self, kind, namespace, query, at, generation):
        kube = self.kube
        selector = query.get("labelSelector", "")
        end = time.monotonic() + float(query.get("timeoutSeconds", 300))
        spoke = time.monotonic()
        while time.monotonic() < end:
            out = []
            with kube.lock:
                kube.lock.wait_for(lambda: kube._generation != generation or  # pylint: disable=protected-access
                                   (kube.history and kube.history[-1][0] > at and not kube.silent), 0.1)
                if kube._generation != generation:  # pylint: disable=protected-access
                    return
                if at < kube.oldest:
                    out.append({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired",
                                                            "message": "too old resource version"}})
                elif not kube.silent:
                    for version, what, event, item, before in kube.history:
                        if version <= at or what != kind or namespace not in (None, item.key[0]):
                            continue
                        now = event != "DELETED" and matches(selector, item.labels)
                        was = before is not None and matches(selector, before.labels)
                        if now:
                            out.append({"type": "MODIFIED" if was else "ADDED", "object": item})
                        elif was:
                            out.append({"type": "DELETED", "object": item})
                    at = max([at] + [entry[0] for entry in kube.history])
                    kube.delivered += len(out)
                    if not out and kube.bookmarks is not None and time.monotonic() - spoke > kube.bookmarks:
                        out.append({"type": "BOOKMARK", "object": {"kind": KINDS[kind], "metadata": {
                            "resourceVersion": str(at)}}})
            if select.select([self.connection], [], [], 0)[0]:
                return  # the client left: nothing else may come
            for event in out:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                spoke = time.monotonic()
            if out and out[-1]["type"] == "ERROR":
                break
        self.wfile.write(b"0\r\n\r\n")


# What is put into it


def model_server(name, app, port=8000, model=None, namespace="golden", labels=None):
    spec = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": labels or {"app": app}},
            "workloadPort": {"port": port, "protocol": "http"}}
    if model:
        spec["model"] = model
    return {"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ModelServer",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def route(name, model, target, namespace="golden"):
    return {"apiVersion": "networking.serving.volcano.sh/v1alpha1", "kind": "ModelRoute",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"modelName": model,
                     "rules": [{"name": "default", "targetModels": [{"modelServerName": target, "weight": 100}]}]}}


def pod(name, ip, app, namespace="golden", uid=None, ready=True, phase="Running", labels=None, padding=0):
    """`padding`: bytes of annotations, as real pods have them."""
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "labels": labels or {"app": app}}
    if padding:
        meta["annotations"] = {"padding": "x" * padding}
        meta["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {f"f:{i}": {} for i in range(20)}}}]
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    if ip:
        status["podIP"] = ip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta,
            "spec": {"containers": [{"name": "engine"}], "nodeName": "n1"}, "status": status}


def kubeconfig(folder, url, user, cluster=None, name="kubeconfig"):
    """Writes one; `user` and `cluster` are dictionaries of its fields. Its path."""
    path = os.path.join(str(folder), name)
    text = {"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(text, file)
    return path
