"""HTTP connection: uvicorn's protocol on h11, with a timeout for everything that a caller can delay.

    waits for a head ──10 s──▶ 408          a head that drips, or nothing at all
    waits for a body ──20 s──▶ 408          a body that drips
    does not read ─────20 s──▶ cut          an answer that nobody takes
    idle ──────────────15 s──▶ closed       (uvicorn's own)

So many connections and no more. Whoever comes when all places are taken gets that of the connection that has
waited longest without a whole request, of the address with most of those, and of strangers first. Where every
connection has a request under way, a few places are left that answer probes only; others are told to come
back. So a crowd that sends nothing, or half of something, keeps nobody out.

Rules: 1. Whatever is wrong with a request is a problem (RFC 9457).  2. A last answer is not lost to a reset
because its reader was still sending: what he sends is dropped for a moment, then the connection ends.
3. However it ends, its place is free.

Rejected: a limit on connections that counts them all alike (uvicorn's ``limit_concurrency``): a caller that
opens so many keeps all others out, probes too.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import Callable
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gossamer.api.http.answers import PROBLEM, problem, title_of
from gossamer.api.http.limits import MAX_BODY, PROBES_ONLY, RETRY, Limits
from gossamer.api.http.tokens import ANONYMOUS, Principal

HEAD_WAIT = 10.0
"""Seconds for the head of a request, all of it."""
BODY_WAIT = 20.0
"""Seconds for its body."""
READ_WAIT = 20.0
"""Seconds in which a reader has to take the most of what waits for it."""
LINGER = 2.0
"""Seconds that a connection lasts after its last answer, while the other side still sends."""
HEAD_LINES = 100
SPARE = 1024 * 1024
"""Bytes that are dropped after the last answer."""
PROBE_PLACES = 16
"""Connections beyond ``api.connections`` that answer probes only."""
KERNEL_BUFFER = 256 * 1024
"""Bytes of an answer that the system holds for a slow reader."""

_BLANK = re.compile(rb"\n\r?\n")
_Stage = Literal["", "idle", "head", "body", "closing"]
"""State in which a connection waits; blank: it has a request under way."""


class Connections:
    """The places for connections."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._waiting: dict[str, dict[Connection, None]] = {}

    def enter(self) -> bool:
        """Take a place, if necessary that of a connection without a whole request."""
        limits = self.limits
        if limits.connections >= limits.config.connections:
            if self._waiting:
                crowd = max(self._waiting.values(), key=len)
                limits.refused["crowded_out"] += 1
                next((one for one in crowd if not one.is_known()), next(iter(crowd))).give_way()
            elif limits.connections >= limits.config.connections + PROBE_PLACES:
                limits.refused["connections"] += 1
                return False
        limits.connections += 1
        return True

    def are_full(self) -> bool:
        """Return whether the last one that entered has one of the places for probes."""
        return self.limits.connections > self.limits.config.connections

    def leave(self) -> None:
        """Give it back."""
        self.limits.connections -= 1

    def wait(self, connection: Connection) -> None:
        """Record that a connection has no whole request."""
        self._waiting.setdefault(connection.address, {})[connection] = None

    def work(self, connection: Connection) -> None:
        """Record that a connection has a request, or has ended."""
        crowd = self._waiting.get(connection.address, {})
        crowd.pop(connection, None)
        if not crowd:
            self._waiting.pop(connection.address, None)


