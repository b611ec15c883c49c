#!/usr/bin/env python3
"""Four mock engines and the router in the foreground; Ctrl-C stops all. Needs only Python's standard library.

PORT, METRICS_PORT and DEBUG_PORT change the router's ports, ENGINE_PORT the first engine's; BUILD_DIR names a build
folder other than build/release. PD=1 makes two prefill/decode pairs of the engines, PD=CONNECTOR with that connector.
"""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build" / "release"))
ENGINES = 4
CONNECTORS = ("http", "lmcache", "nixl", "mooncake", "sglang")
PROMPT = ("You answer questions about the night sky for the visitors of a small observatory. Be friendly, give "
          "distances in light years, and never guess: say so when you do not know.")


def fail(text):
    print(f"make run: {text}", file=sys.stderr)
    sys.exit(1)


def port_from(name, default):
    text = os.environ.get(name) or str(default)
    if not text.isdigit() or not 0 < int(text) < 65536:
        fail(f"{name}={text} is not a port")
    return int(text)


def is_free(port, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
            probe.listen()
            return True
    except OSError as error:
        return family == socket.AF_INET6 and "in use" not in str(error)  # a machine without IPv6


def die_with_parent():
    """In the child: no terminal signals of its own, and no life beyond this script's."""
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def connector_from_env():
    """None without PD."""
    value = os.environ.get("PD", "")
    if value in ("", "0"):
        return None
    if value != "1" and value not in CONNECTORS:
        fail(f"PD={value} is neither 1 nor one of {', '.join(CONNECTORS)}")
    return "nixl" if value == "1" else value


class Demo:
    def __init__(self):
        self.connector = connector_from_env()
        self.children = {}
        self.stopping = False

    def spawn(self, name, arguments, **options):
        self.children[name] = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.DEVNULL,
                                               preexec_fn=die_with_parent, **options)
        return self.children[name]

    def start_engines(self):
        endpoints = []
        port = port_from("ENGINE_PORT", 8001)
        for number in range(1, ENGINES + 1):
            name, address, extra = f"engine-{number}", "127.0.0.1", []
            if self.connector:  # 1 and 2 are a group, 3 and 4 another; an address each, for the bootstrap port
                role = "decode" if number % 2 == 0 else "prefill"
                name, address = f"{role}-{(number + 1) // 2}", f"127.0.0.{10 + number}"
                dialect = "sglang" if self.connector == "sglang" else "vllm"
                extra = ["--pd-role", role, "--pd-connector", self.connector, "--engine", dialect, "--bind", address]
            while not is_free(port, address):
                port += 1
            engine = self.spawn(name, [BUILD / "tools/mock-engine/mock-engine", "--port", port, "--name", name,
                                       "--model", "demo", "--max-tokens", 32, "--prefill-tokens-per-second", 2000,
                                       "--decode-tokens-per-second", 60, *extra], stdout=subprocess.PIPE, text=True)
            line = engine.stdout.readline()
            if not line.startswith("listening on "):
                fail(f"{name} did not start")
            endpoints.append(f"{address}:{port}")
            port += 1
        return endpoints

    def start_router(self, endpoints):
        folder = ROOT / "build" / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        resources = folder / "resources.yaml"
        if self.connector:
            text = self.pd_resources(endpoints)
        else:
            text = (pathlib.Path(__file__).parent / "demo.yaml").read_text(encoding="utf-8")
            text = text.replace("@ENDPOINTS@", ", ".join(f'"{e}"' for e in endpoints))
        resources.write_text(text, encoding="utf-8")
        self.spawn("router", [BUILD / "warmroute", "--resources", resources, "--config",
                              ROOT / "config/routerConfiguration.yaml", "--port", self.port, "--metrics-port",
                              self.metrics_port, "--debug-port", self.debug_port])

    def pd_resources(self, endpoints):
        text = (pathlib.Path(__file__).parent / "pd.yaml").read_text(encoding="utf-8")
        for number, endpoint in enumerate(endpoints, 1):
            text = text.replace(f"@ENDPOINT{number}@", f'"{endpoint}"')
        if self.connector == "sglang":  # inferred from the engine
            return text.replace("  kvConnector: {type: @CONNECTOR@}\n", "").replace("@ENGINE@", "SGLang")
        return text.replace("@CONNECTOR@", self.connector).replace("@ENGINE@", "vLLM")

    def wait_ready(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.check_children()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.05)
        fail("the router did not become ready within 20 seconds")

    def check_children(self):
        for name, child in self.children.items():
            if child.poll() is not None and name == "router":
                fail(f"{name} ended with code {child.returncode}")

    def choose_ports(self):
        self.port = port_from("PORT", 8080)
        self.metrics_port = port_from("METRICS_PORT", 9090)
        self.debug_port = port_from("DEBUG_PORT", 15000)
        for name, port, addresses in (("PORT", self.port, ("0.0.0.0", "::")),
                                      ("METRICS_PORT", self.metrics_port, ("0.0.0.0", "::")),
                                      ("DEBUG_PORT", self.debug_port, ("127.0.0.1",))):
            if not all(is_free(port, address) for address in addresses):
                fail(f"port {port} is taken; choose another: make run {name}={port + 1}")

    def print_pd_summary(self, endpoints):
        url = f"http://localhost:{self.port}"
        print(f"""
warmroute is ready: {url}/v1    model: demo    prefill/decode with connector {self.connector}
  engines   {'  '.join(f'{name} {e}' for name, e in zip((n for n in self.children if n != 'router'), endpoints))}

Send this from another terminal; a decode engine answers, and the line of the access log below names both pods:

  curl -si {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model":"demo","messages":[{{"role":"system","content":"{PROMPT}"}},{{"role":"user","content":"How far is Vega?"}}]}}' \\
    | grep -oiE 'x-mock-engine: .*|"cached_tokens":[0-9]+'

How long each part took:

  curl -s http://localhost:{self.metrics_port}/metrics | grep -E '(prefill|decode)_duration_seconds_(sum|count)'

Ctrl-C stops all.
""", flush=True)

    def print_summary(self, endpoints):
        if self.connector:
            self.print_pd_summary(endpoints)
            return
        url = f"http://localhost:{self.port}"
        print(f"""
warmroute is ready: {url}/v1    model: demo
  engines   {'  '.join(endpoints)}
  metrics   http://localhost:{self.metrics_port}/metrics    debug: http://localhost:{self.debug_port}/debug/config_dump/pods

Send this twice from another terminal; the second answer comes from the same engine, and sooner:

  curl -si {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model":"demo","messages":[{{"role":"system","content":"{PROMPT}"}},{{"role":"user","content":"How far is Vega?"}}]}}' \\
    | grep -oiE 'x-mock-engine: .*|"cached_tokens":[0-9]+'

Prefix hits:

  curl -s http://localhost:{self.metrics_port}/metrics | grep -E 'prefix_cache_(match_ratio_(sum|count)|entries)'

Ctrl-C stops all.
""", flush=True)

    def stop(self):
        """The router first, so that nothing is sent to engines that are gone."""
        for name in ["router"] + [n for n in self.children if n != "router"]:
            child = self.children.get(name)
            if not child or child.poll() is not None:
                continue
            child.send_signal(signal.SIGINT)
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def run(self):
        for binary in ("warmroute", "tools/mock-engine/mock-engine"):
            if not (BUILD / binary).exists():
                fail(f"{BUILD / binary} is missing; run `make build`")
        self.choose_ports()
        endpoints = self.start_engines()
        self.start_router(endpoints)
        self.wait_ready()
        self.print_summary(endpoints)
        gone = set()
        while True:
            time.sleep(0.2)
            self.check_children()
            for name, child in self.children.items():
                if child.poll() is not None and name not in gone:
                    gone.add(name)
                    print(f"{name} ended; the router goes on with the others", file=sys.stderr, flush=True)


def main():
    demo = Demo()

    def interrupted(_number, _frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)  # also when started in the background, where it is ignored
    try:
        demo.run()
    except KeyboardInterrupt:
        print("\nstopping", flush=True)
    finally:
        demo.stop()


if __name__ == "__main__":
    main()
