"""Limits of concurrent streams and requests of callers, and counts of refusals.

Streams (events, traces, long lists) last, so that they are few, and fewer for one caller; requests are short,
and many. Neither takes the other's places, and probes and scrapers need none: whatever a crowd does, a node
tells whether it lives.

Rules: 1. Whoever got a place gives it back once, however it ends; what another node asks for on somebody's
behalf was counted there.  2. Beyond a limit nothing waits in a queue: the answer is 503, or 429 where it is
the caller's own share that is used up, with the time to come back.  3. A body is read whole before the
request takes a place, so that one that drips keeps nobody else out.  4. An answer that lasts takes one of the
places for streams, and gives its turn as a request back.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gossamer.api.http.answers import refuse
from gossamer.api.http.tokens import ANONYMOUS, Principal
from gossamer.config import ApiConfig

NDJSON = "application/x-ndjson"
MAX_BODY = 64 * 1024
REQUESTS = 128
"""Requests that may be under way at once; probes and streams do not count."""
PROBES = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are answered however many requests are under way."""
PROBES_ONLY = "gossamer.probes_only"
"""State of a connection that has one of the places for probes."""
RETRY = 2
"""Seconds after which who was refused may come back."""

Refusal = tuple[int, str]
"""Status and detail of a problem."""


class Limits:
    """Counts who is served now, and who was not; the node keeps it, and the API's process uses it."""

    def __init__(self, config: ApiConfig | None = None) -> None:
        self.config = config or ApiConfig()
        self.requests = 0
        self.streams: Counter[str] = Counter()
        """Open streams by caller."""
        self.connections = 0
        self.refused: Counter[str] = Counter()
        """Refused or closed requests and connections, by reason."""

    def end_request(self) -> None:
        """Record that a request is over, or continues as a stream."""
        self.requests -= 1

    def open_stream(self, caller: str) -> Refusal | None:
        """Count a stream of ``caller`` in, unless something speaks against it."""
        config = self.config
        if self.streams.total() >= config.streams:
            self.refused["streams"] += 1
            text = f"{config.streams} streams are open, as many as api.streams allows; try again later"
            return 503, text
        if self.streams[caller] >= config.streams_each:
            self.refused["streams_each"] += 1
            text = (
                f"{caller} has {config.streams_each} streams open, as many as api.streams_each allows; "
                "close one first"
            )
            return 429, text
        self.streams[caller] += 1
        return None

    def close_stream(self, caller: str) -> None:
        """Record that a stream of ``caller`` is over."""
        self.streams[caller] -= 1
        if not self.streams[caller]:
            del self.streams[caller]


class LimitsMiddleware:
    """ASGI middleware: reads the body, and lets so many requests in at once."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = self._limits
        if scope["path"] in PROBES:
            # What a probe sends along is not waited for.
            await self._app(scope, receive, send)
            return
        if scope.get("state", {}).get(PROBES_ONLY):
            limits.refused["connections"] += 1
            await _overloaded(send, (503, "all connections of this node are in use"))
            return
        body = await _whole(receive)
        if body is None:
            return
        if len(body) > MAX_BODY:
            limits.refused["body"] += 1
            await refuse(send, *too_large(), headers=[(b"connection", b"close")])
            return
        if limits.requests >= REQUESTS:
            limits.refused["requests"] += 1
            await _overloaded(send, (503, f"{REQUESTS} requests are under way; wait"))
            return
        limits.requests += 1
        with contextlib.ExitStack() as turn:
            turn.callback(limits.end_request)
            # An answer that lasts gives it back sooner.
            scope["gossamer.turn"] = turn
            await self._app(scope, _with(body, receive), send)


class StreamAnswer(StreamingResponse):
    """Streaming response that holds one of the places for streams, or is a problem where none is free.

    ``source`` is a generator that ``body`` reads, if any, to be closed with it.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        *,
        source: AsyncGenerator[object, None] | None = None,
        media_type: str = NDJSON,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(body, status_code, media_type=media_type, headers=headers)
        self._body = body
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._counted(scope, receive, send)
        finally:
            await self._body.aclose()
            if self._source is not None:
                await self._source.aclose()

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("gossamer.relayed"):
            await super().__call__(scope, receive, send)
            return
        limits: Limits = scope["app"].state.limits
        caller = _caller_of(scope)
        refusal = limits.open_stream(caller)
        if refusal is not None:
            await _overloaded(send, refusal)
            return
        turn: contextlib.ExitStack = scope.get("gossamer.turn", contextlib.ExitStack())
        turn.close()
        try:
            await super().__call__(scope, receive, send)
        finally:
            limits.close_stream(caller)


def too_large() -> Refusal:
    """The refusal of a body that is."""
    return 413, f"expected a body of at most {MAX_BODY} bytes"


async def _overloaded(send: Send, refusal: Refusal) -> None:
    """Refuse with a retry time, and close the connection."""
    await refuse(send, *refusal, headers=[(b"retry-after", str(RETRY).encode()), (b"connection", b"close")])


def _caller_of(scope: Scope) -> str:
    """Return who a stream is counted for: a token, this machine, or an address without either."""
    principal: Principal | None = scope.get("gossamer.principal")
    if principal is None:
        return "nobody"
    return principal.address if principal.name == ANONYMOUS else principal.name


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
    first: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def given() -> Message:
        nonlocal first
        if first is not None:
            message, first = first, None
            return message
        return await receive()

    return given
