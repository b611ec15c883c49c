"""Starts the stand-in engine and the proxies that the bench measures, and stops them again."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build" / "release"))
TOOLS = BUILD / "tools" / "bench"
VENV = ROOT / "build" / "venv-bench"
MISSING = ROOT / "build" / "bench-missing.txt"
PEERS = ["nginx", "haproxy", "sglang-router"]
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
MODEL = "m"

RESOURCES = """apiVersion: warmroute.dev/v1alpha1
kind: StaticPods
metadata: {{name: engines}}
spec:
  labels: {{app: bench}}
  endpoints: [{endpoints}]
---
apiVersion: networking.serving.volcano.sh/v1alpha1
kind: ModelServer
metadata: {{name: bench}}
spec:
  inferenceEngine: vLLM
  workloadSelector: {{matchLabels: {{app: bench}}}}
  workloadPort: {{port: 8000}}
"""
ROUTE = """---
apiVersion: networking.serving.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {{name: "{name}"}}
spec:
  modelName: "{name}"
  rules: [{{targetModels: [{{modelServerName: bench}}]}}]
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def absent():
    """Peers that are not here, with the reason that setup.sh wrote down."""
    reasons = dict(line.split(": ", 1) for line in MISSING.read_text().splitlines()) if MISSING.exists() else {}
    here = {"nginx": shutil.which("nginx"), "haproxy": shutil.which("haproxy"),
            "sglang-router": (VENV / "installed.lock").exists()}
    return {name: reasons.get(name, "not installed; run tools/bench/setup.sh") for name in PEERS if not here[name]}


