"""Engines in the driver's own process: they do what a request's plan says and remember exactly what they sent."""

import asyncio
import json
import socket
import struct
import time

METRICS = (
    "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.1\n"
    "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0\n"
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {running}\n"
)
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 422: "Unprocessable", 429: "Too Many Requests",
           500: "Internal Server Error", 503: "Service Unavailable"}


class Attempt:
    """One try of one request. `payload` is the whole answer's body; `whole`: it was sent with its proper end."""

    def __init__(self, engine, number, fault):
        self.engine, self.number, self.fault = engine, number, fault
        self.status = None
        self.payload = b""       # as the client is to see it
        self.whole = False
        self.killed = False      # the engine went down meanwhile
        self.router_left = False
        self.done = False


def _sse(data):
    return b"data: " + data + b"\n\n"


class Connection(asyncio.Protocol):
    def __init__(self, engine):
        self.engine = engine
        self.transport = None
        self.buffer = bytearray()
        self.task = None
        self.attempt = None
        self.last = None     # the attempt before, whose bytes may not have left yet
        self.plan = None
        self.need = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.engine.connections.add(self)

    def connection_lost(self, exc):
        self.engine.connections.discard(self)
        self.writable.set()
        if self.attempt is not None and not self.attempt.done:
            self.attempt.router_left = True
            self.plan.note(time.monotonic(), f"{self.engine.name}: the router left try {self.attempt.number}")
            self.finish()
        if self.task is not None:
            self.task.cancel()

    def eof_received(self):
        return False  # the router never half-closes: it left

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def data_received(self, data):
        self.buffer += data
        if self.attempt is None:
            self.next_request()

    def next_request(self):
        if self.need is None:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
            del self.buffer[:end + 4]
            headers = {}
            for line in head[1:]:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            self.need = (head[0], headers, int(headers.get("content-length", "0")))
        line, headers, length = self.need
        if len(self.buffer) < length:
            return
        body = bytes(self.buffer[:length])
        del self.buffer[:length]
        self.need = None
        if line.startswith("GET "):
            self.own(line.split(" ")[1])
        else:
            self.serve(headers, body)

    def own(self, path):
        text = METRICS.format(running=self.engine.in_flight) if path == "/metrics" else \
            '{"object":"list","data":[{"id":"m","object":"model"}]}'
        kind = "text/plain; version=0.0.4" if path == "/metrics" else "application/json"
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" %
                             (kind.encode(), len(text), text.encode()))

    def serve(self, headers, body):
        world = self.engine.world
        plan = world.plans.get(headers.get("x-request-id", ""))
        if plan is None:
            world.violation(None, f"{self.engine.name} got a request that no client sent: {headers} {body[:200]!r}")
            self.transport.abort()
            return
        attempt = Attempt(self.engine.name, len(plan.attempts), plan.fault(len(plan.attempts)))
        plan.note(time.monotonic(), f"{self.engine.name}: try {attempt.number} arrives, {attempt.fault}")
        if plan.attempts and any(not a.done for a in plan.attempts):
            running = [a.number for a in plan.attempts if not a.done and not a.killed]
            # The router has given it up already, its FIN is on the way; two at once would be a violation if both went on.
            plan.note(time.monotonic(), f"tries {running} not over yet")
        plan.attempts.append(attempt)
        asked = self.check_body(plan, body)
        self.attempt, self.plan = attempt, plan
        self.engine.in_flight += 1
        self.task = asyncio.ensure_future(self.answer(plan, attempt, asked))

    def check_body(self, plan, body):
        """The body is the client's, byte for byte but for the usage member. True: the usage event is wanted."""
        if body == plan.body:
            return plan.ask_usage
        got, sent = json.loads(body), json.loads(plan.body)
        if plan.stream and got.pop("stream_options", None) == {"include_usage": True}:
            sent.pop("stream_options", None)
            if got == sent:
                return True
        self.engine.world.violation(plan, f"{self.engine.name} got another body than was sent: {body[:300]!r}")
        return False

    def finish(self):
        attempt = self.attempt
        if attempt is None or attempt.done:
            return
        attempt.done = True
        self.attempt, self.last = None, attempt
        self.engine.in_flight -= 1
        self.plan.note(time.monotonic(), f"{self.engine.name}: try {attempt.number} over, "
                                         f"{'whole' if attempt.whole else 'not whole'}")

    def end(self, whole, reset=False, close=False):
        self.attempt.whole = whole
        self.finish()
        self.task = None
        if reset:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif close:
            self.transport.close()
        elif self.buffer:
            self.next_request()

    async def send(self, data):
        self.transport.write(data)
        if not self.writable.is_set():
            await self.writable.wait()

    def pieces(self, plan, attempt, asked):
        """The answer's parts for the wire; attempt.payload is what the client may see of them."""
        tag = f"{plan.id}/{attempt.number}/{self.engine.name}"
        filler = "x" * (plan.piece_bytes if attempt.fault != "extra-bytes" else 60)
        if plan.stream:
            seen = [_sse(json.dumps({"id": tag, "choices": [{"index": 0, "delta": {"content": f"{n} {filler}"}}]}).encode())
                    for n in range(plan.pieces)]
            usage = _sse(b'{"id":"u","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}')
            sent = [*seen, *([usage] if asked else []), _sse(b"[DONE]")]
            attempt.payload = b"".join([*seen, *([usage] if plan.ask_usage else []), _sse(b"[DONE]")])
            return sent
        text = json.dumps({"id": tag, "choices": [{"message": {"content": filler * plan.pieces}}],
                           "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}).encode()
        attempt.payload = text
        step = max(1, len(text) // plan.pieces)
        return [text[at:at + step] for at in range(0, len(text), step)]

    async def answer(self, plan, attempt, asked):
        fault = attempt.fault
        world = self.engine.world
        if plan.interim:
            self.transport.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        if fault == "reset-before-head":
            return self.end(False, reset=True)
        if fault == "close-before-head":
            return self.end(False, close=True)
        if fault == "stall-before-head":
            await asyncio.sleep(60)
        if fault == "half-head":
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
            return self.end(False, close=True)
        if fault == "garbage-head":
            self.transport.write(b"\x00\x01 this is no HTTP\r\n\r\n")
            return self.end(False, close=True)
        pieces = self.pieces(plan, attempt, asked)
        if fault.startswith("status-"):
            attempt.status = int(fault[7:])
            attempt.payload = json.dumps({"error": {"message": f"{plan.id}/{attempt.number}", "code": fault}}).encode()
            pieces = [attempt.payload]
        else:
            attempt.status = 200
        stream = plan.stream and attempt.status == 200
        framing = plan.framing if attempt.status == 200 else "length"
        if fault in ("length-too-long", "extra-bytes"):
            framing = "length"
        if fault == "bad-chunk":
            framing = "chunked"
        total = sum(map(len, pieces))
        head = f"HTTP/1.1 {attempt.status} {REASONS[attempt.status]}\r\n" \
               f"Content-Type: {'text/event-stream' if stream else 'application/json'}\r\n" \
               f"x-chaos: {attempt.number}\r\n"
        if framing == "length":
            head += f"Content-Length: {total + (10 if fault == 'length-too-long' else 0)}\r\n"
        elif framing == "chunked":
            head += "Transfer-Encoding: chunked\r\n"
        else:
            head += "Connection: close\r\n"
        if attempt.status == 429:
            head += "Retry-After: 1\r\n"
        out = (head + "\r\n").encode()
        if fault == "reset-after-head" or fault == "close-after-head":
            empty = framing == "close" and fault == "close-after-head"  # a proper answer without a body
            if empty:
                attempt.payload = b""
                attempt.whole = True
            await self.send(out)
            await asyncio.sleep(0.002)
            return self.end(empty, reset=fault.startswith("reset"), close=True)
        broken = fault in ("reset-in-body", "close-in-body", "bad-chunk", "stall-in-body")
        strike = min(int(plan.cut_at * len(pieces)), len(pieces) - 1) if broken else None
        for number, piece in enumerate(pieces):
            if number == strike:
                part = piece[:len(piece) // 2]
                if fault == "bad-chunk":
                    out += b"zz\r\n"
                elif part and framing == "chunked":
                    out += b"%x\r\n%s" % (len(piece), part)  # cut inside the chunk
                else:
                    out += part
                # Cut without a reset, an answer that ends with the connection looks like a shorter one to anyone.
                if framing == "close" and fault == "close-in-body":
                    attempt.payload = b"".join(pieces[:number]) + part
                    attempt.whole = True
                await self.send(out)
                if fault == "stall-in-body":
                    await asyncio.sleep(60)
                if plan.gap:
                    await asyncio.sleep(plan.gap)
                return self.end(attempt.whole, reset=fault == "reset-in-body", close=True)
            if framing == "chunked":
                out += b"%x\r\n%s\r\n" % (len(piece), piece)
            else:
                out += piece
            # Said before the last byte leaves: the router may have served the client before this task goes on.
            if framing == "length" and number + 1 == len(pieces) and fault != "length-too-long":
                attempt.whole = True
            # In one write with the end of the answer: bytes that come later cannot be told from the next answer.
            if fault == "extra-bytes" and number + 1 == len(pieces):
                out += b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx-chaos: stolen\r\n\r\nbad"
            if plan.gap or fault in ("slow", "drip"):
                if fault == "drip" and len(out) < 2000:
                    for at in range(0, len(out), 64):
                        await self.send(out[at:at + 64])
                        await asyncio.sleep(0)
                else:
                    await self.send(out)
                out = b""
                await asyncio.sleep(0.05 * world.slow if fault == "slow" else plan.gap)
        if framing == "chunked":
            out += b"0\r\n\r\n"
        if fault == "length-too-long":
            await self.send(out)
            return self.end(False, close=True)
        attempt.whole = True
        await self.send(out)
        return self.end(True, close=framing == "close" or fault == "extra-bytes")


class Engine:
    def __init__(self, world, name, ip, port=8000):
        self.world, self.name, self.address = world, name, (ip, port)
        self.connections = set()
        self.in_flight = 0
        self.server = None
        self.fillers = []
        self.listener = None

    def _bind(self, backlog):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setblocking(False)
        self.listener.bind(self.address)
        self.listener.listen(backlog)

    async def start(self):
        await self.close_listener()
        self._bind(1024)
        self.server = await asyncio.get_running_loop().create_server(lambda: Connection(self), sock=self.listener)

    async def close_listener(self):
        for filler in self.fillers:
            filler.close()
        self.fillers = []
        if self.server is not None:
            self.server.close()
            self.server = None
        elif self.listener is not None:
            self.listener.close()
        self.listener = None

    async def kill(self):
        """As a process that is killed: no listener, every connection reset."""
        await self.close_listener()
        for connection in list(self.connections):
            if connection.last is not None:
                connection.last.killed = True
            if connection.attempt is not None:
                connection.attempt.killed = True
            if connection.plan is not None:
                connection.plan.note(time.monotonic(), f"{self.name} is killed")
            connection.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.transport.abort()

    async def black_hole(self):
        """Connection attempts get no answer at all: the queue of the listener is full."""
        await self.close_listener()
        self._bind(0)
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self.address)
            self.fillers.append(filler)
