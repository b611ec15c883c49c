"""Clients that behave as their plans say, and judge every answer by what the engines say they sent."""

import asyncio
import json
import socket
import struct
import time


class Gone(Exception):
    """The router ended the connection; `reset` when by RST."""

    def __init__(self, reset):
        super().__init__("reset" if reset else "closed")
        self.reset = reset


class Link(asyncio.Protocol):
    """One client connection."""

    def __init__(self):
        self.buffer = bytearray()
        self.transport = None
        self.over = None      # a Gone, once the other side ended it
        self.waiter = None
        self.late = False

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def wake(self):
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def data_received(self, data):
        self.buffer += data
        self.wake()

    def eof_received(self):
        self.over = self.over or Gone(False)
        self.wake()
        return True  # our side stays open: the client decides

    def connection_lost(self, exc):
        self.over = self.over or Gone(exc is not None)
        self.wake()

    async def fill(self):
        if self.over is not None:
            raise self.over
        self.waiter = asyncio.get_running_loop().create_future()
        await self.waiter
        self.waiter = None

    async def until(self, mark):
        while True:
            at = self.buffer.find(mark)
            if at >= 0:
                data = bytes(self.buffer[:at + len(mark)])
                del self.buffer[:at + len(mark)]
                return data
            await self.fill()

    async def exactly(self, count):
        while len(self.buffer) < count:
            await self.fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def write(self, data):
        self.transport.write(data)

    def abort(self):
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.transport.is_closing():
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
        self.transport.abort()


class Answer:
    def __init__(self):
        self.status = None
        self.headers = {}
        self.body = bytearray()
        self.ended = "nothing"   # complete, cut, nothing, late


async def read_body(link, answer, left, pace):
    while left > 0:
        if not link.buffer:
            await link.fill()
            continue
        take = min(left, len(link.buffer))
        answer.body += link.buffer[:take]
        del link.buffer[:take]
        left -= take
        if pace is not None:
            await pace(answer)


async def read_answer(link, answer, pace=None):
    """Reads one answer; what was read stands in `answer` whatever happens."""
    try:
        while True:
            head = (await link.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split(" ")[1])
            if status >= 200:
                break
        answer.status, answer.ended = status, "cut"
        for line in head[1:]:
            name, _, value = line.partition(":")
            answer.headers[name.lower()] = value.strip()
        if answer.headers.get("transfer-encoding") == "chunked":
            while True:
                size = int(await link.until(b"\r\n"), 16)
                await read_body(link, answer, size, pace)
                if await link.exactly(2) != b"\r\n":
                    raise AssertionError("a chunk does not end with a line end")
                if size == 0:
                    break
        elif "content-length" in answer.headers:
            await read_body(link, answer, int(answer.headers["content-length"]), pace)
        else:
            while True:  # ends with the connection
                answer.body += link.buffer
                link.buffer.clear()
                await link.fill()
        answer.ended = "complete"
    except Gone as gone:
        ends_with_connection = answer.status is not None and "content-length" not in answer.headers and \
            "transfer-encoding" not in answer.headers
        if ends_with_connection and not gone.reset:
            answer.ended = "complete"
    if link.late:
        answer.ended = "late"
    return answer


class Left(Exception):
    """The client's plan ended the request."""


