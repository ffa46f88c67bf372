"""Client of a drill: stays connected, and reports events of its connection and messages.

It reports the end of its connection, which a drill counts, and then reconnects by itself, at another node if
it was told to. The drill may have it leave, and come back elsewhere.

Rules: 1. ``publish`` sends at once or not at all, so that a message waits only for the broker.  2. A message
that was not acknowledged before its connection ended is not resent: it is not owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gossamer.launch import NodePlan
from gossamer.mqtt import MqttProtocolError
from gossamer.mqtt.client import ClientLostError, MqttClient, RefusedError
from gossamer.network import Network

KEEP_ALIVE = 30
SESSION_EXPIRY = 3600
"""Seconds for which a persistent session outlives its connection."""
_TIMEOUT = 10.0
"""Timeout in seconds for CONNACK, and for SUBACK."""
_CLOSE_TIMEOUT = 1.0
_RETRY_INTERVAL = 0.5


class TrafficClient:
    """Client at a node. ``filters`` are subscribed to at every new session, with their QoS.

    ``delivered`` gets the payload of each arriving message, ``acknowledged`` the token of each that the
    broker acknowledged. ``changed`` gets the reason when the connection ends other than by :meth:`close`, and
    an empty one when it is back.
    """

    def __init__(
        self,
        client_id: str,
        *,
        network: Network,
        node: NodePlan,
        filters: Sequence[tuple[str, int]] = (),
        persistent: bool = False,
        delivered: Callable[[bytes], None],
        acknowledged: Callable[[object], None],
        changed: Callable[[TrafficClient, str], None],
    ) -> None:
        self.client_id = client_id
        self.home = node
        """The node at which it begins."""
        self.node = node
        """The node at which it is."""
        self.elsewhere: NodePlan | None = None
        """The node to which it goes when its connection has ended."""
        self.persistent = persistent
        self.present = False
        """Whether its last connection found its session."""
        self.filters = tuple(filters)
        self._network = network
        self._delivered = delivered
        self._acknowledged = acknowledged
        self._changed = changed
        self._connection: MqttClient | None = None
        self._half_received: set[int] = set()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.connected

    async def start(self) -> None:
        """Connect and subscribe, and stay connected from then on.

        Raises:
            OSError, TimeoutError, RefusedError, ClientLostError: the first attempt failed.
        """
        connection = await self._connect(fresh=True)
        self._keeper = asyncio.create_task(self._keep(connection), name=f"client {self.client_id}")

    async def leave(self) -> None:
        """End the connection without DISCONNECT, and stay away until :meth:`come`."""
        await self._stay_away()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
            await connection.lost

    def come(self, node: NodePlan) -> None:
        """Connect to a node after :meth:`leave`, and stay connected from then on."""
        self.node = node
        self._keeper = asyncio.create_task(self._keep(None), name=f"client {self.client_id}")

    async def _stay_away(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})

    async def close(self) -> None:
        """Disconnect, and stay disconnected."""
        await self._stay_away()
        if self._connection is not None:
            try:
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._connection.disconnect()
            except TimeoutError:
                # A paused node reads no DISCONNECT.
                self._connection.drop()

    def publish(
        self, topic: bytes, payload: bytes, *, qos: int = 0, retain: bool = False, token: object = None
    ) -> bool:
        """Send one message; return False if it cannot be sent now."""
        connection = self._connection
        return connection is not None and connection.post(topic, payload, qos=qos, retain=retain, token=token)

    def resume(self, client: MqttClient, *, present: bool) -> None:
        """Handle CONNACK: resume the session if it is ``present``."""
        if not present:
            self._half_received.clear()
        client.adopt(
            self._half_received, lambda message: self._delivered(message.payload), self._acknowledged
        )

    async def _connect(self, *, fresh: bool) -> MqttClient:
        connection = await MqttClient.connect(
            self._network,
            (self.node.host, self.node.ports["mqtt"]),
            self.client_id,
            clean_start=fresh or not self.persistent,
            session_expiry=SESSION_EXPIRY if self.persistent else 0,
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
        self.present = connection.session_present
        return connection

    async def _keep(self, connection: MqttClient | None) -> None:
        while True:
            if connection is not None:
                error = await asyncio.shield(connection.lost)
                self._connection = None
                said = f"DISCONNECT 0x{connection.left:02x}" if connection.left is not None else ""
                self._changed(self, said or str(error or "closed by the broker"))
                self.node = self.elsewhere or self.node
            connection = await self._reconnect()
            self._changed(self, "")

    async def _reconnect(self) -> MqttClient:
        while True:
            await asyncio.sleep(_RETRY_INTERVAL)
            try:
                return await self._connect(fresh=False)
            except (OSError, TimeoutError, RefusedError, ClientLostError, MqttProtocolError):
                continue
