#!/usr/bin/env python3
"""CPU time (user + system) of the proxy per request and per streamed event, beside nginx when it is installed.

Needs wrk (and nginx for the ratio). Options: --seconds N, --rounds N, --perf (records the router with perf and prints
its hottest functions). Figures of one run compare with each other, not with those of another machine.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build" / "release"))
ENGINES = 4
STREAM_TOKENS = 100

NGINX = """worker_processes 1; daemon off; pid nginx.pid; error_log nginx.err; worker_rlimit_nofile 20000;
events {{ worker_connections 20000; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path body; proxy_temp_path proxy;
  fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  upstream engines {{ {servers} keepalive 512; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      client_body_buffer_size 1m; client_max_body_size 20m;
    }}
  }}
}}
"""
LUA = """wrk.method = "POST"; wrk.headers["Content-Type"] = "application/json"
wrk.headers["x-mock-tokens-per-second"] = "%s"
local n = 0
local head, tail = [==[%s]==], [==[%s]==]
function request()
  n = n + 1
  return wrk.format(nil, "/v1/chat/completions", nil, head .. (n %% 50) .. tail)
end
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid):
    """Of the process and its children (nginx works in one)."""
    total, todo = 0, [pid]
    while todo:
        here = todo.pop()
        fields = pathlib.Path(f"/proc/{here}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
        for task in pathlib.Path(f"/proc/{here}/task").iterdir():
            todo += [int(child) for child in (task / "children").read_text().split()]
    return total / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def spawn(self, *arguments, **options):
        process = subprocess.Popen([str(a) for a in arguments], cwd=self.folder, **options)
        self.processes.append(process)
        return process

    def start(self):
        ports = []
        for _ in range(ENGINES):
            engine = self.spawn(BUILD / "tools/mock-engine/mock-engine", "--port", 0, "--model", "m",
                                "--decode-tokens-per-second", 0, "--keep-alive", 3600, stdout=subprocess.PIPE, text=True)
            ports.append(int(engine.stdout.readline().rsplit(":", 1)[1]))
        resources = (ROOT / "tools/demo/demo.yaml").read_text().replace(
            "@ENDPOINTS@", ", ".join(f'"127.0.0.1:{p}"' for p in ports)).replace("model: demo", "model: m").replace(
            "modelName: demo", "modelName: m")
        (self.folder / "resources.yaml").write_text(resources)
        port = free_port()
        with open(self.folder / "router.log", "w") as log:
            router = self.spawn(BUILD / "warmroute", "--resources", "resources.yaml", "--config",
                                ROOT / "config/routerConfiguration.yaml", "--port", port, "--workers", 1,
                                "--metrics-port", free_port(), "--debug-port", free_port(), stdout=log, stderr=log)
        self.wait(f"http://127.0.0.1:{port}/readyz", router)
        targets = {"warmroute": (router.pid, port)}
        if shutil.which("nginx"):
            nginx_port = free_port()
            (self.folder / "nginx.conf").write_text(NGINX.format(
                port=nginx_port, servers=" ".join(f"server 127.0.0.1:{p};" for p in ports)))
            nginx = self.spawn("nginx", "-p", self.folder, "-c", "nginx.conf", stderr=subprocess.DEVNULL)
            self.wait(f"http://127.0.0.1:{nginx_port}/v1/models", nginx)
            targets["nginx"] = (nginx.pid, nginx_port)
        self.engines = ports
        return targets

    @staticmethod
    def wait(url, process):
        for _ in range(200):
            if process.poll() is not None:
                sys.exit(f"bench: {process.args[0]} ended with {process.returncode}")
            try:
                with urllib.request.urlopen(url, timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"bench: {url} does not answer")

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()

    def load(self, name, port, payload, connections, seconds):
        body, rate = payload
        head, tail = body
        script = self.folder / f"{name}.lua"
        script.write_text(LUA % (rate, head, tail))
        out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", script,
                              f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True).stdout
        if bad := re.search(r"(Non-2xx.*|Socket errors.*)", out):
            print(f"  note: {bad[1]}")
        return int(re.search(r"(\d+) requests in", out)[1])


def body(prompt_bytes, **more):
    """Around the number that makes requests differ: every tenth repeats a prompt with another last message."""
    whole = json.dumps({"model": "m", "messages": [{"role": "system", "content": "s" * prompt_bytes},
                                                   {"role": "user", "content": "question @"}], **more})
    return whole.split("@")


CASES = [
    ("chat request of 1.7 KB, 32 connections", (body(1500, max_tokens=60), 0), 32, 1),
    ("chat request of 100 KB, 32 connections", (body(100_000, max_tokens=60), 0), 32, 1),
    ("SSE event, 64 streams of 100 events a second",
     (body(1500, max_tokens=STREAM_TOKENS, stream=True, stream_options={"include_usage": True}), 100), 64,
     STREAM_TOKENS + 4),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--perf", action="store_true")
    options = parser.parse_args()
    for tool in ["wrk"] + (["perf"] if options.perf else []):
        if not shutil.which(tool):
            sys.exit(f"bench: {tool} is missing; apt-get install {'linux-perf' if tool == 'perf' else tool}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder))
        try:
            targets = bench.start()
            for title, payload, connections, units in CASES:
                rows = {}
                for _ in range(options.rounds):
                    for name, (pid, port) in targets.items():
                        bench.load(name, port, payload, connections, 1)
                        before = cpu_seconds(pid)
                        count = bench.load(name, port, payload, connections, options.seconds)
                        rows.setdefault(name, []).append((cpu_seconds(pid) - before) * 1e6 / max(1, count * units))
                medians = {name: statistics.median(values) for name, values in rows.items()}
                text = "   ".join(f"{name} {value:8.2f} us" for name, value in medians.items())
                if "nginx" in medians:
                    text += f"   ratio {medians['warmroute'] / medians['nginx']:.2f}"
                print(f"{title}: {text}", flush=True)
            if options.perf:
                pid, port = targets["warmroute"]
                perf = subprocess.Popen(["perf", "record", "-q", "-g", "-o", bench.folder / "perf.data", "-p", str(pid)])
                bench.load("warmroute", port, CASES[0][1], 32, options.seconds)
                perf.send_signal(signal.SIGINT)
                perf.wait()
                subprocess.run(["perf", "report", "-i", bench.folder / "perf.data", "--stdio", "--no-children", "-g",
                                "none", "--percent-limit", "0.7"], check=False)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
