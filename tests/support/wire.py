"""A raw HTTP/1.1 client: bytes out, bytes in, and what became of the connection."""

import base64
import json
import select
import socket
import ssl
import struct
import time

DEFAULT_TIMEOUT = 15.0


def readable(sock, seconds):
    """Whether there is something to read within that time. poll, since select refuses descriptors above 1023."""
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(max(seconds, 0) * 1000))


class Headers(list):
    """Pairs in wire order; look-up ignores case."""

    def get(self, name, default=None):
        for key, value in self:
            if key.lower() == name.lower():
                return value
        return default

    def all(self, name):
        return [value for key, value in self if key.lower() == name.lower()]

    def __contains__(self, name):
        return self.get(name) is not None


class Response:
    def __init__(self):
        self.status = None
        self.status_line = ""
        self.headers = Headers()
        self.framing = None
        self.body = b""
        self.ended = "closed_without_response"  # complete, truncated, reset, timeout, client_aborted
        self.interim = []
        self.chunks = []
        self.trailers = Headers()

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The OpenAI error object of the body."""
        return self.json()["error"]

    def __repr__(self):
        return f"<{self.status_line or 'no answer'} {self.ended} {dict(self.headers)} {self.body[:300]!r}>"


class Closed(Exception):
    """The peer ended the connection; `reset` when by RST."""

    def __init__(self, reset):
        super().__init__("reset" if reset else "closed")
        self.reset = reset


class WireTimeout(Exception):
    pass


class Conn:
    def __init__(self, address, tls=None, server_name="localhost", timeout=DEFAULT_TIMEOUT):
        self.timeout = timeout
        self.buffer = bytearray()
        self.sock = socket.create_connection(address, timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname=server_name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        if isinstance(data, str):
            data = data.encode()
        self.sock.sendall(data)

    def close(self):
        self.sock.close()

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def fill(self, deadline):
        """Reads once into the buffer."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            pass
        else:
            left = deadline - time.monotonic()
            if left <= 0 or not readable(self.sock, left):
                raise WireTimeout()
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            raise Closed(reset=True) from None
        except ssl.SSLWantReadError:
            return
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise Closed(reset=False) from None
        if not data:
            raise Closed(reset=False)
        self.buffer += data

    def read_until(self, mark, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            at = self.buffer.find(mark)
            if at >= 0:
                at += len(mark)
                data = bytes(self.buffer[:at])
                del self.buffer[:at]
                return data
            self.fill(deadline)

    def read_exactly(self, count, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        while len(self.buffer) < count:
            self.fill(deadline)
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read_head(self, timeout=None):
        """Status line and headers of one answer, interim ones included."""
        lines = self.read_until(b"\r\n\r\n", timeout).decode("latin-1").split("\r\n")
        headers = Headers()
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                headers.append((name, value.strip()))
        return lines[0], headers

    def read_response(self, method="POST", timeout=None, abort_after_bytes=None):
        """Never raises for what the peer does: see Response.ended."""
        response = Response()
        deadline = time.monotonic() + (timeout or self.timeout)

        def left():
            return max(deadline - time.monotonic(), 0.001)

        try:
            while True:
                line, headers = self.read_head(left())
                status = int(line.split(" ")[1])
                if status >= 200:
                    break
                response.interim.append(line)
            response.status_line, response.headers, response.status = line, headers, status
            response.ended = "truncated"
            coding = headers.get("Transfer-Encoding", "").lower()
            if method == "HEAD" or status in (204, 304):
                response.framing = "none"
            elif coding == "chunked":
                response.framing = "chunked"
                self._read_chunks(response, left, abort_after_bytes)
            elif "Content-Length" in headers:
                response.framing = "content-length"
                self._read_counted(response, int(headers.get("Content-Length")), left)
            else:
                response.framing = "close"
                self._read_to_end(response, left)
            if response.ended != "client_aborted":
                response.ended = "complete"
        except Closed as closed:
            if closed.reset and response.status is None and not response.interim:
                response.ended = "reset"
        except WireTimeout:
            response.ended = "timeout"
        return response

    def _read_counted(self, response, length, left):
        try:
            response.body = self.read_exactly(length, left())
        except (Closed, WireTimeout):
            response.body = bytes(self.buffer)
            self.buffer.clear()
            raise

    def _read_to_end(self, response, left):
        deadline = time.monotonic() + left()
        while True:
            try:
                self.fill(deadline)
            except Closed as closed:
                response.body = bytes(self.buffer)
                self.buffer.clear()
                if closed.reset:
                    raise
                return
            except WireTimeout:
                response.body = bytes(self.buffer)
                raise

    def _read_chunks(self, response, left, abort_after_bytes):
        body = bytearray()
        try:
            while True:
                size = int(self.read_until(b"\r\n", left()).split(b";")[0], 16)
                if size == 0:
                    while (line := self.read_until(b"\r\n", left())) != b"\r\n":
                        name, _, value = line.decode("latin-1").partition(":")
                        response.trailers.append((name, value.strip()))
                    return
                response.chunks.append(size)
                body += self.read_exactly(size, left())
                if self.read_exactly(2, left()) != b"\r\n":
                    raise AssertionError("chunk without its line end")
                if abort_after_bytes is not None and len(body) >= abort_after_bytes:
                    self.reset()
                    response.ended = "client_aborted"
                    return
        finally:
            response.body = bytes(body)

    def read_event(self, timeout=None):
        """One SSE event of a chunked answer whose head was read: bytes up to and with the blank line."""
        deadline = time.monotonic() + (timeout or self.timeout)
        event = getattr(self, "_events", bytearray())
        self._events = event
        while b"\n\n" not in event:
            size = int(self.read_until(b"\r\n", max(deadline - time.monotonic(), 0.001)).split(b";")[0], 16)
            data = self.read_exactly(size + 2, max(deadline - time.monotonic(), 0.001))
            if size == 0:
                return b""
            event += data[:-2]
        at = event.index(b"\n\n") + 2
        out = bytes(event[:at])
        del event[:at]
        return out

    def wait_end(self, timeout=5.0):
        """"closed", "reset", or "open" when nothing came within the time; data that still arrives is kept."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.fill(deadline)
            except Closed as closed:
                return "reset" if closed.reset else "closed"
            except WireTimeout:
                return "open"


def request_bytes(method, path, body=b"", headers=(), host="router.test", version="HTTP/1.1", length=True):
    if isinstance(body, str):
        body = body.encode()
    elif isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} {version}"]
    names = {name.lower() for name, _ in headers}
    if "host" not in names and host is not None:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers]
    if length and body and "content-length" not in names and "transfer-encoding" not in names:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def exchange(address, data, method="POST", timeout=DEFAULT_TIMEOUT, tls=None, server_name="localhost"):
    """One request on a connection of its own."""
    with Conn(address, tls, server_name, timeout) as conn:
        try:
            conn.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused early; the answer may still be there
        return conn.read_response(method, timeout)


def chunked(*pieces):
    out = b""
    for piece in pieces:
        piece = piece.encode() if isinstance(piece, str) else piece
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def b64(text):
    return base64.b64decode(text)
