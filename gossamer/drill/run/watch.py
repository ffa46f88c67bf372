"""Watch on the nodes: suspicions, losses, returns and heals, read from the nodes' own histories.

Nodes keep their events (``GET /api/v1/events``) with ages, so that polling a few times a second gives times
precise to milliseconds. Equal routes are no event of a node: they are polled, five times a second, and only
while it matters.

Rules: 1. A node that does not answer is asked again; its stored events are not lost.  2. A new creation of a
node counts from 1 again.  3. The drill's time of an event is that of the answer minus the event's age.

Once a drill is over, nodes are asked for heals, quarantined rows, members and checksums of their tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import msgspec

from gossamer.drill.record import Heal, Mark, MarkKind, NodeEnd, Quarantined
from gossamer.drill.report.copies import COMMITS
from gossamer.launch import NodePlan

Routes = frozenset[tuple[str, frozenset[str]]]
"""Filters, and the nodes that have subscribers to them."""

_KINDS: dict[str, MarkKind] = {
    "up": "saw the return",
    "suspected": "suspected",
    "refuted": "refuted",
    "down": "declared down",
    "left": "left",
    "link_up": "link back",
    "link_down": "link lost",
    "partition": "partition raised",
    "confirmed": "confirmed",
    "plan": "plan made",
    "coordinates": "coordinates",
    "reloaded": "restarted store",
    "healed": "healed",
    "removed": "removed",
}
_EVENTS_EVERY = 0.25
_ROUTES_EVERY = 0.2
_TIMEOUT = 5.0
_AGREEMENT_TIMEOUT = 10.0
_RETRY_INTERVAL = 0.5

State = Literal["up", "suspect", "down"]
_STATES: dict[MarkKind, State] = {
    "saw the return": "up",
    "refuted": "up",
    "suspected": "suspect",
    "declared down": "down",
    "left": "down",
    "removed": "down",
}


def mark_of(node: str, event: Mapping[str, Any], told_at: float) -> Mark | None:
    """Convert an event of ``GET /api/v1/events`` to a mark; None for kinds of later versions."""
    kind = _KINDS.get(event["kind"])
    if kind is None:
        return None
    return Mark(round(told_at - event["age"], 4), node, kind, event.get("peer", ""), event.get("text", ""))


@dataclass(slots=True)
class Sight:
    """Each node's view of its peers from the marks so far; a peer that was never lost is up."""

    states: dict[tuple[str, str], State] = field(default_factory=dict)

    def note(self, mark: Mark) -> None:
        """Apply one mark; marks of one node come in order."""
        state = _STATES.get(mark.kind)
        if state is not None:
            self.states[mark.node, mark.peer] = state
        elif mark.kind == "process started":
            # After a restart it considers no peer down.
            for pair in [pair for pair in self.states if pair[0] == mark.node]:
                del self.states[pair]

    def of(self, node: str, peer: str) -> State:
        """Return the state of ``peer`` in ``node``'s view."""
        return self.states.get((node, peer), "up")


