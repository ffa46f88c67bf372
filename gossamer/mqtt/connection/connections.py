"""The connections of a node: who serves them, how many there are, where it listens; and how it is emptied."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import structlog

from gossamer.certificates import Certificates
from gossamer.config import MqttConfig
from gossamer.distribution import rpc as remote
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.admission import Admission
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.consuming import Consuming
from gossamer.mqtt.connection.handlers import Handlers
from gossamer.mqtt.connection.limits import Shedding
from gossamer.mqtt.connection.publish_reader import take
from gossamer.mqtt.connection.rechecking import check_connected
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.connection.subscribing import Subscribing
from gossamer.mqtt.publish.retained import Retained
from gossamer.mqtt.session.session import Session
from gossamer.routes import TopicLimits

log = structlog.get_logger(__name__)

STEP = 100
"""Clients sent away, and sessions fetched, at a time."""
STEP_INTERVAL = 0.1
DRAIN_TIMEOUT = 10.0
POLL_INTERVAL = 0.2
FETCH_TIMEOUT = 30.0


class Connections:
    """Server of the channels of a node (``channel.Service``); it outlives its listeners."""

    def __init__(self, shared: Shared, retained: Retained, *, config: MqttConfig, rng: random.Random) -> None:
        limits = config.limits
        self.shared = shared
        self.channels: set[Channel] = set()
        self.ports: dict[str, int] = {}
        self.certificates: list[Certificates] = []
        self.refused: Counter[tuple[str, str]] = Counter()
        """Connections that were not let in, by listener and reason."""
        self.shedding = Shedding(limits.max_lag)
        self.admission = Admission(
            shared,
            self.shedding,
            rng=rng,
            topics=TopicLimits(max_bytes=limits.max_topic_bytes, max_levels=limits.max_topic_levels),
            response_information=config.response_information,
        )
        consuming = None if shared.queues is None else Consuming(shared.queues)
        self.subscribing = Subscribing(
            shared, retained, unconfirmed=config.unconfirmed_subscriptions, consuming=consuming
        )
        enhanced = self.admission.enhanced
        self.connect = self.admission.connect
        self.answered = enhanced.answered
        self.take = take
        self.handle = Handlers(shared, self.subscribing, enhanced, consuming).handle

    def opened(self, channel: Channel) -> None:
        """A connection was accepted; it has ``connect_timeout`` to say CONNECT."""
        self.channels.add(channel)
        when = channel.fanout.now() + channel.limits.connect_timeout
        channel.deadline = self.shared.wheel.at(when, partial(self.admission.check, channel))

    def closed(self, channel: Channel, why: str) -> None:
        self.channels.discard(channel)
        if channel.tenant is not None:
            channel.tenant.clients.discard(channel)
        channel.listener.leave(channel)
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        log.debug("client_gone", client_id=channel.client_id, peer=channel.peer, why=why)

    def renew_gates(self) -> None:
        """The ACL has changed: it holds for what clients send from now on, and soon for what they have."""
        gated = [channel for channel in self.channels if channel.gate is not None]
        for channel in gated:
            if channel.gate is not None:
                channel.gate.renew()
        if gated:
            self.shared.runtime.spawn(self._check_connected, gated, label="mqtt_recheck")

    async def _check_connected(self, channels: Sequence[Channel]) -> None:
        for at, channel in enumerate(channels):
            check_connected(channel, self.shared.table, self.shared.access)
            if at % STEP == STEP - 1:
                await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Drained:
    """Numbers of clients and sessions after draining."""

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
    within: float = DRAIN_TIMEOUT,
) -> Drained:
    """Empty a node before it leaves: send its clients elsewhere, and have sessions follow or be fetched.

    ``references`` are what clients are told, ``nodes`` who may fetch sessions. Nobody new comes in, and those
    that are here are told to use another server ([MQTT-4.11.0-1]; those of 3.1.1, who cannot be told, are
    closed and come back to whatever address they have). Those that come to another node take their session
    with them; the others are fetched after ``within`` seconds. A few at a time, so that there is no storm.

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
        await asyncio.sleep(STEP_INTERVAL)
    waited = 0.0
    while nodes and sessions and waited < within and clients:
        await asyncio.sleep(POLL_INTERVAL)
        waited += POLL_INTERVAL
    if nodes:
        await _hand_over(sessions, nodes)
    left = len(sessions)
    log.info("drained", clients=clients, moved=before - left, left=left)
    return Drained(clients, before - left, left)


async def _hand_over(sessions: Mapping[str, Session], nodes: Sequence[str]) -> None:
    waiting = list(sessions)
    targets = cycle(nodes)
    for start in range(0, len(waiting), STEP):
        await asyncio.gather(
            *(
                remote.call(next(targets), "mqtt.fetch", client_id, timeout=FETCH_TIMEOUT)
                for client_id in waiting[start : start + STEP]
                if client_id in sessions
            )
        )
    # The last ones end when the claims of their targets are here.
    for _ in range(int(FETCH_TIMEOUT / POLL_INTERVAL)):
        if not sessions:
            return
        await asyncio.sleep(POLL_INTERVAL)
