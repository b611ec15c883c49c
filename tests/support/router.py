"""Starts the router under test and looks at everything it shows."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from . import wire
from .slots import Slot

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("WR_BIN", os.path.join(SOURCE, "build/release/warmroute"))
MOCK_ENGINE = os.environ.get("WR_MOCK_ENGINE", os.path.join(os.path.dirname(BINARY), "tools/mock-engine/mock-engine"))
SANITIZER_REPORT = re.compile(
    r"(ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error: |UndefinedBehaviorSanitizer)")
SLOW = float(os.environ.get("WR_TEST_SLOWNESS", "1"))  # > 1 under sanitizers: time limits grow

DEFAULT_CONFIG = """\
scheduler:
  pluginConfig:
  - name: least-request
    args:
      maxWaitingRequests: 10
  - name: least-latency
    args:
      TTFTTPOTWeightFactor: 0.5
  - name: prefix-cache
    args:
      blockSizeToHash: 64
      maxBlocksToMatch: 128
      maxHashCacheSize: 50000
      topKMatches: 5
  plugins:
    Filter:
      enabled:
        - least-request
      disabled:
        - lora-affinity
    Score:
      enabled:
        - name: least-request
          weight: 1
        - name: gpu-usage
          weight: 1
        - name: least-latency
          weight: 1
        - name: prefix-cache
          weight: 1
"""


def wait_for(check, timeout=10.0, what="condition", step=0.01):
    """The first true value of check(); fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(step)


