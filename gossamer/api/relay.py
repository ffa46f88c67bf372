"""One node asks another over the links of the cluster, in the words of the HTTP API.

So that any node answers for any other, a request travels by ``rpc`` with who asks (the node that was asked
let him in), runs there through the same application as one from a socket, and its answer comes back whole.

Rules: 1. The rights travel with the request and are checked where it runs, too.  2. An answer is bounded in
size, and waiting for it in time.  3. Answers without end (traces, events) do not travel; ask the node itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from starlette.types import ASGIApp, Message, Scope

from gossamer.api.tokens import Principal, Role
from gossamer.distribution import register_message
from gossamer.errors import UnavailableError

__all__ = ["REQUEST", "Answer", "AnswerTooLongError", "Ask", "PeerSilentError", "Relay", "ask_of"]

REQUEST = "api.request"
"""The function that every node offers to the others."""
MAX_ANSWER = 8 * 1024 * 1024


class Ask(msgspec.Struct, frozen=True):
    """A request for another node; ``target`` is the path and the query."""

    method: str
    target: str
    body: bytes
    name: str
    role: str
    address: str


class Answer(msgspec.Struct, frozen=True):
    """What a route answered."""

    status: int
    content_type: str
    body: bytes


register_message(Ask, "api.Ask")
register_message(Answer, "api.Answer")


class PeerSilentError(UnavailableError):
    """Another node gave no answer."""

    def __init__(self, *, node: str, reason: str) -> None:
        self.node = node
        self.reason = reason
        super().__init__(f"{node} did not answer: {reason}; see `gossamer nodes`")


class Relay:
    """Runs requests of other nodes. ``make`` gives the application where nobody says :meth:`use`."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._app: ASGIApp | None = None

    def use(self, app: ASGIApp) -> None:
        """Run requests through ``app`` from now on."""
        self._app = app

    async def answer(self, ask: Ask) -> Answer:
        """Run ``ask`` as whom it names."""
        if self._app is None:
            self._app = self._make()
        path, _, query = ask.target.partition("?")
        scope: Scope = {
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
            "gossamer.principal": Principal(name=ask.name, role=Role(ask.role), address=ask.address),
        }
        return await _collect(self._app, scope, ask.body)


async def _collect(app: ASGIApp, scope: Scope, body: bytes) -> Answer:
    status, content_type, parts, size, given = 0, "", list[bytes](), 0, False
    over = asyncio.Event()

    async def receive() -> Message:
        nonlocal given
        if given:
            # Whoever asked does not go away before the answer is there.
            await over.wait()
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, content_type, size
        if message["type"] == "http.response.start":
            status = message["status"]
            headers: dict[bytes, bytes] = dict(message["headers"])
            content_type = headers.get(b"content-type", b"").decode("latin-1")
            if content_type.startswith("text/event-stream"):
                raise AnswerTooLongError(target=scope["path"], reason="it has no end")
        else:
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > MAX_ANSWER:
                raise AnswerTooLongError(target=scope["path"], reason=f"it is over {MAX_ANSWER} bytes")
            parts.append(part)

    try:
        await app(scope, receive, send)
    finally:
        over.set()
    return Answer(status=status, content_type=content_type, body=b"".join(parts))


class AnswerTooLongError(UnavailableError):
    """An answer that does not travel from node to node."""

    def __init__(self, *, target: str, reason: str) -> None:
        self.target = target
        super().__init__(f"{target}: the answer cannot be passed on: {reason}; ask the node itself, in pages")


def ask_of(principal: Principal, method: str, target: str, body: bytes = b"") -> Ask:
    """What ``principal`` wants of another node."""
    return Ask(method, target, body, principal.name, principal.role.value, principal.address)
