"""What the cluster does now: a pulse of each node, and a stream of all of them, once a second.

A pulse is small and made of counters, so that who reads two of them has a rate. The stream is server-sent
events: ``cluster``, with the pulse of every node that answers and the names of those that do not.

Rules: 1. However many read, the nodes are asked once a second, and only while somebody reads.  2. So many
streams at once and no more; the rest are told to come back.  3. A reader that is slow misses pulses; nothing
is kept for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal

import msgspec
from fastapi import APIRouter

from gossamer.api.alarms import AlarmInfo
from gossamer.api.http.streaming import StreamAnswer
from gossamer.api.http.tokens import Principal, Role
from gossamer.api.model import Value
from gossamer.api.peers.requests import PeerSilentError
from gossamer.api.peers.scatter_gather import Wide
from gossamer.api.view import NodeView
from gossamer.clock import Clock
from gossamer.errors import GossamerError

__all__ = ["Pulse", "Seen", "live_router"]

EVENTS = "text/event-stream"
PERIOD = 1.0
"""Seconds between two pulses."""
PATIENCE = 0.8
"""Seconds that a node has for its pulse."""


class Seen(Value):
    """How a node sees another."""

    status: Literal["online", "suspect", "offline", "stopped", "left"]
    link: Literal["self", "up", "connecting", "down"]


class Pulse(Value):
    """A node at this moment. Counters begin at its start."""

    node: str
    at: float
    creation: int
    uptime: float
    state: str
    version: str
    connections: int
    sessions: int
    filters: int
    """Filters that have subscribers here."""
    retained: int
    queued_bytes: int
    received: int
    """Messages that clients published."""
    sent: int
    """Messages delivered to clients."""
    dropped: int
    forwarded_bytes: Mapping[str, int]
    """Bytes of messages for each peer."""
    loop_lag: float
    """Seconds that the event loop was late lately, at worst."""
    memory: int
    """Bytes of memory in use."""
    sees: Mapping[str, Seen]
    phase: str
    """What autoheal does."""
    alarms: tuple[AlarmInfo, ...]


class _Sampler:
    """The last sample of all nodes, made anew for who comes when it is old."""

    def __init__(self, view: NodeView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._lock = asyncio.Lock()
        self._made = -1e9
        self._sample = b""

    async def sample(self) -> bytes:
        """One event, ready to send."""
        async with self._lock:
            now = self._clock.monotonic()
            if now - self._made >= PERIOD * 0.9:
                self._sample = await self._make()
                self._made = now
            return self._sample

    async def _make(self) -> bytes:
        view = self._view
        # The sample is the same for all who may read at all.
        wide = Wide(view, Principal(name="live", role=Role.VIEWER))
        others, missing = [], dict[str, str]()
        for node in view.nodes():
            if node.link == "self" or node.status == "left":
                continue
            if node.status in ("offline", "stopped"):
                missing[node.name] = f"it is {node.status}"
            else:
                others.append(node.name)
        answers = await asyncio.gather(*(_pulse_of(wide, name) for name in others))
        pulses: list[Any] = [view.pulse().model_dump(mode="json")]
        for name, answer in zip(others, answers, strict=True):
            if isinstance(answer, str):
                missing[name] = answer
            else:
                pulses.append(answer)
        body = msgspec.json.encode({"asked": view.name, "nodes": pulses, "missing": missing})
        return b"event: cluster\ndata: " + body + b"\n\n"


async def _pulse_of(wide: Wide, node: str) -> dict[str, Any] | str:
    try:
        answer = await wide.ask(node, "GET", "/api/v1/pulse", patience=PATIENCE)
        if answer.status != 200:
            raise PeerSilentError(node=node, reason=f"it answered {answer.status}")
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except (GossamerError, msgspec.DecodeError) as error:
        return str(error)


def live_router(view: NodeView, *, clock: Clock) -> APIRouter:
    """``/pulse`` and ``/live``."""
    router = APIRouter(tags=["cluster"])
    sampler = _Sampler(view, clock)

    @router.get("/pulse")
    async def pulse() -> Pulse:
        """This node at this moment."""
        return view.pulse()

    @router.get(
        "/live",
        response_class=StreamAnswer,
        responses={200: {"content": {EVENTS: {}}, "description": "Server-sent events."}},
    )
    async def live() -> StreamAnswer:
        """The pulse of every node, once a second, as server-sent events."""
        return StreamAnswer(_events(sampler), media_type=EVENTS, headers={"cache-control": "no-store"})

    return router


async def _events(sampler: _Sampler) -> AsyncGenerator[bytes, None]:
    # Browsers that lose the stream come back after so many milliseconds.
    yield b"retry: 2000\n\n"
    while True:
        yield await sampler.sample()
        await asyncio.sleep(PERIOD)
