"""A client of a drill: stays connected, and reports what becomes of its connection and of its messages.

It reconnects by itself when its connection ends, which it reports first: a drill counts that.

Rules: 1. ``publish`` sends at once or not at all, so that a message waits for nothing but the broker.  2. A
message that was not acknowledged before its connection ended is not sent again: nobody owes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from gossamer.mqtt import MqttProtocolError
from gossamer.mqtt.client import ClientLostError, MqttClient, RefusedError
from gossamer.network import Address, Network

__all__ = ["Observer", "TrafficClient"]

KEEP_ALIVE = 30
SESSION_EXPIRY = 3600
"""Seconds that a persistent session outlives its connection."""
_TIMEOUT = 10.0
"""Seconds for CONNACK, and for SUBACK."""
_CLOSE_TIMEOUT = 1.0
_RETRY_INTERVAL = 0.5


class Observer(Protocol):
    """Gets what happens to a client."""

    def acknowledged(self, client: TrafficClient, token: object) -> None:
        """The broker has taken the message that was published with ``token``."""

    def delivered(self, client: TrafficClient, payload: bytes) -> None:
        """A message arrived."""

    def dropped(self, client: TrafficClient, reason: str) -> None:
        """The connection ended, and not by :meth:`TrafficClient.close`."""

    def back(self, client: TrafficClient, *, present: bool) -> None:
        """It is connected again; ``present``: the broker still had the session."""


class TrafficClient:
    """One client at one node. ``filters`` are subscribed to at every new session, with their QoS."""

    def __init__(
        self,
        client_id: str,
        *,
        network: Network,
        address: Address,
        node: str,
        observer: Observer,
        filters: Sequence[tuple[str, int]] = (),
        persistent: bool = False,
    ) -> None:
        self.client_id = client_id
        self.node = node
        self.address = address
        self.filters = tuple(filters)
        self._network = network
        self._observer = observer
        self._persistent = persistent
        self._connection: MqttClient | None = None
        self._half_received: set[int] = set()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.connected

    async def start(self) -> None:
        """Connect and subscribe; from then on stay connected.

        Raises:
            OSError, TimeoutError, RefusedError, ClientLostError: the first attempt failed.
        """
        connection = await self._connect(fresh=True)
        self._keeper = asyncio.create_task(self._keep(connection), name=f"client {self.client_id}")

    async def close(self) -> None:
        """Disconnect, and stay so."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._connection is not None:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._connection.disconnect()
            except TimeoutError:
                # A node that stands still takes no DISCONNECT.
                self._connection.drop()

    def retain(self, topic: bytes, payload: bytes) -> bool:
        """Send one retained message of QoS 0; False when it cannot be sent now."""
        return self._connection is not None and self._connection.post(topic, payload, retain=True)

    def publish(self, topic: bytes, payload: bytes, qos: int, token: object) -> bool:
        """Send one message; False when it cannot be sent now."""
        return self._connection is not None and self._connection.post(topic, payload, qos=qos, token=token)

    def resume(self, client: MqttClient, *, present: bool) -> None:
        """CONNACK came."""
        if not present:
            self._half_received.clear()
        client.adopt(
            self._half_received,
            lambda message: self._observer.delivered(self, message.payload),
            lambda token: self._observer.acknowledged(self, token),
        )

    async def _connect(self, *, fresh: bool) -> MqttClient:
        connection = await MqttClient.connect(
            self._network,
            self.address,
            self.client_id,
            clean_start=fresh or not self._persistent,
            session_expiry=SESSION_EXPIRY if self._persistent else 0,
            keep_alive=KEEP_ALIVE,
            timeout=_TIMEOUT,
            session=self,
        )
        try:
            if not connection.session_present:
                for topic_filter, qos in self.filters:
                    await connection.subscribe(topic_filter, qos=qos, timeout=_TIMEOUT)
        except BaseException:
            connection.drop()
            raise
        self._connection = connection
        return connection

    async def _keep(self, connection: MqttClient) -> None:
        while True:
            error = await asyncio.shield(connection.lost)
            self._connection = None
            said = f"DISCONNECT 0x{connection.left:02x}" if connection.left is not None else ""
            self._observer.dropped(self, said or str(error or "closed by the broker"))
            connection = await self._reconnect()
            self._observer.back(self, present=connection.session_present)

    async def _reconnect(self) -> MqttClient:
        while True:
            await asyncio.sleep(_RETRY_INTERVAL)
            try:
                return await self._connect(fresh=False)
            except (OSError, TimeoutError, RefusedError, ClientLostError, MqttProtocolError):
                continue
