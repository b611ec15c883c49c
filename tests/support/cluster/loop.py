"""An asyncio server in a thread of its own."""

import asyncio
import threading


class LoopThread:
    """Serves `accept(reader, writer)` on an address until stop(), which closes everything."""

    def __init__(self, accept, host, port=0):
        self._accept, self._host, self._port = accept, host, port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self.port is None:
            raise OSError(f"cannot listen on {host}:{port}")

    def _run(self):
        self.port = None
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self):
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._accept, self._host, self._port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def call(self, function):
        """Runs it in the loop, soon."""
        self._loop.call_soon_threadsafe(function)

    def stop(self):
        self.call(self._end.set)
        self._thread.join(10)
