"""What happens to the cluster, as one node sees it, on its tape: members, splits, heals.

And, once at its start, what has been going on already: clients that are connected, subscriptions that stand.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import gossamer.audit.schema as schema
from gossamer.audit.tape import KINDS, Tape
from gossamer.audit.trail import Trail
from gossamer.autoheal import AUTOHEAL, Episode, Partition, Subscribe
from gossamer.distribution import Distribution, NodeDown, NodeUp
from gossamer.gossip import MemberSuspect
from gossamer.supervisor import Down, GenServer, cast, monitor, self_pid, send_after

__all__ = ["WATCH", "Watch"]

WATCH = "audit_watch"
"""Subscribed to gossip under this name."""
STEP = 200
"""Sessions told of in one turn of the loop."""
_AGAIN = 1.0


class Watch(GenServer):
    """Process that records membership, splits and heals; ``sessions`` returns those that stand now."""

    async def init(
        self, *, tape: Tape, trail: Trail, distribution: Distribution, sessions: Callable[[], Iterable[Any]]
    ) -> None:
        self._tape = tape
        for number, session in enumerate(list(sessions()), 1):
            trail.standing(session)
            if not number % STEP:
                await asyncio.sleep(0)
        distribution.subscribe(self_pid())
        self._ask()

    async def handle_info(self, message: Any) -> None:
        match message:
            case NodeUp(name, creation):
                self._tape.note(KINDS[schema.NODE_UP], name, json.dumps({"creation": creation}))
            case NodeDown(name, _, reason):
                self._tape.note(KINDS[schema.NODE_DOWN], name, reason)
            case MemberSuspect(member):
                self._tape.note(KINDS[schema.NODE_SUSPECT], member.name)
            case Partition(peer, context):
                self._tape.note(
                    KINDS[schema.PARTITION],
                    *(peer, context, json.dumps({"down_at": message.down_at, "met_at": message.met_at})),
                )
            case Episode():
                detail = {
                    "plan": message.plan,
                    "coordinator": message.coordinator,
                    "survivors": message.survivors,
                    "reloaded": message.reloaded,
                    "skipped": message.skipped,
                    "split_at": message.split_at,
                    "healed_at": message.healed_at,
                }
                self._tape.note(KINDS[schema.HEALED], json.dumps(detail))
            case Down():
                send_after(_AGAIN, self_pid(), "ask")
            case "ask":
                self._ask()

    def _ask(self) -> None:
        monitor(AUTOHEAL)
        cast(AUTOHEAL, Subscribe(self_pid()))
