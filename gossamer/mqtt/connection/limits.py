"""Limits of one listener: how many connections, how many at once, how fast.

Besides, what a node does whose loop is late: it lets nobody else in (:class:`Shedding`).

All listeners of a node share its file descriptors (:class:`Room`): clients must not take those that links,
disc and HTTP need, or nothing works any more.

Rules: 1. Pure: callers pass ``now``.  2. Whoever was counted in is counted out once.  3. The counts outlive
the process that listens, since connections do.
"""

from __future__ import annotations

from gossamer.config import ListenerConfig, MqttConfig
from gossamer.mqtt.flow.bucket import Bucket

__all__ = ["ConnectionLimits", "ListenerLimits", "Room", "Shedding"]

NOT_FOR_CLIENTS = 512
"""File descriptors that the node keeps for itself, or half of all where there are few."""


class ConnectionLimits:
    """What every connection of a node may do.

    Read from the configuration once: a channel looks here for every packet, and a pydantic model is slow to
    read.
    """

    def __init__(self, config: MqttConfig) -> None:
        limits = config.limits
        self.max_packet = limits.max_packet_size
        # Nobody has been let in yet, so nobody gets to fill much memory.
        self.max_connect_packet = min(limits.max_packet_size, 256 * 1024)
        self.receive_maximum = limits.max_inflight
        self.max_write_buffer = limits.max_write_buffer
        self.high_water = min(limits.max_write_buffer, 256 * 1024)
        self.topic_alias_maximum = limits.topic_alias_maximum
        self.connect_timeout = limits.connect_timeout
        self.max_keep_alive = int(limits.max_keepalive)
        self.max_subscriptions = limits.max_subscriptions
        self.max_expiry = int(limits.max_session_expiry)
        self.validate_payloads = config.validate_payloads
        self.capabilities = config.capabilities


class Shedding:
    """Whether new clients are sent away because those that are here already have to wait.

    On when the loop was ``limit`` seconds late, off when it is less than half as late; None: never.
    """

    __slots__ = ("_limit", "on")

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self.on = False

    def late(self, seconds: float) -> bool:
        """The loop ran so late; whether that changed anything."""
        if self._limit is None:
            return False
        before = self.on
        self.on = seconds > (self._limit / 2 if before else self._limit)
        return self.on != before


class Room:
    """How many connections the file descriptors of the process are enough for."""

    __slots__ = ("limit", "taken")

    def __init__(self, descriptors: int | None = None) -> None:
        self.limit = None if descriptors is None else max(descriptors // 2, descriptors - NOT_FOR_CLIENTS)
        self.taken = 0

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.taken >= self.limit


class ListenerLimits:
    """Who may still come in at one listener."""

    __slots__ = ("_config", "_connects", "_room", "connections", "pending")

    def __init__(self, config: ListenerConfig, room: Room | None = None) -> None:
        self._config = config
        self._room = room or Room()
        self._connects = Bucket(config.max_connect_rate) if config.max_connect_rate else None
        self.connections = 0
        """Open now, those that are pending too."""
        self.pending = 0
        """Not let in yet."""

    def enter(self, now: float) -> str | None:
        """Count a new connection in; what speaks against it, if anything does."""
        if self.connections >= self._config.max_connections:
            return "connections"
        if self._room.is_full:
            return "descriptors"
        if self.pending >= self._config.max_pending:
            return "pending"
        if self._connects is not None and not self._connects.admit(now):
            return "connect_rate"
        self.connections += 1
        self.pending += 1
        self._room.taken += 1
        return None

    def admitted(self) -> None:
        """One that was pending is let in."""
        self.pending -= 1

    def leave(self, *, admitted: bool) -> None:
        """One is gone."""
        self.connections -= 1
        self._room.taken -= 1
        if not admitted:
            self.pending -= 1
