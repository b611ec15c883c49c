"""An engine that says exactly what a script tells it, over raw sockets, and records what it was sent.

A script is a list of steps for one request: {"send": text}, {"send_b64": base64}, {"send_repeat": text, "count": n},
{"wait_ms": n}, {"call": f} (with the SeenRequest), {"close": True} (FIN), {"reset": True} (RST), {"hang": True} (say nothing until the peer closes).
Without close or reset the connection stays open for the next request. `answers` holds one script per request; the
last one is repeated. GET /metrics, /v1/models and /health without a body are the router's own and are answered aside.
"""

import base64
import socket
import ssl
import struct
import threading
import time

from .wire import Headers, readable

DEFAULT_METRICS = (
    "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.0\n"
    "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0\n"
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
)


def vllm_metrics(kv=0.0, waiting=0, running=0):
    return (
        f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc {kv}\n"
        f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting {waiting}\n"
        f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n"
    )


def answer(body=b'{"ok":true}', status="200 OK", content_type="application/json", headers=(), close=False):
    """A script with one complete answer."""
    if isinstance(body, str):
        body = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    steps = [{"send_bytes": head.encode("latin-1") + body}]
    return steps + [{"close": True}] if close else steps


def chat(content="hi", prompt_tokens=3, completion_tokens=2, model="real-a", headers=()):
    body = (
        '{"id":"c1","object":"chat.completion","created":1,"model":"%s","choices":[{"index":0,"message":'
        '{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,'
        '"completion_tokens":%d,"total_tokens":%d}}'
        % (model, content, prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)
    )
    return answer(body, headers=headers)


