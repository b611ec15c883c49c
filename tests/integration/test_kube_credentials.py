"""Who the router is towards the API server: tokens that rotate, exec plugins, client certificates, CA files."""

import base64
import json
import shutil
import ssl
import stat
import time

import pytest
from support import tls
from support.router import wait_for


@pytest.fixture
def authority(tmp_path):
    return tls.Authority(tmp_path)


def b64(path):
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def server_context(authority, ip, clients=None):
    context = authority.server("api", f"IP:{ip},DNS:kubernetes.default")
    if clients:
        context.load_verify_locations(clients.cert)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def secure(cluster, authority, clients=None, **kw):
    """A cluster over TLS; the API server's address is known only once there is a slot."""
    made = cluster(start=False, **kw)
    made.kube.tls = server_context(authority, made.kube.address[0], clients)
    made.cluster = {"certificate-authority-data": b64(authority.cert)}
    made.write_kubeconfig()
    return made


def test_a_token_file_that_rotates(cluster, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    made = cluster(user={"tokenFile": str(token)}, token="first")
    assert made.status() == 200
    token.write_text("second\n")
    made.kube.token = "second"
    made.kube.cut_watches()
    wait_for(lambda: made.kube.streams == 3, 10, "watches with the second token")
    assert "Bearer second" in made.kube.tokens
    token.unlink()  # what it held before serves on
    made.kube.cut_watches()
    wait_for(lambda: made.kube.streams == 3, 10, "watches without the file")
    assert "second" not in made.router.stderr()


def plugin(tmp_path, tokens, lifetime=None, version="v1"):
    """A program that prints the n-th token at its n-th run."""
    runs = tmp_path / "runs"
    runs.write_text("")
    script = tmp_path / "plugin"
    expires = '"expirationTimestamp":"%s",' if lifetime else ""
    body = (f'{{"apiVersion":"client.authentication.k8s.io/{version}","kind":"ExecCredential","status":{{{expires}'
            '"token":"%s"}}')
    stamp = f'"$(date -u -d "+{lifetime} seconds" +%Y-%m-%dT%H:%M:%SZ)" ' if lifetime else ""
    script.write_text("#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >> %s\nset -- %s\nshift $(($(wc -l < %s)-1))\n"
                      "printf '%s' %s$1\n" % (runs, " ".join(tokens), runs, body, stamp))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(script),
                     "interactiveMode": "Never", "provideClusterInfo": True}}
    return user, runs


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_exec_plugin_runs_once_and_again_when_its_token_is_refused(cluster, tmp_path, version):
    user, runs = plugin(tmp_path, ["one", "two"], version=version)
    made = cluster(user=user, token="one")
    assert made.status() == 200
    assert len(runs.read_text().splitlines()) == 1  # for three lists and three watches
    info = json.loads(runs.read_text())
    assert info["spec"] == {"interactive": False, "cluster": {"server": made.kube.url}}
    made.kube.token = "two"
    made.kube.cut_watches()
    wait_for(lambda: made.kube.streams == 3, 10, "watches with the second token")
    assert len(runs.read_text().splitlines()) == 2


def test_an_exec_plugin_runs_again_when_its_token_expires(cluster, tmp_path):
    user, runs = plugin(tmp_path, ["one", "two", "three"], lifetime=2)
    made = cluster(user=user, token="one", flags=["--kube-relist=500ms"])
    time.sleep(0.1)
    made.kube.token = None
    wait_for(lambda: "Bearer two" in made.kube.tokens, 10, "the second token")
    assert 2 <= len(runs.read_text().splitlines()) <= 3


def test_an_exec_plugin_that_fails_is_told_and_tried_again(cluster, tmp_path):
    script = tmp_path / "plugin"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script),
                     "interactiveMode": "Never", "installHint": "see the handbook"}}
    made = cluster(user=user, token="t", wait_ready=False)
    made.router.wait_stderr(f"exec plugin {script}: exit code 7; see the handbook")
    assert made.router.get("/readyz").status == 503
    script.write_text('#!/bin/sh\necho \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
                      '"status":{"token":"t"}}\'\n')
    wait_for(lambda: made.router.get("/readyz").status == 200, 15, "ready")


def common_name(certificate):
    return dict(pair[0] for pair in certificate["subject"])["commonName"]


def test_a_client_certificate_in_the_kubeconfig(cluster, authority, tmp_path):
    users = tls.Authority(tmp_path, "users")
    cert, key = users.issue("router-one", "DNS:one")
    made = secure(cluster, authority, users)
    made.kube.client_certificates = True
    made.user = {"client-certificate-data": b64(cert), "client-key-data": b64(key)}
    made.write_kubeconfig()
    made.router.start()
    assert made.status() == 200
    assert {common_name(each) for each in made.kube.seen_certificates} == {"router-one"}


def test_a_client_certificate_in_files_that_rotate(cluster, authority, tmp_path):
    users = tls.Authority(tmp_path, "users")
    live = [str(tmp_path / "live.crt"), str(tmp_path / "live.key")]

    def lay(pair):
        for path, source in zip(live, pair):
            shutil.copy(source, path)

    lay(users.issue("router-one", "DNS:one"))
    made = secure(cluster, authority, users)
    made.kube.client_certificates = True
    made.user = {"client-certificate": live[0], "client-key": live[1]}
    made.write_kubeconfig()
    made.router.start()
    assert made.status() == 200
    lay(users.issue("router-two", "DNS:two"))
    refused = []

    def fail(_verb, _kind, _query):  # as an API server does whose list of revoked certificates grew
        if "router-two" not in {common_name(each) for each in made.kube.seen_certificates}:
            refused.append(1)
            return (401, "Unauthorized")
        return None

    made.kube.fail = fail
    made.kube.cut_watches()
    wait_for(lambda: made.kube.streams == 3, 10, "watches with the second certificate")
    assert refused
    made.router.wait_stderr("certificates reloaded")


def test_a_server_of_another_authority_gets_no_request(cluster, authority, tmp_path):
    made = secure(cluster, authority)
    made.user = {"token": "secret-token"}
    made.cluster = {"certificate-authority-data": b64(tls.Authority(tmp_path, "other").cert)}
    made.write_kubeconfig()
    made.router.start(wait_ready=False)
    made.router.wait_stderr("TLS: ")
    assert made.router.get("/readyz").status == 503
    assert not made.kube.requests
    assert "secret-token" not in made.router.stderr()


@pytest.mark.parametrize("fields", [{"insecure-skip-tls-verify": True}, {"tls-server-name": "kubernetes.default"}])
def test_names_and_insecurity_as_the_kubeconfig_says(cluster, authority, fields):
    made = secure(cluster, authority)
    made.cluster = {"certificate-authority-data": b64(authority.cert), **fields}
    if "insecure-skip-tls-verify" in fields:
        del made.cluster["certificate-authority-data"]
    made.write_kubeconfig()
    made.router.start()
    assert made.status() == 200
