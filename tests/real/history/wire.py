"""One connection of a client: bytes in, packets to its owner; and the ways in which it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .packets import Reader

if TYPE_CHECKING:
    from .client import Client


class Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, client: Client, number: int, node: int) -> None:
        self.client = client
        self.number = number
        self.node = node
        self.reader = Reader()
        self.transport: asyncio.Transport | None = None
        self.connack: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()
        self.silent = False
        """Nothing is written any more: the client is about to fall."""
        self.ended = False
        """By ourselves; what comes after that is seen by nobody."""
        self.code = 0
        self.let_in = False
        self.leaving = False
        """DISCONNECT was written."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for packet in self.reader.feed(data):
            if self.ended:
                return
            falls = self.client.falls_on(packet.kind)
            self.silent = self.silent or falls
            self.client.take(self, packet)
            if falls:
                self.client.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()
        self.client.gone(self)

    def write(self, data: bytes) -> None:
        if self.transport is not None and not (self.ended or self.silent or self.transport.is_closing()):
            self.transport.write(data)

    def end(self) -> None:
        self.ended = True
        if self.transport is not None:
            self.transport.abort()
