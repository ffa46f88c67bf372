"""Events of the cluster, as one node sees them: members, splits, heals, and how far its clock is off.

And, once at its start, what has been going on already: clients that are connected, subscriptions that stand.

A node asks each of the others for its time, :data:`ASKS` times, and believes the answer that came back
soonest: that one was delayed least. What the way there and back leaves in doubt is no offset: clocks that
may agree do. Ahead by how much is said of the median of all clocks, its own included, so that one wrong clock
makes only its own rows wrong. A node alone is right. Nothing is set by this; it stands in the rows
(``offset_us``), for those who compare times.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from statistics import median

import gossamer.audit.schema as schema
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.audit.flow_recorder import FlowRecorder
from gossamer.audit.lives import Client
from gossamer.autoheal import AUTOHEAL, Incident, Partition, Subscribe
from gossamer.clock import Clock
from gossamer.distribution import Distribution, NodeDown, NodeUp
from gossamer.distribution import rpc as remote
from gossamer.gossip import MemberSuspect
from gossamer.supervisor import Down, GenServer, cast, monitor, self_pid, send_after

WATCH = "audit_watch"
"""Subscribed to gossip under this name."""
STEP = 200
"""Sessions told of in one turn of the loop."""
_RETRY_INTERVAL = 1.0
_OF_HEALS = ("plan", "coordinator", "survivors", "reloaded", "skipped", "split_at", "healed_at")
CLOCK = "audit.clock"
"""Function that other nodes call: the wall clock here."""
MEASURE_INTERVAL = 10.0
FIRST = 0.5
ASKS = 3
ANSWER_TIMEOUT = 2.0


class Watch(GenServer):
    """Process that records membership, splits and heals; ``sessions`` returns those that stand now."""

    async def init(
        self,
        *,
        buffer: EventBuffer,
        recorder: FlowRecorder,
        distribution: Distribution,
        sessions: Callable[[], Iterable[Client]],
    ) -> None:
        self._buffer = buffer
        for number, session in enumerate(list(sessions()), 1):
            recorder.standing(session)
            if not number % STEP:
                await asyncio.sleep(0)
        distribution.subscribe(self_pid())
        self._ask()

    async def handle_info(self, message: object) -> None:
        match message:
            case NodeUp(name, creation):
                self._buffer.note(KINDS[schema.NODE_UP], name, json.dumps({"creation": creation}))
            case NodeDown(name, _, reason):
                self._buffer.note(KINDS[schema.NODE_DOWN], name, reason)
            case MemberSuspect(member):
                self._buffer.note(KINDS[schema.NODE_SUSPECT], member.name)
            case Partition(peer, context):
                self._buffer.note(
                    KINDS[schema.PARTITION],
                    *(peer, context, json.dumps({"down_at": message.down_at, "met_at": message.met_at})),
                )
            case Incident():
                detail = {name: getattr(message, name) for name in _OF_HEALS}
                self._buffer.note(KINDS[schema.HEALED], json.dumps(detail))
            case Down():
                send_after(_RETRY_INTERVAL, self_pid(), "ask")
            case "ask":
                self._ask()

    def _ask(self) -> None:
        monitor(AUTOHEAL)
        cast(AUTOHEAL, Subscribe(self_pid()))


def ahead(answers: list[tuple[float, float, float]]) -> float:
    """Return by how much the clock read before and after is ahead of the one that answered.

    Of (before, answer, after), the one with the shortest way; 0 if the answer lies between the two readings,
    as it may with clocks that agree.
    """
    before, answer, after = min(answers, key=lambda item: item[2] - item[0])
    return 0.0 if before <= answer <= after else (before + after) / 2 - answer


class ClockOffsets(GenServer):
    """Tells ``found`` microseconds, every ten seconds. ``nodes`` names the others."""

    async def init(
        self, *, clock: Clock, nodes: Callable[[], list[str]], found: Callable[[int], None]
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._found = found
        send_after(FIRST, self_pid(), "measure")

    async def handle_info(self, message: object) -> None:
        if message == "measure":
            await self._measure()
            send_after(MEASURE_INTERVAL, self_pid(), "measure")

    async def _measure(self) -> None:
        offsets = [0.0]
        for node in self._nodes():
            answers = []
            for _ in range(ASKS):
                before = self._clock.wall()
                answer = await remote.call(node, CLOCK, timeout=ANSWER_TIMEOUT)
                if isinstance(answer, remote.Returned) and isinstance(answer.value, float):
                    answers.append((before, answer.value, self._clock.wall()))
            if answers:
                offsets.append(ahead(answers))
        self._found(round(median(offsets) * 1_000_000))