def run_binary(*arguments, env=None, timeout=20):
    """Runs the router to its end: (exit code, stdout, stderr)."""
    environment = {"PATH": os.environ.get("PATH", ""), **_sanitizer_env(), **(env or {})}
    done = subprocess.run([BINARY, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout * SLOW, check=False)
    err = done.stderr.decode("utf-8", "replace")
    assert not SANITIZER_REPORT.search(err), err
    return done.returncode, done.stdout.decode("utf-8", "replace"), err


def _sanitizer_env():
    return {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


class Router:
    """`resources`: text of one file, or {file name: text}; `kubeconfig` in their place: it follows that cluster.
    `config`: text, None for --resources without --config.

    The inference listener is 127.A.B.200:8080, metrics 127.A.B.200:9090, debug 127.0.0.1:<slot's port>.
    """

    def __init__(self, resources="", config=DEFAULT_CONFIG, flags=(), env=None, log_format="json", slot=None,
                 wait_ready=True, start=True, kubeconfig=None):
        self.slot = slot or Slot()
        self._own_slot = slot is None
        self.dir = tempfile.mkdtemp(prefix="warmroute-test-")
        self.resource_dir = os.path.join(self.dir, "resources")
        os.mkdir(self.resource_dir)
        files = resources if isinstance(resources, dict) else {"world.yaml": resources}
        for name, text in files.items():
            self.write_resource(name, text)
        self.host = self.slot.ip(200)
        self.address = (self.host, 8080)
        self.metrics_address = (self.host, 9090)
        self.debug_address = ("127.0.0.1", self.slot.debug_port)
        self.log_path = os.path.join(self.dir, "access.log")
        self.stderr_path = os.path.join(self.dir, "stderr.txt")
        self.stdout_path = os.path.join(self.dir, "stdout.txt")
        source = [f"--kubeconfig={kubeconfig}"] if kubeconfig else [f"--resources={self.resource_dir}"]
        self.command = [BINARY, *source, f"--bind-address={self.host}", "--port=8080", "--metrics-port=9090",
                        f"--debug-port={self.slot.debug_port}"]
        if config is not None:
            self.config_path = os.path.join(self.dir, "routerConfiguration.yaml")
            with open(self.config_path, "w", encoding="utf-8") as file:
                file.write(config)
            self.command.append(f"--config={self.config_path}")
        self.command += list(flags)
        self.env = {"PATH": os.environ.get("PATH", ""), "POD_NAMESPACE": "golden", "METRICS_SCRAPE_INTERVAL": "2s",
                    "ACCESS_LOG_OUTPUT": self.log_path, "ACCESS_LOG_FORMAT": log_format, **_sanitizer_env(),
                    **(env or {})}
        self.log_format = log_format
        self.process = None
        self.exit_code = None
        if start:
            self.start(wait_ready)

    # life

    def start(self, wait_ready=True):
        with open(self.stderr_path, "ab") as err, open(self.stdout_path, "ab") as out:
            self.process = subprocess.Popen(self.command, env=self.env, stdout=out, stderr=err)
        self.started_at = time.monotonic()
        if wait_ready:
            try:
                self.wait_ready()
            except BaseException:
                self.process.kill()
                self.process.wait()
                raise
        return self

    def wait_ready(self, timeout=15.0):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"the router ended with {self.process.returncode}:\n{self.log_tail()}")
            return self.try_get("/readyz").status == 200

        wait_for(ready, timeout, "ready", 0.005)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, timeout=10.0):
        self.exit_code = self.process.wait(timeout * SLOW)
        return self.exit_code

    def stop(self, check=True):
        """SIGINT (no drain delay), then the checks every run ends with."""
        try:
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
                try:
                    self.process.wait(10 * SLOW)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    if check:
                        raise AssertionError("the router did not end within 10 s of SIGINT:\n" + self.log_tail())
            if check and self.process is not None and self.exit_code is None:
                assert self.process.returncode == 0, f"exit code {self.process.returncode}\n{self.log_tail()}"
            report = SANITIZER_REPORT.search(self.stderr())
            if check and report:
                raise AssertionError(self.stderr()[-8000:])
        finally:
            if self._own_slot:
                self.slot.release()
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.stop(check=kind is None)

    # talking to it

    def connect(self, timeout=wire.DEFAULT_TIMEOUT, tls=None, server_name="localhost"):
        return wire.Conn(self.address, tls, server_name, timeout)

    def send_raw(self, data, method="POST", timeout=wire.DEFAULT_TIMEOUT):
        return wire.exchange(self.address, data if isinstance(data, bytes) else data.encode(), method, timeout)

    def request(self, method, path, body=b"", headers=(), timeout=wire.DEFAULT_TIMEOUT, **kw):
        return self.send_raw(wire.request_bytes(method, path, body, headers, **kw), method, timeout)

    def post(self, path, body, headers=(("Content-Type", "application/json"),), **kw):
        return self.request("POST", path, body, headers, **kw)

    def chat(self, model="m-a", content="hello", path="/v1/chat/completions", headers=(), **members):
        timeout = members.pop("timeout", wire.DEFAULT_TIMEOUT)
        body = {"model": model, "messages": [{"role": "user", "content": content}], **members}
        return self.post(path, body, (("Content-Type", "application/json"), *headers), timeout=timeout)

    def get(self, path, address=None):
        return wire.exchange(address or self.address, wire.request_bytes("GET", path), "GET")

    def try_get(self, path, address=None):
        try:
            return self.get(path, address)
        except OSError:
            return wire.Response()

    def debug(self, path):
        return self.get(path, self.debug_address)

    # looking at it

    def stderr(self):
        try:
            with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:  # never started
            return ""

    def log_tail(self):
        """The last part of the log, without the list of flags."""
        return "\n".join(line for line in self.stderr().splitlines() if "] Flag: " not in line)[-4000:]

    def stdout(self):
        with open(self.stdout_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_stderr(self, text, timeout=10.0):
        return wait_for(lambda: text in self.stderr() and self.stderr(), timeout, f"{text!r} in the log")

    def log_lines(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def wait_log(self, count=1, timeout=5.0):
        """`count` access-log lines (objects where the format is JSON)."""
        wait_for(lambda: len(self.log_lines()) >= count, timeout, f"{count} access-log lines")
        lines = self.log_lines()
        return [json.loads(line) for line in lines] if self.log_format == "json" else lines

    def metrics_text(self):
        answer = self.get("/metrics", self.metrics_address)
        assert answer.status == 200, answer
        return answer.text

    def metrics(self):
        return parse_metrics(self.metrics_text())

    def metric(self, name, **labels):
        """Sum of the samples of one name that carry the labels."""
        return sum(value for (sample, pairs), value in self.metrics().items()
                   if sample == name and labels.items() <= dict(pairs).items())

    def wait_metric(self, name, value, timeout=5.0, **labels):
        last = [None]

        def check():
            last[0] = self.metric(name, **labels)
            return last[0] == value

        try:
            wait_for(check, timeout, name, 0.02)
        except AssertionError:
            raise AssertionError(f"{name}{labels} is {last[0]}, not {value}") from None

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    # resources

    def write_resource(self, name, text):
        """Atomically, as an editor or kubelet would."""
        draft = os.path.join(self.dir, "draft")
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(draft, os.path.join(self.resource_dir, name))

    def remove_resource(self, name):
        os.remove(os.path.join(self.resource_dir, name))


_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def parse_metrics(text):
    """{(name, sorted label pairs): value}"""
    out = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        assert match, f"not a sample: {line!r}"
        labels = tuple(sorted(_LABEL.findall(match.group(2) or "")))
        key = (match.group(1), labels)
        assert key not in out, f"doubled series {line!r}"
        out[key] = float(match.group(3))
    return out


def metric_types(text):
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
