"""Reads an endless answer straight from an application, which httpx cannot."""

import asyncio
import contextlib
import json


class Reader:
    """Reads an endless answer straight from the application; who is not patient stops after one chunk."""

    def __init__(self, app, path, query=b"", *, patient=True, headers=()):
        self._patient = patient
        self.chunks = asyncio.Queue()
        self.status = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()
        self._asked = False
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", b"localhost"), *headers],
            "client": ("127.0.0.1", 4),
            "server": None,
            "scheme": "http",
            "http_version": "1.1",
            "asgi": {"version": "3.0"},
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
        else:
            self.chunks.put_nowait(message["body"])
            if not self._patient:
                await self._gone.wait()

    async def event(self):
        async with asyncio.timeout(20):
            while True:
                chunk = await self.chunks.get()
                if chunk.startswith(b"event: cluster"):
                    return json.loads(chunk.partition(b"data: ")[2])

    async def close(self):
        self._gone.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