class _LingeringTransport:
    """Transport that writes its last answer, and then ends in bounded time."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        still_sends: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._still_sends = still_sends
        self._end: asyncio.TimerHandle | None = None
        self.dropped = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._end is not None or self._transport.is_closing()

    def close(self) -> None:
        if self._end is not None:
            return
        self._end = self._loop.call_later(LINGER, self._transport.abort)
        # TLS has no half-closed connections.
        half = self._transport.can_write_eof() and not self._transport.is_closing()
        if half and self._still_sends():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def end(self) -> None:
        """Close after pending writes."""
        self._transport.close()

    def drop(self, data: bytes) -> None:
        """Drop what arrives after the last answer."""
        self.dropped += len(data)
        if self.dropped > SPARE:
            self._transport.abort()

    def lost(self) -> None:
        """Handle the end of the connection."""
        if self._end is not None:
            self._end.cancel()


class Connection(H11Protocol):
    """HTTP/1.1 connection with a deadline for every state, in one of a bounded number of places."""

    def __init__(self, connections: Connections, **more: Any) -> None:
        super().__init__(**more)
        self._connections = connections
        self._limits = connections.limits
        self.address = ""
        self._refused = False
        self._entered = False
        self._stage: _Stage = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        # Of the head that is being received.
        self._lines = 0
        self._tail = b""
        self._began = False

    # -- lifecycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if not self._connections.enter():
            self._refused = True
            transport.write(_FULL)
            transport.close()
            return
        self._entered = True
        self.app_state = {PROBES_ONLY: self._connections.are_full()}
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        _bound(transport.get_extra_info("socket"))
        self._linger = _LingeringTransport(transport, self.loop, self._still_sends)
        super().connection_made(self._linger)  # type: ignore[arg-type]
        self._watch("head")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._refused:
            return
        self._give_back()
        self._watch("")
        self.resume_writing()
        super().connection_lost(exc)
        self._linger.lost()

    def is_known(self) -> bool:
        """Return whether its last request is of a caller with a token, or of this machine."""
        principal: object = None if self.cycle is None else self.cycle.scope.get("gossamer.principal")
        return isinstance(principal, Principal) and principal.name != ANONYMOUS

    def give_way(self) -> None:
        """Close at once to free the place; a caller that had begun a request gets an answer, if it reads."""
        if self._stage in ("head", "body") and self._unanswered():
            self._drop_cycle()
            self.transport.write(_FULL)
        self._give_back()
        self._linger.end()

    def _give_back(self) -> None:
        self._connections.work(self)
        if self._entered:
            self._entered = False
            self._connections.leave()

    # -- what comes

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self.transport.is_closing():
            self._linger.drop(data)
            return
        if self.conn.their_state is h11.IDLE and not self._counted(data):
            self._say(431, f"expected at most {HEAD_LINES} header lines")
            return
        self._began = True
        super().data_received(data)
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY:
            # It is answered; the rest of its body is dropped, and not without end.
            self._linger.drop(data)
            if self._linger.dropped > MAX_BODY:
                self.transport.close()
        self._watch(_STAGES.get(self.conn.their_state, ""))

    def on_response_complete(self) -> None:
        self._began = False
        self._lines, self._tail = 0, b""
        if not self._counted(self.conn.trailing_data[0]):
            # What was sent ahead is no head either.
            self.transport.close()
        super().on_response_complete()
        self._watch("idle" if self.conn.their_state is h11.IDLE else _STAGES.get(self.conn.their_state, ""))

    def _counted(self, data: bytes) -> bool:
        """Count lines of a head, since each costs more than its bytes; False: they are too many."""
        text = self._tail + data
        end = _BLANK.search(text)
        self._lines += text.count(b"\n", 0, end.start() if end else len(text)) - self._tail.count(b"\n")
        self._tail = text[-3:]
        return self._lines <= HEAD_LINES

    # -- what does not come

    def _watch(self, stage: _Stage) -> None:
        if stage == self._stage or (stage and not self._entered):
            return
        self._stage = stage
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if stage:
            self._connections.wait(self)
        else:
            self._connections.work(self)
        if stage in _WAITS:
            self._deadline = self.loop.call_later(_WAITS[stage], self._late)

    def _late(self) -> None:
        self._limits.refused[f"slow_{self._stage}"] += 1
        if self._stage == "head" and not self._began:
            self.transport.abort()
            return
        self._say(408, f"the {self._stage} of the request did not come in time")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(READ_WAIT, self._unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _unread(self) -> None:
        self._limits.refused["slow_reader"] += 1
        self.transport.abort()

    # -- last words

    def _still_sends(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR)

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        self._limits.refused["bad_request"] += 1
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self._say(status, str(error) if error else msg)

    def _say(self, status: int, detail: str) -> None:
        """Answer beside the application, and close."""
        self._drop_cycle()
        if not self._unanswered():
            # An answer is half written already.
            self.transport.abort()
            return
        self.transport.write(_written(status, detail[:300]))
        self.transport.close()
        self._watch("closing")

    def _unanswered(self) -> bool:
        return self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    def _drop_cycle(self) -> None:
        """Let the application know that its caller is gone."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()


_STAGES: dict[object, _Stage] = {h11.IDLE: "head", h11.SEND_BODY: "body"}
_WAITS = {"head": HEAD_WAIT, "body": BODY_WAIT}


def _written(status: int, detail: str) -> bytes:
    """A problem as the last answer of a connection."""
    body = bytes(problem(status, detail).body)
    head = f"HTTP/1.1 {status} {title_of(status)}\r\ncontent-type: {PROBLEM}\r\nconnection: close\r\n"
    head += f"retry-after: {RETRY}\r\n" if status == 503 else ""
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


_FULL = _written(503, "all connections of this node are in use; come back")


def _bound(sock: socket.socket | None) -> None:
    """Let the system hold little for a reader, and give one up that takes nothing."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER // 2)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(READ_WAIT * 1000))
