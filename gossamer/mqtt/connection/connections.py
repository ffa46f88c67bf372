"""The connections of a node: who serves them, how many there are, and where it listens."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import structlog

from gossamer.config import MqttConfig
from gossamer.mqtt.connection.admission import Admission
from gossamer.mqtt.connection.certificates import Certificates
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.handlers import Handlers
from gossamer.mqtt.connection.limits import Shedding
from gossamer.mqtt.connection.publish_reader import take
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.connection.subscribing import Subscribing
from gossamer.mqtt.publish.retained import Retained
from gossamer.routes import TopicLimits

__all__ = ["Connections"]

log = structlog.get_logger(__name__)


class Connections:
    """Who serves the channels of a node (``channel.Service``); it outlives its listeners."""

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
        self.subscribing = Subscribing(shared, retained, unconfirmed=config.unconfirmed_subscriptions)
        enhanced = self.admission.enhanced
        self.connect = self.admission.connect
        self.answered = enhanced.answered
        self.take = take
        self.handle = Handlers(shared, self.subscribing, enhanced).handle

    def opened(self, channel: Channel) -> None:
        """A connection was accepted; it has ``connect_timeout`` to say CONNECT."""
        self.channels.add(channel)
        when = channel.hub.now() + channel.limits.connect_timeout
        channel.deadline = self.shared.wheel.at(when, partial(self.admission.check, channel))

    def closed(self, channel: Channel, why: str) -> None:
        self.channels.discard(channel)
        channel.listener.leave(admitted=channel.session is not None)
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        log.debug("client_gone", client_id=channel.client_id, peer=channel.peer, why=why)

    def renew_gates(self) -> None:
        """The ACL has changed."""
        for channel in self.channels:
            if channel.gate is not None:
                channel.gate.renew()
