"""Numbers that nobody keeps: they are counted when somebody asks, a slice of the sessions in a turn.

Kept where things happen, each would cost the publish path something for every message; asked every fifteen
seconds, a walk over 10,000 sessions costs milliseconds, and no turn of the loop more than one.
"""

from __future__ import annotations

import asyncio

import msgspec

from gossamer.node.parts import NodeParts
from gossamer.supervisor import Port, Runtime

SLICE = 1_000
"""Sessions or processes that are looked at in one turn."""


class Census(msgspec.Struct, frozen=True):
    """What a walk over sessions and processes found."""

    offline: int = 0
    """Sessions without a connection."""
    subscriptions: int = 0
    inflight: int = 0
    """Messages of QoS 1 and 2 that subscribers have not acknowledged."""
    queued: int = 0
    """Messages that wait in sessions' queues."""
    longest_mailbox: int = 0


async def take_census(node: NodeParts) -> Census:
    """Walk; what comes and goes meanwhile may be counted or not."""
    offline = subscriptions = inflight = queued = 0
    sessions = list(node.broker.sessions.values())
    for start in range(0, len(sessions), SLICE):
        for session in sessions[start : start + SLICE]:
            offline += session.channel is None
            subscriptions += len(session.subscriptions)
            inflight += len(session.inflight)
            queued += len(session.queue)
        await asyncio.sleep(0)
    return Census(offline, subscriptions, inflight, queued, await _longest_mailbox(node.runtime))


async def _longest_mailbox(runtime: Runtime) -> int:
    longest = 0
    entries = list(runtime.table.values())
    for start in range(0, len(entries), SLICE):
        for entry in entries[start : start + SLICE]:
            # Connections have none, and are most.
            if isinstance(entry, Port):
                continue
            mailbox = getattr(entry, "mailbox", None)
            if mailbox and len(mailbox) > longest:
                longest = len(mailbox)
        await asyncio.sleep(0)
    return longest
