"""How much a node does for callers at once: streams, requests, and what it refused.

Streams (events, traces, long lists) last, so that they are few, and fewer for one caller; requests are short,
and many. Neither takes the other's places, and probes and scrapers need none: whatever a crowd does, a node
tells whether it lives.

Rules: 1. Whoever got a place gives it back once.  2. Beyond a limit nothing waits in a queue: the answer is
503, or 429 where it is the caller's own share that is used up, with the time to come back.  3. A body is read
whole before the request takes a place, so that one that drips keeps nobody else out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gossamer.api.http.problems import refuse
from gossamer.api.http.tokens import Principal
from gossamer.config import ApiConfig

__all__ = ["MAX_BODY", "PROBES", "Limits", "LimitsMiddleware", "Refusal", "Turn", "overloaded"]

MAX_BODY = 64 * 1024
REQUESTS = 128
"""Requests that may be under way at once; probes and streams do not count."""
PROBES = frozenset({"/health", "/ready", "/metrics"})
"""What is answered however crowded it is."""
RETRY = 2
"""Seconds after which who was refused may come back."""

Refusal = tuple[int, str, str]
"""Status, title and detail of a problem."""


class Limits:
    """Counts who is served now, and who was not; the node keeps it, and the API's process uses it."""

    def __init__(self, config: ApiConfig | None = None) -> None:
        self.config = config or ApiConfig()
        self.requests = 0
        self.streams: Counter[str] = Counter()
        """Open streams by caller."""
        self.connections = 0
        self.refused: Counter[str] = Counter()
        """What was refused or cut, by why."""

    def open_stream(self, caller: str) -> Refusal | None:
        """Count a stream of ``caller`` in, unless something speaks against it."""
        config = self.config
        if self.streams.total() >= config.streams:
            self.refused["streams"] += 1
            text = f"{config.streams} streams are open, as many as api.streams allows; try again later"
            return 503, "Service Unavailable", text
        if self.streams[caller] >= config.streams_each:
            self.refused["streams_each"] += 1
            text = (
                f"{caller} has {config.streams_each} streams open, as many as api.streams_each allows; "
                "close one first"
            )
            return 429, "Too Many Requests", text
        self.streams[caller] += 1
        return None

    def close_stream(self, caller: str) -> None:
        """One of ``caller``'s is over."""
        self.streams[caller] -= 1
        if not self.streams[caller]:
            del self.streams[caller]


class Turn:
    """The place of one request."""

    __slots__ = ("_limits", "_over")

    def __init__(self, limits: Limits) -> None:
        limits.requests += 1
        self._limits = limits
        self._over = False

    def end(self) -> None:
        """Give it back; once more does nothing."""
        if not self._over:
            self._over = True
            self._limits.requests -= 1


class LimitsMiddleware:
    """ASGI middleware: reads the body, and lets so many requests in at once."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits = self._limits
        body = await _whole(receive)
        if body is None:
            return
        if len(body) > MAX_BODY:
            limits.refused["body"] += 1
            await refuse(send, *too_large(), headers=[(b"connection", b"close")])
            return
        if scope["path"] in PROBES:
            await self._app(scope, _with(body, receive), send)
            return
        if limits.requests >= REQUESTS:
            limits.refused["requests"] += 1
            await overloaded(send, (503, "Service Unavailable", f"{REQUESTS} requests are under way; wait"))
            return
        turn = scope["gossamer.turn"] = Turn(limits)
        try:
            await self._app(scope, _with(body, receive), send)
        finally:
            turn.end()


def too_large() -> Refusal:
    """The refusal of a body that is."""
    return 413, "Content Too Large", f"expected a body of at most {MAX_BODY} bytes"


async def overloaded(send: Send, refusal: Refusal) -> None:
    """Refuse, and say when to come back; the connection is of no use meanwhile."""
    await refuse(send, *refusal, headers=[(b"retry-after", str(RETRY).encode()), (b"connection", b"close")])


def caller_of_streams(scope: Scope) -> str:
    """Whose share a stream is of: a token's, this machine's, or that of an address without either."""
    principal: Principal | None = scope.get("gossamer.principal")
    if principal is None:
        return "nobody"
    return principal.address if principal.name == "anonymous" else principal.name


async def _whole(receive: Receive) -> bytes | None:
    """The body, or what came of it when it became too long; None: the caller went away."""
    parts, size = list[bytes](), 0
    while size <= MAX_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if not message.get("more_body", False):
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _with(body: bytes, receive: Receive) -> Receive:
    """``receive`` that gives ``body`` first."""
    first: dict[str, Any] | None = {"type": "http.request", "body": body, "more_body": False}

    async def given() -> Message:
        nonlocal first
        if first is not None:
            message, first = first, None
            return message
        return await receive()

    return given
