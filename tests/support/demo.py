"""`make run`, without the build: tools/demo/run.py as a process, and a request to what it starts."""

import json
import os
import pathlib
import random
import socket
import subprocess
import urllib.request

from . import router

ROOT = pathlib.Path(__file__).resolve().parents[2]
BODY = {"model": "demo", "max_tokens": 4, "messages": [
    {"role": "system", "content": "You answer questions about the night sky. " * 12},
    {"role": "user", "content": "How far is Vega?"}]}


def free_ports(count):
    """Below those that the kernel gives to connections, or one of another test could come in between."""
    ports = []
    while len(ports) < count:
        port = random.randrange(25000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in ports:
            ports.append(port)
    return ports


def start(**ports):
    environment = {**os.environ, "BUILD_DIR": os.path.dirname(router.BINARY), **{k: str(v) for k, v in ports.items()}}
    return subprocess.Popen(["/usr/bin/python3", ROOT / "tools/demo/run.py"], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def ask(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(BODY).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers["x-mock-engine"], json.load(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]
