"""Emptying a node before it leaves: clients are sent elsewhere, and sessions follow or are fetched.

First nobody new comes in, and those that are here are told to use another server ([MQTT-4.11.0-1]; those of
3.1.1, who cannot be told, are closed and come back to whatever address they have). Those that come to another
node take their session with them. What is left after :data:`WITHIN` seconds belongs to clients that are not
connected, or stay away: the other nodes are asked to fetch it, in turn.

Rule: a few at a time, so that the rest of the cluster meets no storm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode

if TYPE_CHECKING:
    from gossamer.mqtt.connection.connections import Connections
    from gossamer.mqtt.session.session import Session

__all__ = ["Drained", "drain"]

log = structlog.get_logger(__name__)

STEP = 100
"""Clients sent away, and sessions fetched, at a time."""
PAUSE = 0.1
WITHIN = 10.0
LOOK = 0.2
FETCH_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of clients and sessions."""

    clients: int
    """Clients that were sent elsewhere."""
    moved: int
    """Sessions that are on other nodes now."""
    left: int
    """Sessions that no other node took."""


async def drain(
    connections: Connections,
    sessions: Mapping[str, Session],
    *,
    references: Sequence[str],
    nodes: Sequence[str],
    within: float = WITHIN,
) -> Drained:
    """Empty a node. ``references`` are what clients are told, ``nodes`` who may fetch sessions.

    To be called in a process. Nobody is let in until the ``references`` of admission are None again.
    """
    sent_to = connections.admission.references = cycle(references or ("",))
    before = sum(1 for session in sessions.values() if session.expiry)
    clients = 0
    while channels := [channel for channel in connections.channels if channel.is_up][:STEP]:
        for channel in channels:
            reference = next(sent_to)
            channel.disconnect(
                ReasonCode.USE_ANOTHER_SERVER,
                properties=Properties(server_reference=reference) if reference else NONE,
            )
        clients += len(channels)
        await asyncio.sleep(PAUSE)
    waited = 0.0
    while nodes and sessions and waited < within and clients:
        await asyncio.sleep(LOOK)
        waited += LOOK
    if nodes:
        await _hand_over(sessions, nodes)
    left = len(sessions)
    log.info("drained", clients=clients, moved=before - left, left=left)
    return Drained(clients, before - left, left)


async def _hand_over(sessions: Mapping[str, Session], nodes: Sequence[str]) -> None:
    waiting = list(sessions)
    takers = cycle(nodes)
    for start in range(0, len(waiting), STEP):
        await asyncio.gather(
            *(
                remote.call(next(takers), "mqtt.fetch", client_id, timeout=FETCH_WITHIN)
                for client_id in waiting[start : start + STEP]
                if client_id in sessions
            )
        )
    # The last ones end when the claims of their takers are here.
    for _ in range(int(FETCH_WITHIN / LOOK)):
        if not sessions:
            return
        await asyncio.sleep(LOOK)