def tree(pid):
    """The process and all that descend from it."""
    found, todo = [], [pid]
    while todo:
        here = todo.pop()
        try:
            tasks = list(pathlib.Path(f"/proc/{here}/task").iterdir())
            found.append(here)
            for task in tasks:
                todo += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def cpu_seconds(pid):
    ticks = 0
    for here in tree(pid):
        try:
            fields = pathlib.Path(f"/proc/{here}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    kib = 0
    for here in tree(pid):
        try:
            found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{here}/status").read_text())
        except OSError:
            continue
        kib += int(found[1]) if found else 0
    return kib * 1024


def answers(port, path):
    """True when GET gives 200."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(4096)[:13].split(b" ")[1:2] == [b"200"]
    except OSError:
        return False


class Engine:
    """The stand-in: `count` addresses from 127.0.0.2 on, one port."""

    def __init__(self, stack, count):
        self.process = stack.spawn(TOOLS / "bench-engine", count, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        first = int.from_bytes(socket.inet_aton("127.0.0.2"), "big")
        self.hosts = [socket.inet_ntoa((first + i).to_bytes(4, "big")) for i in range(count)]
        self.endpoints = [f"{host}:{self.port}" for host in self.hosts]


class Proxy:
    def __init__(self, stack, name, port, arguments, ready, cwd=None, variables=None, metrics_port=None, log=None):
        self.name, self.port, self.metrics_port, self.log = name, port, metrics_port, log
        started = time.monotonic()
        out = open(log, "ab") if log else subprocess.DEVNULL  # appended to, so that it can be cut while it is written
        self.process = stack.spawn(*arguments, cwd=cwd, stdout=out, stderr=out, env={**os.environ, **(variables or {})})
        self.pid = self.process.pid
        while not answers(port, ready):
            if self.process.poll() is not None:
                tail = pathlib.Path(log).read_text(errors="replace")[-2000:] if log else ""
                sys.exit(f"bench: {name} ended with {self.process.returncode}\n{tail}")
            if time.monotonic() - started > 60:
                sys.exit(f"bench: {name} does not get ready")
            time.sleep(0.001)
        self.ready_s = time.monotonic() - started

    def metric(self, name):
        """Sum of a family's samples, by warmroute's metrics page."""
        page = b""
        with socket.create_connection(("127.0.0.1", self.metrics_port), timeout=10) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
            while piece := connection.recv(1 << 16):
                page += piece
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", page.decode(), re.M)
        if not found:
            sys.exit(f"bench: the metrics page has no {name}")
        return sum(float(value) for value in found)

    def forget_log(self):
        if self.log:
            os.truncate(self.log, 0)


class Stack:
    """Everything that one run starts; a context manager that ends it all."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(self.processes)

    def spawn(self, *arguments, **options):
        process = subprocess.Popen([str(argument) for argument in arguments], **options)
        self.processes.append(process)
        return process

    def stop(self, processes):
        for process in processes:
            process.send_signal(signal.SIGTERM if process.args[0] == "nginx" else signal.SIGINT)
        for process in processes:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = [process for process in self.processes if process not in processes]

    def end(self, *proxies):
        self.stop([proxy.process for proxy in proxies])

    def new_folder(self, name):
        self.count += 1
        folder = self.folder / f"{name}-{self.count}"
        folder.mkdir()
        return folder

    def start(self, name, engine, workers=1, **more):
        return getattr(self, name.replace("-", "_"))(engine, workers, **more)

    @staticmethod
    def fill(template, **values):
        text = (HERE / template).read_text()
        for key, value in values.items():
            text = text.replace(f"@{key.upper()}@", str(value))
        return text

    def warmroute(self, engine, workers=1, routes=1, pods=None, variables=None, wrapper=(), binary=BUILD / "warmroute"):
        folder = self.new_folder("warmroute")
        endpoints = engine.endpoints[:pods or len(engine.endpoints)]
        names = [MODEL] + [f"{MODEL}-{i:05d}" for i in range(1, routes)]
        (folder / "resources.yaml").write_text(
            RESOURCES.format(endpoints=", ".join(f'"{endpoint}"' for endpoint in endpoints)) +
            "".join(ROUTE.format(name=name) for name in names))
        port, metrics_port = free_port(), free_port()
        return Proxy(self, "warmroute", port,
                     [*wrapper, binary, "--resources", folder / "resources.yaml", "--config",
                      ROOT / "config/routerConfiguration.yaml", "--bind-address", "127.0.0.1", "--port", port,
                      "--metrics-port", metrics_port, "--debug-port", free_port(), "--workers", workers],
                     "/readyz", folder, variables, metrics_port, folder / "log")

    def nginx(self, engine, workers=1):
        folder, port = self.new_folder("nginx"), free_port()
        (folder / "nginx.conf").write_text(self.fill(
            "nginx.conf", workers=workers, descriptors=DESCRIPTORS,
            connections=2 * DESCRIPTORS, port=port,
            servers=" ".join(f"server {endpoint};" for endpoint in engine.endpoints)))
        return Proxy(self, "nginx", port, ["nginx", "-p", folder, "-c", "nginx.conf"], "/v1/models")

    def haproxy(self, engine, workers=1):
        folder, port = self.new_folder("haproxy"), free_port()
        (folder / "haproxy.cfg").write_text(self.fill(
            "haproxy.cfg", workers=workers, connections=max(100, (DESCRIPTORS - 200) // 2), port=port,
            servers="\n  ".join(f"server e{i} {endpoint}" for i, endpoint in enumerate(engine.endpoints))))
        return Proxy(self, "haproxy", port, ["haproxy", "-db", "-f", folder / "haproxy.cfg"], "/v1/models")

    def sglang_router(self, engine, workers=1):
        del workers  # it takes all processors
        folder, port = self.new_folder("sglang-router"), free_port()
        return Proxy(self, "sglang-router", port,
                     [VENV / "bin/python", "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", port,
                      "--policy", "cache_aware", "--log-level", "error", "--prometheus-port", free_port(),
                      "--worker-urls", *(f"http://{endpoint}" for endpoint in engine.endpoints)],
                     "/v1/models", folder, log=folder / "log")
