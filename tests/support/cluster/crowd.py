"""One engine at every address of the pods that are only objects, and what arrived where and when."""

import asyncio
import time

from ..engine import DEFAULT_METRICS
from .loop import LoopThread
from .network import OBJECT_POD_PREFIX

_CHAT = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[]}'


class Crowd:
    PORT = 8100  # of all addresses: not the one that single engines use

    def __init__(self):
        self.requests = []  # (address, monotonic time)
        self._server = LoopThread(self._serve, "0.0.0.0", self.PORT)

    @staticmethod
    def address(number):
        return f"{OBJECT_POD_PREFIX}.{number // 250}.{1 + number % 250}"

    def stop(self):
        self._server.stop()

    async def _serve(self, reader, writer):
        address = writer.get_extra_info("sockname")[0]
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                               if line.startswith(b"content-length:")), 0)
                if head.startswith(b"POST"):
                    self.requests.append((address, time.monotonic()))
                await reader.readexactly(length)
                if head.startswith(b"GET /metrics"):
                    kind, body = b"text/plain; version=0.0.4", DEFAULT_METRICS.encode()
                elif head.startswith(b"GET"):
                    kind, body = b"application/json", b'{"object":"list","data":[]}'
                else:
                    kind, body = b"application/json", _CHAT
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)) + body)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()
