"""One node asks another over the links of the cluster, in the words of the HTTP API.

So that any node answers for any other, a request travels by ``rpc`` with the caller's identity, runs there
through the same application as one from a socket, and its answer comes back.

An answer that comes in pieces, such as a trace, leaves a cursor after the first; who asked fetches the next
pieces with :class:`More`.

Rules: 1. A caller is checked where it comes in, and again where its request runs, by that node's own rules:
the role that travels is an upper bound, never a grant.  2. A whole answer is bounded
in size, and waiting for it in time.  3. Of an answer in pieces a few wait at most; a cursor that nobody asks
any more ends, and what was running for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from functools import cache
from urllib.parse import quote, unquote

import msgspec
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Scope

from gossamer.api.http.tokens import Principal, Role
from gossamer.distribution import register_message
from gossamer.errors import UnavailableError
from gossamer.supervisor import Runtime

REQUEST = "api.request"
"""The function that every node offers to the others."""
MAX_ANSWER = 8 * 1024 * 1024
STREAMED = "application/x-ndjson"
PIECES = 16
"""Pieces that wait for who asks."""
MOST = 256 * 1024
"""Bytes of pieces that travel at once, but for one that is longer: signals travel on the same link."""
READER_TIMEOUT = 30.0
"""Seconds after which a reader that does not come back is gone."""
POLL_TIMEOUT = 10.0
"""Seconds after which a reader gets an empty answer."""


class Ask(msgspec.Struct, frozen=True):
    """A request for another node; ``target`` is the path, ``%`` and ``?`` in it quoted, and the query."""

    method: str
    target: str
    body: bytes
    name: str
    role: str
    address: str
    token: str = ""


class More(msgspec.Struct, frozen=True):
    """A request for the next pieces of an answer; ``over``: no more are wanted."""

    cursor: str
    over: bool = False


class PeerAnswer(msgspec.Struct, frozen=True):
    """The answer of a route, or its next pieces; there are more while there is a ``cursor``."""

    status: int
    content_type: str
    body: bytes
    cursor: str = ""


for _type in (Ask, More, PeerAnswer):
    register_message(_type, f"api.{_type.__name__}")


class PeerSilentError(UnavailableError):
    """Another node gave no answer."""

    def __init__(self, *, node: str, reason: str) -> None:
        self.node = node
        self.reason = reason
        super().__init__(f"{node} did not answer: {reason}; see `gossamer nodes`")


class ReaderGoneError(UnavailableError):
    """The pieces of an answer are no longer fetched."""


def ask_of(principal: Principal, method: str, target: str, body: bytes = b"") -> Ask:
    """Return a request to another node on behalf of ``principal``."""
    who = principal
    return Ask(method, target, body, who.name, who.role.value, who.address, who.token)


class PeerRequests:
    """Runs requests of other nodes through the application that ``make`` gives."""

    def __init__(self, make: Callable[[], FastAPI], runtime: Runtime) -> None:
        self.application = cache(make)
        """Return the application, which is made when it is first asked for."""
        self._runtime = runtime
        self._running: dict[str, _Run] = {}

    async def answer(self, ask: Ask | More) -> PeerAnswer:
        """Run ``ask`` as its principal, or continue a running one."""
        if isinstance(ask, More):
            return await self._more(ask)
        cursor = secrets.token_hex(12)
        run = self._running[cursor] = _Run(self.application(), _scope(ask), ask.body)

        async def serve() -> None:
            try:
                await run.serve()
            finally:
                self._running.pop(cursor, None)

        pid = self._runtime.spawn(serve, label="api_request")
        try:
            answer = await run.first
        except asyncio.CancelledError:
            self._running.pop(cursor, None)
            self._runtime.exit(pid, "shutdown")
            raise
        return answer if run.fetched() else msgspec.structs.replace(answer, cursor=cursor)

    async def _more(self, more: More) -> PeerAnswer:
        run = self._running.get(more.cursor)
        if run is None or more.over:
            if run is not None:
                run.give_up()
            return PeerAnswer(200, STREAMED, b"")
        parts = await run.pieces()
        return PeerAnswer(200, STREAMED, b"".join(parts), "" if run.fetched() else more.cursor)


class _Run:
    """Request under way; :meth:`serve` is the body of its process."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._app = app
        self._scope = scope
        self._body: bytes | None = body
        self._status = 0
        self._content_type = ""
        self._whole: list[bytes] = []
        self._size = 0
        self.first: asyncio.Future[PeerAnswer] = asyncio.get_running_loop().create_future()
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(PIECES)
        self._streams = self._over = False
        self._gone = asyncio.Event()

    def fetched(self) -> bool:
        """True once the whole answer has been fetched."""
        return self._over and self._waiting.empty()

    async def serve(self) -> None:
        """Run the application; the caller is informed of any outcome."""
        try:
            await self._app(self._scope, self._receive, self._send)
        except ReaderGoneError:
            pass
        except Exception as error:
            if self.first.done():
                raise
            self.first.set_exception(error)
        finally:
            self._over = True
            if not self.first.done():
                self.first.set_result(PeerAnswer(self._status, self._content_type, b"".join(self._whole)))
            elif self._streams and self._waiting.empty():
                # The waiter for the next piece is informed that there is none.
                self._waiting.put_nowait(b"")
        if not self._waiting.empty():
            # Who asked may still come for the rest.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READER_TIMEOUT):
                    await self._gone.wait()

    def give_up(self) -> None:
        """Abort: the answer is no longer wanted."""
        self._gone.set()
        # What waits for room in the queue finds it, and what comes after finds nobody.
        while not self._waiting.empty():
            self._waiting.get_nowait()

    async def pieces(self) -> list[bytes]:
        """Return the pieces that arrived since, at least one unless none comes in time."""
        if self.fetched():
            return []
        try:
            async with asyncio.timeout(POLL_TIMEOUT):
                parts = [await self._waiting.get()]
        except TimeoutError:
            return []
        size = len(parts[0])
        while not self._waiting.empty() and size < MOST:
            parts.append(self._waiting.get_nowait())
            size += len(parts[-1])
        if self.fetched():
            self._gone.set()
        return parts

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        path = self._scope["path"]
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers: dict[bytes, bytes] = dict(message["headers"])
            self._content_type = headers.get(b"content-type", b"").decode("latin-1")
            if self._content_type.startswith("text/event-stream"):
                raise _too_long(path, "it has no end")
            return
        part: bytes = message.get("body", b"")
        if self.first.done():
            if part:
                try:
                    async with asyncio.timeout(READER_TIMEOUT):
                        await self._waiting.put(part)
                except TimeoutError:
                    raise ReaderGoneError(f"{path}: nobody reads the answer any more") from None
        elif message.get("more_body") and self._content_type.startswith(STREAMED):
            self._streams = True
            self.first.set_result(PeerAnswer(self._status, self._content_type, part))
        else:
            self._size += len(part)
            if self._size > MAX_ANSWER:
                raise _too_long(path, f"it is over {MAX_ANSWER} bytes")
            self._whole.append(part)


def _too_long(path: str, why: str) -> UnavailableError:
    return UnavailableError(f"{path}: the answer cannot be passed on: {why}; ask the node itself, in pages")


def _scope(ask: Ask) -> Scope:
    quoted, _, query = ask.target.partition("?")
    path = unquote(quoted)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": ask.method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(ask.body)).encode()),
        ],
        "client": None,
        "server": None,
        "gossamer.relayed": True,
        "gossamer.principal": Principal(ask.name, Role(ask.role), ask.address, ask.token),
    }
