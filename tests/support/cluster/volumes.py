"""Volumes and environment of pods, as the kubelet lays them: files behind a symlink that is swapped at once."""

import base64
import os
import pathlib
import re
import time

from .api import Api, ApiError


def _content(api, kind, namespace, name, optional):
    """{key: bytes} of a ConfigMap or Secret; None when it is missing and may be."""
    status, found = api.raw("GET", Api.path(kind, namespace, name))
    if status == 404 and optional:
        return None
    if status != 200:
        raise ApiError(status, found)
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
    return {key: value.encode() for key, value in found.get("data", {}).items()}


def _items(content, source):
    if content is None:
        return {}
    if "items" in source:
        return {item["path"]: content[item["key"]] for item in source["items"]}
    return content


class Token:
    """A projected token of the pod's service account, asked for again when 80 % of its life are over."""

    def __init__(self, api, pod, source):
        self._api, self._pod, self._source = api, pod, source
        self._text, self._renew_at = None, 0.0

    def get(self):
        if time.monotonic() >= self._renew_at:
            seconds = self._source.get("expirationSeconds", 3600)
            meta = self._pod["metadata"]
            answer = self._api.call("POST", Api.path(
                "ServiceAccount", meta["namespace"], self._pod["spec"]["serviceAccountName"], "token"), {
                    "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                    "spec": {"expirationSeconds": max(600, seconds), "audiences": self._source.get("audiences", []),
                             "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"],
                                                "uid": meta["uid"]}}})
            self._text = answer["status"]["token"].encode()
            self._renew_at = time.monotonic() + 0.8 * seconds
        return self._text


class Volume:
    """refresh() reads the sources again and swaps the content when it changed."""

    def __init__(self, api, pod, spec, folder):
        self._api, self._pod, self._spec = api, pod, spec
        self.name = spec["name"]
        self.folder = pathlib.Path(folder) / self.name
        self.folder.mkdir(parents=True)
        self.tokens = []
        self._seen = None
        self._group = pod["spec"].get("securityContext", {}).get("fsGroup")
        if "emptyDir" in spec:
            os.chmod(self.folder, 0o777)
        for source in spec.get("projected", {}).get("sources", []):
            if "serviceAccountToken" in source:
                self.tokens.append((Token(api, pod, source["serviceAccountToken"]), source["serviceAccountToken"]["path"]))

    def _files(self):
        namespace = self._pod["metadata"]["namespace"]
        if "configMap" in self._spec:
            source = self._spec["configMap"]
            return _items(_content(self._api, "ConfigMap", namespace, source["name"], source.get("optional")), source)
        if "secret" in self._spec:
            source = self._spec["secret"]
            return _items(_content(self._api, "Secret", namespace, source["secretName"], source.get("optional")), source)
        files = {path: token.get() for token, path in self.tokens}
        for source in self._spec["projected"]["sources"]:
            for kind, key in (("ConfigMap", "configMap"), ("Secret", "secret")):
                if key in source:
                    part = source[key]
                    files |= _items(_content(self._api, kind, namespace, part["name"], part.get("optional")), part)
            for item in source.get("downwardAPI", {}).get("items", []):
                files[item["path"]] = field(self._pod, item["fieldRef"]["fieldPath"]).encode()
        return files

    def refresh(self):
        if "emptyDir" in self._spec:
            return
        files = self._files()
        if files == self._seen:
            return
        fresh = self.folder / f"..{time.time_ns()}"
        fresh.mkdir()
        for path, data in files.items():
            file = fresh / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            os.chmod(file, 0o640 if self._group else 0o644)
            if self._group:
                os.chown(file, 0, self._group)
            link = self.folder / pathlib.Path(path).parts[0]
            if not link.is_symlink():
                link.symlink_to(pathlib.Path("..data") / pathlib.Path(path).parts[0])
        os.chmod(fresh, 0o755)
        current, swap = self.folder / "..data", self.folder / "..swap"
        swap.symlink_to(fresh.name)
        swap.rename(current)
        for link in self.folder.iterdir():  # of keys that are gone
            if link.is_symlink() and not link.exists():
                link.unlink()
        self._seen = files


def field(pod, path):
    known = {"spec.nodeName": pod["spec"].get("nodeName", ""), "spec.serviceAccountName": pod["spec"]["serviceAccountName"],
             "status.podIP": pod.get("status", {}).get("podIP", "")}
    return known[path] if path in known else pod["metadata"][path.removeprefix("metadata.")]


def expand(words, values):
    """The words with each $(NAME) of a known variable replaced."""
    return [re.sub(r"\$\((\w+)\)", lambda m: values.get(m.group(1), m.group(0)), word) for word in words]


def environment(api, pod, container, services):
    """{name: value} as the kubelet makes it, with $(NAME) replaced."""
    values = {"PATH": "/image:/usr/sbin:/usr/bin", "HOSTNAME": pod["metadata"]["name"], **services}
    namespace = pod["metadata"]["namespace"]
    for variable in container.get("env", []):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            value = field(pod, source["fieldRef"]["fieldPath"])
        elif "configMapKeyRef" in source or "secretKeyRef" in source:
            kind, key = ("ConfigMap", "configMapKeyRef") if "configMapKeyRef" in source else ("Secret", "secretKeyRef")
            reference = source[key]
            content = _content(api, kind, namespace, reference["name"], reference.get("optional"))
            if content is None or reference["key"] not in content:
                if reference.get("optional"):
                    continue
                raise ValueError(f"{kind} {reference['name']} has no key {reference['key']}")
            value = content[reference["key"]].decode()
        else:
            (value,) = expand([variable.get("value", "")], values)
        values[variable["name"]] = value
    return values
