"""A gate in front of the API server: open, slow, silent or closed. TLS goes through it untouched."""

import asyncio

from .control_plane import API_PORT
from .loop import LoopThread
from .network import NODE_IP


class Gate:
    """Listens on 127.0.0.1. `rate`: bytes a second in each direction of each connection, None for no limit."""

    def __init__(self):
        self.rate = None
        self._silent = False
        self._closed = False
        self._writers = set()
        self._silenced = []
        self._server = LoopThread(self._accept, "127.0.0.1")

    @property
    def url(self):
        return f"https://127.0.0.1:{self._server.port}"

    def open(self):
        self._silent = self._closed = False

    def silence(self):
        """Connections are accepted and stay; nothing passes on them, nor ever again on those that are here now."""
        self._silent = True
        self.silence_present()

    def silence_present(self):
        """Nothing passes any more on the connections that are here; new ones are well."""
        for flag in list(self._silenced):
            flag[0] = True

    def close(self):
        """Connections are cut, and new ones are cut at once."""
        self._closed = True
        self.cut()

    def cut(self):
        def cut_all():
            for writer in list(self._writers):
                writer.transport.abort()
        self._server.call(cut_all)

    def stop(self):
        self.close()
        self._server.stop()

    async def _accept(self, reader, writer):
        if self._closed:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(NODE_IP, API_PORT)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self._writers |= pair
        silenced = [self._silent]
        self._silenced.append(silenced)
        await asyncio.gather(self._copy(reader, up_writer, silenced), self._copy(up_reader, writer, silenced))
        self._silenced = [flag for flag in self._silenced if flag is not silenced]
        self._writers -= pair

    async def _copy(self, reader, writer, silenced):
        try:
            while data := await reader.read(4096 if self.rate else 65536):
                if silenced[0]:
                    continue
                writer.write(data)
                await writer.drain()
                if self.rate:
                    await asyncio.sleep(len(data) / self.rate)
        except OSError:
            pass
        finally:
            if not silenced[0]:
                writer.transport.abort()