class Client:
    """Works through plans one after the other, over kept connections where both sides like it."""

    def __init__(self, world):
        self.world = world
        self.link = None

    async def connect(self):
        if self.link is not None and self.link.over is None and not self.link.buffer:
            return self.link
        self.drop()
        loop = asyncio.get_running_loop()
        _, self.link = await loop.create_connection(Link, *self.world.router.address)
        return self.link

    def drop(self, reset=False):
        if self.link is not None:
            if reset:
                self.link.abort()
            else:
                self.link.transport.close()
            self.link = None

    async def run(self, plan):
        plan.note(time.monotonic(), f"client begins: {plan.client}")
        limit = asyncio.get_running_loop().call_later(self.world.patience, self.too_late, plan)
        try:
            await self.play(plan)
        except Left:
            plan.client_gone = True
            plan.note(time.monotonic(), "client leaves")
            self.drop(plan.leave_reset)
        except (ConnectionError, OSError) as error:
            plan.note(time.monotonic(), f"client: {error!r}")
            self.drop()
        finally:
            limit.cancel()

    def too_late(self, plan):
        self.world.violation(plan, f"no end within {self.world.patience} s")
        if self.link is not None:
            self.link.late = True
            self.link.abort()

    async def play(self, plan):
        link = await self.connect()
        kind = plan.client
        head, body = plan.head(), plan.framed_body()
        if kind == "garbage":
            return await self.garbage(plan, link)
        if kind == "pipeline":
            return await self.pipeline(plan, link)
        if kind == "leave-in-head":
            link.write(head[:max(1, int(len(head) * plan.leave_at))])
            await asyncio.sleep(plan.patience)
            raise Left
        if kind == "leave-in-body":
            link.write(head + body[:int((len(body) - 1) * plan.leave_at)])
            await asyncio.sleep(plan.patience)
            raise Left
        if kind == "slow-send":
            data = head + body
            step = max(1, len(data) // 6)
            for at in range(0, len(data), step):
                link.write(data[at:at + step])
                await asyncio.sleep(0.002)
        else:
            link.write(head + body)
        if kind == "half-close":
            plan.client_gone = True  # counts as leaving (decision 3.16)
            link.transport.write_eof()
        if kind == "leave-waiting":
            await asyncio.sleep(plan.patience)
            raise Left
        answer = Answer()
        await read_answer(link, answer, self.pace(plan))
        self.judge(plan, answer)
        if kind == "half-close" or answer.ended != "complete" or not plan.keep or \
                answer.headers.get("connection") == "close":
            self.drop()

    def pace(self, plan):
        if plan.client == "slow-read":
            async def slow(_):
                self.link.transport.pause_reading()
                await asyncio.sleep(0.003)
                if not self.link.transport.is_closing():
                    self.link.transport.resume_reading()
            return slow
        if plan.client == "leave-in-answer":
            leave_after = int(plan.leave_at * plan.pieces * plan.piece_bytes)
            async def leave(answer):
                if len(answer.body) > leave_after:
                    self.judge_part(plan, answer)
                    raise Left
            return leave
        return None

    async def garbage(self, plan, link):
        plan.client_gone = True
        link.write(plan.garbage + b"\r\n\r\n")
        answer = await read_answer(link, Answer())
        if answer.status is not None and not 400 <= answer.status < 506:
            self.world.violation(plan, f"garbage was answered with {answer.status}")
        self.drop()

    async def pipeline(self, plan, link):
        """Several requests in one go; answers come in order."""
        follow = [self.world.extra_plan() for _ in range(plan.follow)]
        every = [plan, *follow]
        for each in follow:
            each.note(time.monotonic(), f"pipelined behind {plan.id}")
        link.write(b"".join(each.head() + each.framed_body() for each in every))
        for number, each in enumerate(every):
            answer = Answer()
            await read_answer(link, answer)
            self.judge(each, answer)
            if answer.ended != "complete" or answer.headers.get("connection") == "close":
                for rest in every[number + 1:]:
                    rest.client_gone = True
                    rest.note(time.monotonic(), "not served: the connection ended before")
                self.drop()
                break
        for each in follow:
            self.world.settle(each)

    # judging

    def judge_part(self, plan, answer):
        """What came so far is the beginning of what an engine sent."""
        attempt = self.attempt_of(plan, answer)
        if attempt is not None and not self.is_beginning(plan, attempt, bytes(answer.body), partly=True):
            self.world.violation(plan, f"the bytes are not those of try {attempt.number}: {bytes(answer.body)[-200:]!r}")
        if attempt is not None:
            self.served_once(plan, answer, attempt)

    @staticmethod
    def is_beginning(plan, attempt, body, partly=False):
        """Also behind a whole event: the error event of a cut stream, and nothing else; partly: the client stopped
        reading somewhere."""
        if attempt.payload.startswith(body):
            return True
        mark = body.rfind(b'data: {"error"')
        event = body[mark:]
        return (plan.stream and mark >= 0 and attempt.payload.startswith(body[:mark]) and
                (attempt.killed or not attempt.whole) and
                (mark == 0 or body[:mark].endswith(b"\n\n")) and
                (partly or (event.endswith(b"\n\n") and event.count(b"\n") == 2)))

    def attempt_of(self, plan, answer):
        tag = answer.headers.get("x-chaos")
        if answer.status is not None and answer.headers.get("x-request-id") != plan.id:
            self.world.violation(plan, f"the answer carries x-request-id {answer.headers.get('x-request-id')}")
        if tag is None:
            return None
        if not tag.isdigit() or int(tag) >= len(plan.attempts):
            self.world.violation(plan, f"an answer of no try: x-chaos {tag}")
            return None
        return plan.attempts[int(tag)]

    def served_once(self, plan, answer, attempt):
        if answer.status < 300 and plan.attempts[-1] is not attempt:
            self.world.violation(plan, f"tried again after try {attempt.number} had begun to answer")

    def judge(self, plan, answer):
        plan.note(time.monotonic(), f"client got {answer.status}, {len(answer.body)} bytes, {answer.ended}")
        world, body = self.world, bytes(answer.body)
        if answer.ended == "late":
            return
        if answer.status is None:
            if not plan.client_gone:
                world.violation(plan, "the connection ended without an answer")
            return
        attempt = self.attempt_of(plan, answer)
        world.count(answer, attempt)
        if attempt is None:
            if answer.ended != "complete":
                world.violation(plan, "an answer of the router itself is cut")
            elif answer.status not in (503, 504):
                world.violation(plan, f"a good request was answered with {answer.status}: {body[:300]!r}")
            elif not json.loads(body)["error"]["message"]:
                world.violation(plan, "an error without a message")
            elif any(a.whole and a.status == 200 and not a.killed and not a.router_left for a in plan.attempts):
                world.violation(plan, f"a whole answer was lost: {body[:300]!r}")
            return
        if answer.status != attempt.status:
            world.violation(plan, f"status {answer.status} instead of {attempt.status}")
        self.served_once(plan, answer, attempt)
        if answer.ended == "complete":
            if not attempt.whole:
                world.violation(plan, f"a clean end for try {attempt.number}, which was cut ({attempt.fault})")
            elif body != attempt.payload:
                world.violation(plan, f"{len(body)} bytes instead of {len(attempt.payload)}: ...{body[-300:]!r}")
            return
        if not self.is_beginning(plan, attempt, body):
            world.violation(plan, f"not the beginning of try {attempt.number}: ...{body[-300:]!r}")
        if attempt.whole and not attempt.killed and not plan.client_gone:
            world.violation(plan, f"try {attempt.number} was whole, the client got {len(body)} of "
                                  f"{len(attempt.payload)} bytes")
