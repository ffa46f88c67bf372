"""A broker with all that a load needs, as faulty as a test wants, to prove what the load counts."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.mqtt import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.routes import matches

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import load

compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class World:
    """``copies(n)``: how often the n-th message goes out; -1: behind the next one. ``room``: for so many."""

    def __init__(self, copies: Callable[[int], int], room: int) -> None:
        self.copies = copies
        self.room = room
        self.open = self.seen = 0
        self.held: p.Publish | None = None
        self.filters: list[tuple[str, Broker]] = []

    def publish(self, packet: p.Publish) -> None:
        self.seen += 1
        copies = self.copies(self.seen)
        packets = [packet] * copies + [self.held] * (self.held is not None)
        self.held = packet if copies < 0 else None
        topic = packet.topic.decode()
        for wanted, taker in self.filters:
            if matches(wanted, topic):
                taker.send(*packets)


class Broker(asyncio.Protocol):
    """One connection."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.framer = Framer()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.world.open += 1
        if self.world.open > self.world.room:
            transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self.world.open -= 1

    def data_received(self, data: bytes) -> None:
        for first, body in self.framer.feed(data):
            packet = decode(first, body, p.V4)
            match packet:
                case p.Connect():
                    self.send(p.Connack())
                case p.Subscribe():
                    self.world.filters += [(item.filter, self) for item in packet.subscriptions]
                    self.send(p.Suback(packet_id=packet.packet_id, reasons=(0,) * len(packet.subscriptions)))
                case p.Publish():
                    self.world.publish(packet)

    def send(self, *packets: Any) -> None:
        self.transport.write(b"".join(encode(packet, p.V4) for packet in packets))


async def told(
    *program: str,
    copies: Callable[[int], int] = lambda _: 1,
    room: int = 1000,
    ports: tuple[str, ...] = ("port",),
    **options: Any,
) -> dict[str, Any]:
    """A load against that broker; the generator's answer."""
    built = await asyncio.to_thread(load.build, *program)
    world = World(copies, room)
    server = await asyncio.get_running_loop().create_server(lambda: Broker(world), "127.0.0.1", 0)
    options |= dict.fromkeys(ports, server.sockets[0].getsockname()[1])
    words = (f"{key}={value}" for key, value in options.items())
    process = await asyncio.create_subprocess_exec(str(built), *words, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    server.close()
    return json.loads(said)