class Watch:
    """Poller of nodes. ``tell`` gets every mark from time 0 on; ``now`` returns the drill's time."""

    def __init__(
        self, nodes: Sequence[NodePlan], *, now: Callable[[], float], tell: Callable[[Mark], None]
    ) -> None:
        self._now = now
        self._tell = tell
        self._nodes = {node.name: node for node in nodes}
        self._known = {node.name: (0, 0) for node in nodes}
        """Creation and serial of each node's last event."""
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start polling."""
        self._task = asyncio.create_task(self._follow(), name="watch")

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._client.aclose()

    async def look(self) -> None:
        """Poll all nodes for their events once, now."""
        await asyncio.gather(*map(self._events, self._nodes))

    async def get(self, name: str, path: str, *, any_status: bool = False) -> Any:
        """Return a node's answer as data; None without an answer, or on an error status."""
        try:
            answer = await self._client.get(self._nodes[name].api + path)
            return answer.json() if any_status or answer.status_code == 200 else None
        except (httpx.TransportError, ValueError):
            return None

    async def metrics(self, name: str) -> dict[str, float]:
        """Return a node's metrics that have no labels; none without an answer."""
        try:
            answer = await self._client.get(self._nodes[name].api + "/metrics")
        except httpx.TransportError:
            return {}
        lines = (line.split() for line in answer.text.splitlines() if not line.startswith("#"))
        return {words[0]: float(words[1]) for words in lines if len(words) == 2 and "{" not in words[0]}

    async def copies(self) -> tuple[int, int]:
        """Return how many sessions the nodes copy, and of how many a quorum lacks something."""
        found = await asyncio.gather(*map(self.metrics, self._nodes))
        names = "gossamer_mqtt_sessions_copied", "gossamer_mqtt_sessions_behind"
        copied, behind = (int(sum(one.get(name, 0.0) for one in found)) for name in names)
        return copied, behind

    async def commits(self, name: str) -> tuple[float, float]:
        """Return for how long a node has committed to its disc in all, and how often."""
        found = await self.metrics(name)
        return found.get(f"{COMMITS}_sum", 0.0), found.get(f"{COMMITS}_count", 0.0)

    async def get_all(self, path: str, *, any_status: bool = False) -> list[Any]:
        """Return the answers of all nodes, asked at once, in their order."""
        return await asyncio.gather(*(self.get(name, path, any_status=any_status) for name in self._nodes))

    async def routes(self, name: str) -> Routes | None:
        """Return every filter of a node's routes, with the nodes that have subscribers to it.

        None while it is not linked to all others, with all their tables loaded: rows of a node that is down
        are kept and listed for a while, though nothing is sent by them.
        """
        ready = await self.get(name, "/ready")
        if ready is None or len(ready["members"]) < len(self._nodes):
            return None
        page = await self.get(name, "/api/v1/topics?limit=10000")
        if page is None:
            return None
        return frozenset((item["filter"], frozenset(item["nodes"])) for item in page["items"])

    async def until_routes(self, expected: Routes) -> None:
        """Wait until every node has exactly these routes, and mark each."""
        missing = dict.fromkeys(self._nodes)
        while missing:
            begun = self._now()
            names = list(missing)
            for name, routes in zip(names, await asyncio.gather(*map(self.routes, names)), strict=True):
                if routes == expected:
                    del missing[name]
                    self._tell(Mark(round(self._now(), 4), name, "routes equal"))
            await asyncio.sleep(max(0.01, begun + _ROUTES_EVERY - self._now()))

    async def _follow(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_EVENTS_EVERY)

    async def _events(self, name: str) -> None:
        creation, serial = self._known[name]
        asked = self._now()
        told = await self.get(name, f"/api/v1/events?after={serial}")
        if told is None:
            return
        if told["creation"] != creation and serial:
            self._known[name] = (told["creation"], 0)
            return
        # The ages were taken between request and answer.
        answered = (asked + self._now()) / 2
        for event in told["items"]:
            serial = event["serial"]
            mark = mark_of(name, event, answered)
            if mark is not None and mark.at >= 0:
                self._tell(mark)
        self._known[name] = (told["creation"], serial)


# -- at the end


async def heals_of(watch: Watch, *, since: float) -> tuple[Heal, ...]:
    """Return every heal once, whichever node reports it; ``since``: start of the drill, since 1970."""
    heals: dict[str, Heal] = {}
    for history in await watch.get_all("/api/v1/autoheal/history"):
        for incident in history or ():
            healed_at = round(incident["healed_at"] - since, 3)
            heal = msgspec.convert({**incident, **incident["rows"], "healed_at": healed_at}, Heal)
            heals.setdefault(heal.plan, heal)
    return tuple(sorted(heals.values(), key=lambda heal: heal.healed_at))


async def quarantined_of(watch: Watch, nodes: Sequence[NodePlan]) -> tuple[Quarantined, ...]:
    """Return the quarantined rows of the nodes that answer."""
    statuses = await watch.get_all("/api/v1/autoheal")
    return tuple(
        Quarantined(node.name, str(node.directory / "tables.db"), status["quarantined"])
        for node, status in zip(nodes, statuses, strict=True)
        if status is not None and status["quarantined"]
    )


async def ends_of(watch: Watch, nodes: Sequence[NodePlan]) -> tuple[NodeEnd, ...]:
    """Return members and tables of each node.

    Replication may still be under way when the load ends, so nodes that differ are asked again for a while;
    the last answers count.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _AGREEMENT_TIMEOUT
    while True:
        # A node that is not ready also lists its members.
        ready = await watch.get_all("/ready", any_status=True)
        tables = await watch.get_all("/api/v1/tables/digests")
        ends = tuple(map(_end_of, nodes, ready, tables))
        agree = len({(end.members, frozenset(end.tables.items())) for end in ends}) == 1
        if (agree and len(ends[0].members) == len(ends)) or loop.time() >= deadline:
            return ends
        await asyncio.sleep(_RETRY_INTERVAL)


def _end_of(node: NodePlan, ready: object, digests: object) -> NodeEnd:
    if not (isinstance(ready, dict) and isinstance(digests, list)):
        return NodeEnd(node.name)
    tables = {f"{row['name']} of {row['owner']}": f"{row['rows']} rows {row['checksum']}" for row in digests}
    return NodeEnd(node.name, tuple(sorted(ready.get("members", ()))), tables)
