"""etcd, kube-apiserver and kube-controller-manager, started by the tests."""

import os
import pathlib
import signal
import subprocess

from ..router import SOURCE, wait_for
from .api import Api
from .network import NODE_IP, SERVICE_RANGE, run
from .pki import Pki

CONTROLLERS = ("deployment-controller,replicaset-controller,endpointslice-controller,serviceaccount-controller,"
               "root-ca-certificate-publisher-controller,namespace-controller,garbage-collector-controller,"
               "disruption-controller")
API_PORT = 6443
_ETCD = f"http://{NODE_IP}:2379"


def _programs():
    """The folders of Kubernetes' programs and of etcd's."""
    script = pathlib.Path(SOURCE) / "tools/cluster/setup.sh"
    done = subprocess.run([script, "kubernetes", "etcd"], check=True, stdout=subprocess.PIPE, text=True)
    return map(pathlib.Path, done.stdout.split())


class ControlPlane:
    """The API server is at NODE_IP:6443 for everybody, RBAC on, tokens of service accounts accepted."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.programs, self._etcd_programs = _programs()
        self.pki = Pki(self.folder)
        self.kubeconfig = self.pki.kubeconfig(self.folder / "admin.kubeconfig", f"https://{NODE_IP}:{API_PORT}")
        self.api = Api((NODE_IP, API_PORT), self.pki)
        self._processes = {}
        run("mount", "-t", "tmpfs", "tmpfs", "/mnt")  # etcd waits for the disk after every write
        self._start("etcd", self._etcd_programs / "etcd", "--data-dir=/mnt/etcd", f"--listen-client-urls={_ETCD}",
                    f"--advertise-client-urls={_ETCD}", "--listen-peer-urls=http://127.0.0.1:2380",
                    "--log-level=error", "--logger=zap", "--auto-compaction-retention=0")
        self.start_api()
        self._probes = 0
        self.wait_controllers()

    def wait_controllers(self):
        """They work. After an outage of the API server each of them waits for up to half a minute: they start anew."""
        if self._controllers_stale:
            if "kube-controller-manager" in self._processes:
                self._end(self._processes.pop("kube-controller-manager"))
            self._start("kube-controller-manager", self.programs / "kube-controller-manager",
                        f"--kubeconfig={self.kubeconfig}", f"--controllers={CONTROLLERS}", "--leader-elect=false",
                        f"--root-ca-file={self.pki.ca}",
                        f"--service-account-private-key-file={self.pki.service_account_key}",
                        "--use-service-account-credentials=false", "--secure-port=0", "--concurrent-endpoint-syncs=5",
                        "--kube-api-qps=500", "--kube-api-burst=1000")
            self._controllers_stale = False
        self._probes += 1
        name = f"probe-{self._probes}"
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = Api.path("ServiceAccount", name, "default")
        wait_for(lambda: self.api.raw("GET", account)[0] == 200, 60, "the controllers", 0.1)

    def _start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
            self._processes[name] = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=environment)

    def start_api(self):
        self._controllers_stale = True
        pki = self.pki
        self._start("kube-apiserver", self.programs / "kube-apiserver", f"--etcd-servers={_ETCD}",
                    f"--secure-port={API_PORT}", f"--advertise-address={NODE_IP}",
                    f"--service-cluster-ip-range={SERVICE_RANGE}", f"--tls-cert-file={pki.api_cert}",
                    f"--tls-private-key-file={pki.api_key}", f"--client-ca-file={pki.ca}", "--authorization-mode=RBAC",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    f"--service-account-key-file={pki.service_account_public}",
                    f"--service-account-signing-key-file={pki.service_account_key}",
                    "--anonymous-auth=false", "--enable-priority-and-fairness=false", "--profiling=false",
                    "--max-requests-inflight=2000", "--endpoint-reconciler-type=master-count",
                    "--etcd-compaction-interval=0", "--event-ttl=10m")
        self.wait_api()

    def wait_api(self):
        def ready():
            assert self._processes["kube-apiserver"].poll() is None, self.log("kube-apiserver")
            try:
                return self.api.raw("GET", "/readyz")[0] == 200
            except OSError:
                return False

        wait_for(ready, 90, "the API server", 0.1)

    def stop_api(self):
        self._end(self._processes.pop("kube-apiserver"))

    def kill_api(self):
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def pause_api(self):
        """Connections stay and are accepted, nothing is answered."""
        self._controllers_stale = True
        self._processes["kube-apiserver"].send_signal(signal.SIGSTOP)

    def resume_api(self):
        if "kube-apiserver" in self._processes:
            self._processes["kube-apiserver"].send_signal(signal.SIGCONT)

    def restore_api(self):
        """After a test that stopped or paused it, whatever became of the test."""
        self.resume_api()
        if "kube-apiserver" not in self._processes:
            self.start_api()

    def compact(self):
        """Forgets all history: a watch from an older version gets 410 when it begins."""
        status = run(self._etcd_programs / "etcdctl", f"--endpoints={_ETCD}", "get", "/registry/none", "-w", "fields")
        revision = next(line.split(":")[1].strip() for line in status.splitlines() if line.startswith('"Revision"'))
        run(self._etcd_programs / "etcdctl", f"--endpoints={_ETCD}", "compact", revision)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-4000:]

    @staticmethod
    def _end(process):
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self):
        self.resume_api()
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            if name in self._processes:
                self._processes.pop(name).kill()


def kubectl(plane, *arguments, data=None, check=True):
    return run(plane.programs / "kubectl", f"--kubeconfig={plane.kubeconfig}", *arguments, data=data, check=check)
