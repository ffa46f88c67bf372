"""The load generator counts what it is there to count: proved on a broker that is faulty by number."""

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import load  # noqa: E402

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


class Faulty(asyncio.Protocol):
    """One topic for all; ``fault(n)`` says how many copies of the n-th message go out, or ``hold``."""

    def __init__(self, world):
        self.world = world
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while len(self.buffer) >= 2:
            length, at = self.buffer[1], 2
            if length > 127:
                if len(self.buffer) < 3:
                    return
                length, at = length & 127 | self.buffer[2] << 7, 3
            if len(self.buffer) < at + length:
                return
            packet, body = self.buffer[: at + length], self.buffer[at : at + length]
            self.buffer = self.buffer[at + length :]
            self.take(packet, body)

    def take(self, packet, body):
        world = self.world
        match packet[0] >> 4:
            case 1:
                self.transport.write(b"\x20\x02\x00\x00")
            case 8:
                world["subscribers"].append(self)
                self.transport.write(b"\x90\x03" + body[:2] + b"\x00")
            case 3:
                world["seen"] += 1
                copies = world["fault"](world["seen"])
                held, world["held"] = world["held"], None
                if copies == "hold":
                    world["held"] = packet
                    copies = 0
                for subscriber in world["subscribers"]:
                    subscriber.transport.write(packet * copies + (held or b""))


async def run(fault, **options):
    """A load against the faulty broker; the generator's answer."""
    program = await asyncio.to_thread(load.build)
    world = {"subscribers": [], "seen": 0, "held": None, "fault": fault}
    server = await asyncio.get_running_loop().create_server(lambda: Faulty(world), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = {
        "pub_ports": port,
        "sub_ports": port,
        "pubs": 1,
        "subs": 1,
        "count": 1000,
        "drain": 0.3,
    } | options
    process = await asyncio.create_subprocess_exec(
        str(program), *(f"{key}={value}" for key, value in options.items()), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    server.close()
    return json.loads(said)


def faults(outcome):
    return [outcome[key] for key in ("sent", "lost", "duplicated", "reordered", "foreign")]


async def test_a_sound_broker_has_no_faults():
    assert faults(await run(lambda number: 1)) == [1000, 0, 0, 0, 0]


async def test_losses_are_counted():
    assert faults(await run(lambda number: 0 if number % 10 == 0 else 1)) == [1000, 100, 0, 0, 0]


async def test_duplicates_are_counted():
    assert faults(await run(lambda number: 2 if number % 8 == 0 else 1)) == [1000, 0, 125, 0, 0]


async def test_reordered_messages_are_counted():
    assert faults(await run(lambda number: "hold" if number % 20 == 0 else 1, count=999)) == [
        999,
        0,
        0,
        49,
        0,
    ]


async def test_a_closed_loop_goes_on_after_losses():
    outcome = await run(lambda number: 0 if number == 100 else 1, lag=1, count=200)
    assert faults(outcome) == [200, 1, 0, 0, 0]
    assert outcome["stalls"] == 1


async def test_a_bad_option_is_named():
    program = await asyncio.to_thread(load.build)
    process = await asyncio.create_subprocess_exec(
        str(program), "pattern=star", "pub_ports=1", "sub_ports=1", stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"pattern= takes pair, fanout, fanin or wildcard" in said
