"""Streams and short requests against one address, and what became of each."""

import asyncio
import json
import threading
import time


def _request(model, stream, tokens, prompt):
    body = json.dumps({"model": model, "stream": stream, "max_tokens": tokens,
                       "messages": [{"role": "user", "content": prompt}]}).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


class Load:
    """Runs in a thread of its own until finish(), which waits for the streams that are open.

    `streams` are opened at once and begun anew `again` times when complete; short requests come on new connections,
    `rate` a second. `failures` says in words what was lost or cut.
    """

    def __init__(self, address, model, streams=0, tokens=200, rate=0.0, again=0, prompt="load"):
        self.address, self.model, self.tokens, self.rate, self.again = address, model, tokens, rate, again
        self.prompt = prompt
        self.streams_open = self.streams_done = self.short_done = 0
        self.failures = []
        self._streams = streams
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def wait_streams_open(self, count, timeout=30.0):
        deadline = time.monotonic() + timeout
        while self.streams_open < count:
            assert time.monotonic() < deadline and not self.failures, f"{self.streams_open} of {count} streams: {self.failures[:3]}"
            time.sleep(0.02)

    def finish(self, timeout=120.0):
        self._stop.set()
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"streams have not ended: {self.streams_done} of {self._streams}"
        return self

    async def _run(self):
        tasks = [asyncio.create_task(self._guard(self._stream(number))) for number in range(self._streams)]
        started, sent = time.monotonic(), 0
        while not self._stop.is_set():
            if self.rate and sent < (time.monotonic() - started) * self.rate:
                sent += 1
                tasks.append(asyncio.create_task(self._guard(self._short(sent))))
            else:
                await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)

    async def _guard(self, work):
        try:
            await asyncio.wait_for(work, 100)
        except (OSError, ValueError, asyncio.TimeoutError, EOFError) as error:
            self.failures.append(f"{time.strftime('%H:%M:%S')} {work.__name__}: {type(error).__name__} {error}")

    async def _open(self, stream, tokens, number):
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(_request(self.model, stream, tokens, f"{self.prompt} {number}"))
        status = await reader.readline()
        if b" 200 " not in status:
            raise ValueError(f"answer {status!r} {(await reader.read(600))!r}")
        return reader, writer

    async def _stream(self, number):
        for _ in range(self.again + 1):
            reader, writer = await self._open(True, self.tokens, number)
            self.streams_open += 1
            text = b""
            while data := await reader.read(65536):
                text = (text + data)[-200:]
            if b"data: [DONE]" not in text or not text.endswith(b"0\r\n\r\n"):
                raise ValueError(f"the stream was cut after {text[-80:]!r}")
            self.streams_done += 1
            writer.close()
            if self._stop.is_set():
                return

    async def _short(self, number):
        reader, writer = await self._open(False, 2, number)
        text = await reader.read()
        if not text.endswith(b"}"):
            raise ValueError(f"the answer was cut after {text[-80:]!r}")
        self.short_done += 1
        writer.close()
