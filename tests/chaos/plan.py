"""What one request does: drawn from the seed and its number alone, so that it is the same in every run."""

import json
import random

ENGINE_FAULTS = [
    # weight, name
    (6, "status-400"), (3, "status-404"), (3, "status-422"), (6, "status-429"), (8, "status-500"), (8, "status-503"),
    (6, "reset-before-head"), (6, "close-before-head"), (5, "half-head"), (4, "garbage-head"),
    (6, "reset-after-head"), (6, "close-after-head"), (8, "reset-in-body"), (8, "close-in-body"),
    (4, "length-too-long"), (4, "extra-bytes"), (4, "bad-chunk"),
    (2, "stall-before-head"), (2, "stall-in-body"), (5, "slow"), (4, "drip"),
]
CLIENTS = [
    (600, "normal"), (40, "slow-read"), (60, "pipeline"), (30, "half-close"), (25, "garbage"), (30, "big-body"),
    (30, "slow-send"), (25, "leave-in-head"), (25, "leave-in-body"), (60, "leave-waiting"), (70, "leave-in-answer"),
]
FRAMINGS = ["length", "chunked", "close"]
SPACE = "abcdefghij klmnopqrst "


def draw(rng, table):
    at = rng.random() * sum(weight for weight, _ in table)
    for weight, name in table:
        at -= weight
        if at < 0:
            return name
    return table[-1][1]


class Plan:
    """`faults[k]` is what the engine does to the k-th try; the last one is for all that follow."""

    def __init__(self, seed, number):
        rng = random.Random(f"{seed}/{number}")
        self.seed, self.number = seed, number
        self.id = f"chaos-{seed}-{number}"
        self.client = draw(rng, CLIENTS)
        self.stream = rng.random() < 0.4
        self.ask_usage = self.stream and rng.random() < 0.3
        self.framing = rng.choice(FRAMINGS[:2] if self.stream else FRAMINGS)
        self.interim = rng.random() < 0.03
        faulty = rng.random() < 0.3
        self.faults = [draw(rng, ENGINE_FAULTS) for _ in range(rng.choice([1, 1, 1, 2, 3, 5]))] if faulty else []
        if len(self.faults) < 5:
            self.faults.append("ok")
        self.pieces = rng.randint(1, 12)
        self.piece_bytes = rng.choice([10, 60, 60, 300, 3000, 30000 if self.client != "pipeline" else 60])
        self.cut_at = rng.random()       # where in the answer a fault strikes
        self.leave_at = rng.random()     # where a client leaves
        self.leave_reset = rng.random() < 0.5
        self.patience = rng.random() * 0.05
        self.keep = rng.random() < 0.7   # the connection is used again
        self.chunked = rng.random() < 0.15
        self.gap = rng.choice([0, 0, 0, 0.002, 0.01])
        words = rng.choice([5, 50, 400]) if self.client != "big-body" else rng.choice([20000, 60000])
        shared = rng.randint(0, 30)      # prefixes repeat, so that prefix-cache has something to do
        prompt = f"conversation {shared} " * 20 + SPACE * (words // 3) + str(rng.random())
        body = {"model": rng.choice(["m-a", "m-a", "m-b"]), "messages": [{"role": "user", "content": prompt}]}
        if self.stream:
            body["stream"] = True
        if self.ask_usage:
            body["stream_options"] = {"include_usage": True}
        self.body = json.dumps(body).encode()
        self.garbage = rng.randbytes(rng.randint(1, 300)) if self.client == "garbage" else b""
        self.follow = rng.randint(1, 3) if self.client == "pipeline" else 0
        self.attempts = []               # filled by the engines
        self.events = []                 # (time, text): the history
        self.client_gone = False         # it left, or cannot be expected to get everything

    def fault(self, attempt):
        return self.faults[min(attempt, len(self.faults) - 1)]

    def note(self, now, text):
        self.events.append((now, text))

    def head(self):
        lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: chaos", b"Content-Type: application/json",
                 b"x-request-id: " + self.id.encode()]
        lines.append(b"Transfer-Encoding: chunked" if self.chunked else b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def framed_body(self):
        if not self.chunked:
            return self.body
        step = max(1, len(self.body) // 3)
        out = b""
        for at in range(0, len(self.body), step):
            piece = self.body[at:at + step]
            out += b"%x\r\n%s\r\n" % (len(piece), piece)
        return out + b"0\r\n\r\n"

    def history(self):
        began = self.events[0][0] if self.events else 0
        lines = [f"request {self.id}: client {self.client}, stream {self.stream}, framing {self.framing}, "
                 f"faults {self.faults}, {self.pieces} x {self.piece_bytes} bytes, body {len(self.body)} bytes"
                 f"{' chunked' if self.chunked else ''}, gap {self.gap}, cut_at {self.cut_at:.3f}, "
                 f"leave_at {self.leave_at:.3f}"]
        lines += [f"  {(now - began) * 1000:9.1f} ms  {text}" for now, text in self.events]
        return "\n".join(lines)
