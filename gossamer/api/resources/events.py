"""Events of the nodes: recent ones, the cluster's live state, and its last hour.

``/events`` is of one node, for scripts that want to know when: ages are by a clock that does not jump.
``/timeline`` is of all, for people, the latest first by the wall clocks of the nodes; ``position`` is a text
that sorts as the list does, so that pages are merged as those of any long list.

A pulse is small and made of counters, so that who reads two of them has a rate. ``/live`` is server-sent
events: ``cluster``, with the pulse of every node that answers and the names of those that do not.

Rules: 1. However many read, the nodes are asked once a second, and only while somebody reads.  2. So many
streams at once and no more; the rest are told to come back.  3. A reader that is slow misses pulses; nothing
is kept for it.  4. Of the last hour each node keeps a bounded ring in memory. Points stand at whole steps of
the wall clock, so that those of several nodes can be added up; a time at which nothing was measured has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gossamer.api.http.access import principal_of
from gossamer.api.http.limits import StreamAnswer
from gossamer.api.http.tokens import NODE, Principal, Role
from gossamer.api.model.base import Page, Value
from gossamer.api.model.cluster import NodeHistory, Pulse
from gossamer.api.peers.paging import Walked, sort_key
from gossamer.api.peers.scatter_gather import Peers
from gossamer.api.resources.listing import STREAMED, ListingQuery, OnNode, Scope
from gossamer.api.view import EventLogView, NodeView
from gossamer.clock import Clock
from gossamer.errors import WrongValueError, mismatch

LONGEST = 3600
"""Seconds that a node remembers."""
EVENTS = "text/event-stream"
PERIOD = 1.0
"""Seconds between two pulses."""
TIMEOUT = 0.8
"""Seconds that a node has for its pulse."""


class EventInfo(Value):
    """One event, as this node saw it."""

    serial: int
    """Counts up from 1 in each life of the node; a gap means that older ones are forgotten."""
    at: float
    """By the node's wall clock."""
    age: float
    """Seconds ago, by a clock that does not jump."""
    kind: str
    """up, suspected, refuted, down, left (of ``peer``, by gossip); link_up, link_down; partition, confirmed,
    plan, coordinates, reloaded, healed (of splits); removed (by autoclean).
    """
    peer: str = ""
    text: str = ""


class EventsInfo(Value):
    """Events of one life of a node, oldest first."""

    node: str
    creation: int
    """Of the node that answers; with another one serials restart."""
    items: tuple[EventInfo, ...]


class TimelineEvent(EventInfo):
    """One event, as one node saw it; ``/events`` of that node has the same ``serial``."""

    position: str
    """Sorts as the list does."""
    node: str


class History(Value):
    """The history of nodes."""

    nodes: tuple[NodeHistory, ...]
    missing: Mapping[str, str] = {}
    """Nodes that were asked and did not answer, and why."""


def events_router(view: NodeView) -> APIRouter:
    """``/events`` and ``/timeline``."""
    router = APIRouter(tags=["node"])

    @router.get("/events")
    async def events(
        after: Annotated[int, Query(ge=0, description="`serial` of the last one known.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1000,
    ) -> EventsInfo:
        """Return the recent events of this node."""
        log = view.event_log
        found = log.after(after)[:limit]
        items = (EventInfo(**_fields(log, one)) for one in found)
        return EventsInfo(node=view.name, creation=log.creation, items=tuple(items))

    def own(kinds: frozenset[str], peer: str | None, search: str) -> Iterator[Walked[TimelineEvent]]:
        log = view.event_log
        for one in log.after(0):
            found = (
                (not kinds or one.kind in kinds)
                and peer in (None, one.peer)
                and search in f"{one.kind} {one.peer} {one.text}".casefold()
            )
            if not found:
                yield None
                continue
            position = f"{sort_key(one.at, descending=True)}{sort_key(one.serial, descending=True)}"
            show = partial(TimelineEvent, position=position, node=view.name, **_fields(log, one))
            yield (position, view.name), show

    @router.get("/timeline", response_model=Page[TimelineEvent], responses=STREAMED)
    async def timeline(
        listing: ListingQuery,
        kind: Annotated[
            str, Query(max_length=500, description="Only these kinds, as `/events` has them: `up,down`.")
        ] = "",
        peer: Annotated[str | None, Query(max_length=255, description="Only of this node.")] = None,
        search: Annotated[
            str, Query(max_length=1000, description="Only those whose kind, peer or text contains this.")
        ] = "",
        scope: Scope = "cluster",
    ) -> Response:
        """Return the recent events of all nodes, the latest first."""
        kinds = frozenset(one.strip() for one in kind.split(",") if one.strip())
        if unknown := sorted(kinds.difference(view.event_log.kinds)):
            expected = f"some of {', '.join(view.event_log.kinds)}"
            raise mismatch(WrongValueError, "kind", ", ".join(map(repr, unknown)), expected)
        return await listing.answer(
            view,
            own=lambda: own(kinds, peer, search.casefold()),
            fields=("position", "node"),
            scope=scope,
        )

    return router


def _fields(log: EventLogView, one: Any) -> dict[str, Any]:
    told = {name: getattr(one, name) for name in ("serial", "at", "kind", "peer", "text")}
    return {**told, "age": round(log.age(one), 6)}


class _Sampler:
    """Last sample of all nodes, renewed on demand when it is old."""

    def __init__(self, view: NodeView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._lock = asyncio.Lock()
        self._made = -1e9
        self._sample = b""

    async def sample(self) -> bytes:
        """Return one event, ready to send."""
        async with self._lock:
            now = self._clock.monotonic()
            if now - self._made >= PERIOD * 0.9:
                self._sample = await self._make()
                self._made = now
            return self._sample

    async def _make(self) -> bytes:
        view = self._view

        async def own() -> dict[str, object]:
            return view.pulse().model_dump(mode="json")

        # The sample is the same for all who may read at all.
        nodes, missing = await Peers(view, Principal(NODE, Role.VIEWER)).gather(
            "/api/v1/pulse", msgspec.json.Decoder(dict[str, object]).decode, own=own, timeout=TIMEOUT
        )
        body = msgspec.json.encode({"asked": view.name, "nodes": nodes, "missing": missing})
        return b"event: cluster\ndata: " + body + b"\n\n"


def live_router(view: NodeView, *, clock: Clock) -> APIRouter:
    """``/pulse``, ``/live`` and ``/history``."""
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

    @router.get("/history")
    async def history(
        request: Request,
        seconds: Annotated[int, Query(ge=1, le=LONGEST, description="How far back.")] = LONGEST,
        step: Annotated[int, Query(ge=5, le=600, description="Seconds that a point stands for.")] = 30,
        node: OnNode = None,
        scope: Scope = "cluster",
    ) -> History:
        """The last hour of all nodes: messages, clients, processor, memory."""

        async def own() -> NodeHistory:
            return view.history(seconds=seconds, step=step)

        found, missing = await Peers(view, principal_of(request)).gather(
            f"{request.url.path}?scope=node&seconds={seconds}&step={step}",
            lambda body: History.model_validate_json(body, extra="ignore").nodes[0],
            own=own,
            node=view.name if scope == "node" else node,
        )
        return History(nodes=tuple(found), missing=missing)

    return router


async def _events(sampler: _Sampler) -> AsyncGenerator[bytes, None]:
    # Browsers that lose the stream come back after so many milliseconds.
    yield b"retry: 2000\n\n"
    while True:
        yield await sampler.sample()
        await asyncio.sleep(PERIOD)
