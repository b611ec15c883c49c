"""Certificates and keys of the control plane, made anew for each run."""

import base64
import pathlib

from ..tls import Authority
from .network import NODE_IP, run

API_SERVICE_IP = "10.202.0.1"  # of the Service default/kubernetes: the first of the range


class Pki:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.authority = Authority(folder, "cluster-ca")
        self.ca = pathlib.Path(self.authority.cert)
        names = ",".join(f"IP:{ip}" for ip in (NODE_IP, "127.0.0.1", API_SERVICE_IP)) + "," + ",".join(
            f"DNS:{name}" for name in ("localhost", "kubernetes.default", "kubernetes.default.svc"))
        self.api_cert, self.api_key = self.authority.issue("kube-apiserver", names)
        self.admin_cert, self.admin_key = self.authority.issue("admin", subject="/O=system:masters/CN=admin")
        self.service_account_key = self.folder / "service-account.key"
        self.service_account_public = self.folder / "service-account.pub"
        run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
            self.service_account_key)
        run("openssl", "pkey", "-in", self.service_account_key, "-pubout", "-out", self.service_account_public)

    def kubeconfig(self, path, server, user="", namespace="default"):
        """A kubeconfig of the administrator, or with `user` (YAML of the user entry)."""
        def data(file):
            return base64.b64encode(pathlib.Path(file).read_bytes()).decode()

        user = user or f"client-certificate-data: {data(self.admin_cert)}\n    client-key-data: {data(self.admin_key)}"
        pathlib.Path(path).write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters:\n- name: test\n  cluster:\n    server: {server}\n    certificate-authority-data: {data(self.ca)}\n"
            f"users:\n- name: test\n  user:\n    {user}\n"
            f"contexts:\n- name: test\n  context: {{cluster: test, user: test, namespace: {namespace}}}\n",
            encoding="ascii")
        return path
