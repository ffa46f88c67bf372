"""A node's API on a real socket, also in a thread of its own, and callers who speak HTTP by hand."""

import asyncio
import contextlib
import functools
import json
import queue
import threading
from dataclasses import dataclass, field

import structlog

from api.fakes import FakeTable, FakeView
from gossamer.api import ApiServer, Limits, PeerRequests, Tokens, make_app
from gossamer.clock import SystemClock
from gossamer.config import ApiConfig
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime

HOST = b"Host: 127.0.0.1\r\n"


@dataclass
class Served:
    """The API of ``view`` as it listens at ``port``."""

    runtime: Runtime
    view: FakeView
    limits: Limits
    port: int
    callers: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def answers(self, name):
        """From now on this node of the cluster answers the one that is asked."""
        view = self.view if name == self.view.name else FakeView(name=name)
        view.known = [row.model_copy(update={"local": row.name == name}) for row in view.known]
        self.view.peers[name] = PeerRequests(lambda: make_app(view), self.runtime)
        return view

    async def connect(self):
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self.port))
        self.callers.append(caller)
        return caller

    async def close(self):
        """Close what callers left open."""
        for caller in self.callers:
            caller.close()
            await caller.closed()

    async def ask(self, request):
        """Send ``request`` on a connection of its own; the status and the body of the answer."""
        caller = await self.connect()
        caller.send(request)
        answer = await caller.answer()
        caller.close()
        return answer

    async def get(self, path):
        return await self.ask(b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), HOST))

    async def until(self, holds):
        """Wait until ``holds()``."""
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110 - what it looks at tells nobody
                await asyncio.sleep(0.01)


class Caller:
    """One connection."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    def send(self, data):
        self._writer.write(data)

    async def status(self):
        """The status of the answer, and its headers by name."""
        async with asyncio.timeout(30):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split()[1]), headers

    async def answer(self):
        """The status and the body, read as JSON."""
        status, headers = await self.status()
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        if status >= 400:
            assert headers["content-type"] == "application/problem+json"
            assert json.loads(body)["status"] == status
        return status, json.loads(body) if body else None

    async def end(self):
        """Wait until the other side has closed."""
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                while await self._reader.read(65_536):
                    pass

    def close(self):
        self._writer.transport.abort()

    async def closed(self):
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def served(view=None, **config):
    """Serve ``view``, or a faked node."""
    view = view or FakeView()
    runtime = Runtime(node=view.name, creation=1)
    settings = ApiConfig(port=0, **{"rate": 100_000, **config})
    limits, tokens = Limits(settings), Tokens(now=SystemClock().wall)
    tokens.attach(FakeTable())
    make = functools.partial(make_app, view, config=settings, limits=limits, tokens=tokens)
    pid = await runtime.start(ApiServer, make, config=settings, network=SystemNetwork())
    _, port = await runtime.call(pid, "address")
    try:
        yield (node := Served(runtime, view, limits, port))
    finally:
        await node.close()
        await runtime.stop()


@contextlib.contextmanager
def in_thread(serve):
    """What ``async with serve()`` gives, in a loop and thread of its own; and what has a call made there."""
    begun = queue.Queue()

    async def live():
        stop = asyncio.Event()
        async with serve() as found:
            begun.put((found, asyncio.get_running_loop(), stop))
            await stop.wait()

    # A node says on standard output what it does, which is a process of its own elsewhere.
    with structlog.testing.capture_logs():
        thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
        thread.start()
        found, loop, stop = begun.get(timeout=60)
        yield found, loop.call_soon_threadsafe
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