SSE_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE_EVENT = (
    'data: {"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
DONE_EVENT = "data: [DONE]\n\n"


def content_event(text):
    return 'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n' % text


def chunk(data):
    data = data.encode() if isinstance(data, str) else data
    return {"send_bytes": b"%x\r\n%s\r\n" % (len(data), data)}


LAST_CHUNK = {"send": "0\r\n\r\n"}


def stream(events, gap_ms=0, end=True):
    """An SSE answer, one chunk per event."""
    steps = [{"send": SSE_HEAD}]
    for event in events:
        steps.append(chunk(event))
        if gap_ms:
            steps.append({"wait_ms": gap_ms})
    return steps + [LAST_CHUNK] if end else steps


class SeenRequest:
    def __init__(self, engine, head, body, framing):
        lines = head.decode("latin-1").split("\r\n")
        self.engine = engine
        self.head = head
        self.request_line = lines[0]
        self.method, self.target = lines[0].split(" ")[:2]
        self.headers = Headers()
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                self.headers.append((name, value.strip()))
        self.body = body
        self.framing = framing
        self.at = time.monotonic()
        self.connection = None           # index of the connection it came on
        self.peer_closed_at = None       # the router closed before the script had ended
        self.answered = threading.Event()

    def __repr__(self):
        return f"<{self.engine}: {self.request_line} {self.body[:200]!r}>"


class _Gone(Exception):
    pass


class Engine:
    def __init__(self, ip, port=8000, answers=None, metrics=DEFAULT_METRICS, models=("x",), name=None, tls=None,
                 on_request=None, health=200, listen=True, extra_metrics=""):
        self.name = name or ip
        self.address = (ip, port)
        self.answers = [list(a) for a in (answers or [chat()])]
        self.metrics = metrics
        self.models = list(models)
        self.health = health
        self.extra_metrics = extra_metrics
        self.hang_scrapes = False
        self.on_request = on_request     # called with (SeenRequest), may return a script
        self.requests = []
        self.scrapes = []                # (path, time)
        self.connections = 0
        self._tls = tls
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._open = set()
        self._listener = None
        self._stopped = False
        self._served = 0
        if listen:
            self.start()

    # life

    def start(self):
        listener = socket.socket(socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self.address)
        listener.listen(1024)
        self.address = listener.getsockname()
        self._listener = listener
        self._stopped = False
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def stop(self, reset=False):
        """Stops listening and ends every connection, as a killed process does."""
        self._stopped = True
        if self._listener is not None:
            try:
                self._listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._listener.close()
            self._listener = None
        with self._lock:
            open_sockets = list(self._open)
        for sock in open_sockets:
            try:
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # what was seen

    def wait_requests(self, count, timeout=10.0):
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout):
                raise AssertionError(f"{self.name}: {len(self.requests)} of {count} requests after {timeout} s")
            return list(self.requests)

    def wait_peer_closed(self, index=0, timeout=5.0):
        """When the router closed the connection of a request (monotonic clock); fails when it does not."""
        seen = self.wait_requests(index + 1)[index]
        deadline = time.monotonic() + timeout
        while seen.peer_closed_at is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: the router did not close the connection within {timeout} s")
            time.sleep(0.005)
        return seen.peer_closed_at

    def wait_scrapes(self, count, path="/metrics", timeout=10.0):
        deadline = time.monotonic() + timeout
        base = len([p for p, _ in self.scrapes if p == path])
        while len([p for p, _ in self.scrapes if p == path]) < base + count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: not scraped within {timeout} s")
            time.sleep(0.01)

    # serving

    def _accept(self, listener):
        while not self._stopped:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                index = self.connections
                self.connections += 1
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock, index), daemon=True).start()

    def _serve(self, sock, index):
        raw = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock.settimeout(10)
                sock = self._tls.wrap_socket(sock, server_side=True)
                sock.settimeout(None)
            buffer = bytearray()
            while not self._stopped:
                if not self._one_request(sock, buffer, index):
                    break
        except (_Gone, OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(raw)
            try:
                sock.close()
            except OSError:
                pass

    @staticmethod
    def _more(sock, buffer):
        data = sock.recv(262144)
        if not data:
            raise _Gone()
        buffer += data

    def _one_request(self, sock, buffer, index):
        while b"\r\n\r\n" not in buffer:
            self._more(sock, buffer)
        at = buffer.index(b"\r\n\r\n")
        head = bytes(buffer[:at])
        del buffer[: at + 4]
        headers = Headers()
        for line in head.decode("latin-1").split("\r\n")[1:]:
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        body, framing = b"", "none"
        if headers.get("Transfer-Encoding", "").lower() == "chunked":
            framing = "chunked"
            while True:
                while b"\r\n" not in buffer:
                    self._more(sock, buffer)
                line_end = buffer.index(b"\r\n")
                size = int(buffer[:line_end].split(b";")[0], 16)
                while len(buffer) < line_end + 2 + size + 2:
                    self._more(sock, buffer)
                body += buffer[line_end + 2 : line_end + 2 + size]
                del buffer[: line_end + 2 + size + 2]
                if size == 0:
                    break
        elif "Content-Length" in headers:
            framing = "content-length"
            length = int(headers.get("Content-Length"))
            while len(buffer) < length:
                self._more(sock, buffer)
            body = bytes(buffer[:length])
            del buffer[:length]
        seen = SeenRequest(self.name, head, bytes(body), framing)
        seen.connection = index
        if seen.method == "GET" and not body and seen.target in ("/metrics", "/v1/models", "/health"):
            return self._own(sock, seen)
        with self._changed:
            script = self.answers[min(self._served, len(self.answers) - 1)] if self.answers else []
            self._served += 1
            self.requests.append(seen)
            self._changed.notify_all()
        if self.on_request is not None:
            script = self.on_request(seen) or script
        try:
            return self._play(sock, script, seen, buffer)
        finally:
            seen.answered.set()

    def _own(self, sock, seen):
        self.scrapes.append((seen.target, time.monotonic()))
        if self.hang_scrapes:
            while not self._stopped and sock.recv(1024):
                pass
            return False
        status, kind = 200, "application/json"
        if seen.target == "/metrics":
            text, kind = self.metrics + self.extra_metrics, "text/plain; version=0.0.4"
        elif seen.target == "/health":
            text, status = "", self.health
        else:
            models = ",".join('{"id":"%s","object":"model"}' % m for m in self.models)
            text = '{"object":"list","data":[%s]}' % models
        data = text.encode()
        sock.sendall(b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" %
                     (status, kind.encode(), len(data)) + data)
        return True

    def _wait(self, sock, seen, seconds):
        """Waits, and ends early when the router closes."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._stopped:
            left = 0.2 if deadline is None else min(0.2, deadline - time.monotonic())
            if left <= 0:
                return
            if readable(sock, left):
                try:
                    gone = sock.recv(1, socket.MSG_PEEK) == b"" if not isinstance(sock, ssl.SSLSocket) \
                        else sock.recv(1) == b""
                except OSError:
                    gone = True
                if gone:
                    seen.peer_closed_at = time.monotonic()
                    raise _Gone()
                time.sleep(min(left, 0.01))

    def _play(self, sock, script, seen, buffer):
        for step in script:
            try:
                if "send" in step:
                    sock.sendall(step["send"].encode())
                elif "send_bytes" in step:
                    sock.sendall(step["send_bytes"])
                elif "send_b64" in step:
                    sock.sendall(base64.b64decode(step["send_b64"]))
                elif "send_repeat" in step:
                    unit = step["send_repeat"].encode()
                    per_write = max(1, 65536 // len(unit))
                    left = step["count"]
                    while left:
                        now = min(left, per_write)
                        sock.sendall(unit * now)
                        left -= now
                elif "wait_ms" in step:
                    self._wait(sock, seen, step["wait_ms"] / 1000)
                elif "wait_for" in step:  # a threading.Event of the test
                    while not step["wait_for"].is_set():
                        self._wait(sock, seen, 0.02)
                elif "call" in step:
                    step["call"](seen)
                elif "close" in step:
                    return False
                elif "reset" in step:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
                elif "hang" in step:
                    self._wait(sock, seen, None)
                else:
                    raise ValueError(f"unknown step {step}")
            except (BrokenPipeError, ConnectionResetError):
                seen.peer_closed_at = time.monotonic()
                raise _Gone() from None
        return True


class BlackHole:
    """Accepts no connection and refuses none: its queue is full, so the kernel drops what comes."""

    def __init__(self, ip, port=8000):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((ip, port))
        self.listener.listen(0)
        self.fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((ip, port))
            self.fillers.append(filler)
        time.sleep(0.05)

    def close(self):
        for each in [*self.fillers, self.listener]:
            each.close()
