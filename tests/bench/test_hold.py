"""The generator of what is held counts right, and the table's verdicts say what the figures do."""

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

from gossamer.mqtt import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.routes import matches

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import brokers  # noqa: E402
import load  # noqa: E402
from brokers_rows import ROWS  # noqa: E402

compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class Broker(asyncio.Protocol):
    """All that a load of subscriptions needs; delivers each message ``copies`` times."""

    def __init__(self, world):
        self.world = world
        self.framer = Framer()

    def connection_made(self, transport):
        self.transport = transport
        self.world["open"] += 1
        if self.world["open"] > self.world["room"]:
            transport.abort()

    def connection_lost(self, _error):
        self.world["open"] -= 1

    def data_received(self, data):
        for first, body in self.framer.feed(data):
            packet = decode(first, body, p.V4)
            match packet:
                case p.Connect():
                    self.send(p.Connack())
                case p.Subscribe():
                    self.world["filters"] += [(item.filter, self) for item in packet.subscriptions]
                    self.send(p.Suback(packet_id=packet.packet_id, reasons=(0,) * len(packet.subscriptions)))
                case p.Publish():
                    topic = packet.topic.decode()
                    for wanted, taker in self.world["filters"]:
                        if matches(wanted, topic):
                            for _ in range(self.world["copies"]):
                                taker.send(packet)

    def send(self, packet):
        self.transport.write(encode(packet, p.V4))


async def hold(copies=1, room=1000, **options):
    """A load against that broker; the generator's answer."""
    program = await asyncio.to_thread(load.build, "hold")
    world = {"filters": [], "copies": copies, "open": 0, "room": room}
    server = await asyncio.get_running_loop().create_server(lambda: Broker(world), "127.0.0.1", 0)
    options["port"] = server.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(program), *(f"{key}={value}" for key, value in options.items()), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    server.close()
    return json.loads(said)


@pytest.mark.real
@compiled
async def test_idle_connections_are_counted():
    outcome = await hold(mode="idle", count=30, hold=0.05)
    assert [outcome[key] for key in ("asked", "opened", "most_open", "lost")] == [30, 30, 30, 0]


@pytest.mark.real
@compiled
async def test_connections_that_the_broker_closes_make_room_for_others():
    outcome = await hold(mode="silent", count=60, at_once=10, hold=0.05, room=5, patience=30)
    assert outcome["asked"] == outcome["opened"] + outcome["failed"] == 60


@pytest.mark.real
@compiled
@pytest.mark.parametrize("copies", [1, 2])
async def test_every_topic_matches_one_filter_and_copies_are_counted(copies):
    outcome = await hold(copies, mode="subs", clients=3, filters=60, batch=7, pubs=2, seconds=0.2, hold=0.05)
    assert [outcome[key] for key in ("filters", "refused", "lost", "foreign")] == [180, 0, 0, 0]
    assert outcome["received"] > 0
    assert outcome["duplicated"] >= outcome["received"] - 100 if copies > 1 else not outcome["duplicated"]


def told(name, **figures):
    """The verdicts on a row, by what each broker reached."""
    runs = {(name, peer): [value] for peer, value in figures.items()}
    return [brokers.verdict(name, bar, runs, shared=False) for bar in ROWS[name].bars]


def test_a_verdict_holds_a_rate_against_the_other_broker():
    [good] = told("pair1", gossamer={"per_second": 260.0}, mosquitto={"per_second": 100.0})
    assert good.count(": reached") == 2
    [fair] = told("pair1", gossamer={"per_second": 200.0}, mosquitto={"per_second": 100.0})
    assert "must >= 180 = 1.8 x mosquitto: reached; aim >= 250 = 2.5 x mosquitto: NOT reached" in fair


def test_a_verdict_without_the_other_broker_takes_what_was_published_or_says_that_it_does_not_know():
    runs = {("crosslat0", "gossamer x2"): [{"p50_us": 300.0, "p99_us": 3000.0}]}
    half, most = (brokers.verdict("crosslat0", bar, runs, shared=False) for bar in ROWS["crosslat0"].bars)
    assert "must <= 348 = 1.5 x nats x2, as published: reached" in half
    assert "must <= 2,850 = 1.5 x nats x2, as published: NOT reached" in most
    [unknown] = told("pair1", gossamer={"per_second": 200.0})
    assert unknown == "per second 200; must not known; aim not known"
