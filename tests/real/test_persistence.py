"""``kill -9`` at random points: what was acknowledged is there after the restart, QoS 2 exactly once."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from gossamer.mqtt import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from real.clients import Mqtt
from real.harness import Node, run

KILLS = 2


def start(directory: Path, port: int, *, api: bool = False) -> tuple[Node, int]:
    node = Node(
        directory,
        node={"cookie": "c" * 20},
        cluster={"discovery": {"strategy": "manual"}},
        mqtt={
            "server": {"listeners": [{"port": port}]},
            "auth": {"allow_anonymous": True},
            "limits": {"max_queued": 1_000_000},
        },
        api={"enable": api, "port": 0},
        log={"level": "warning"},
    )
    return node, node.ports["mqtt"]


class Speaker:
    """Publishes numbers, a few ahead of their acknowledgements; comes back to its port for ever.

    Written out, since popular clients forget the PUBREL they sent when a second attempt to reconnect fails.
    """

    def __init__(self, port: int, qos: int) -> None:
        self.port = port
        self.qos = qos
        self.sent = 0
        self.acknowledged = 0
        self.over = False
        self.unsettled: dict[int, p.Publish | p.Pubrel] = {}
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            try:
                writer.write(encode(p.Connect(client_id=f"speaker{self.qos}", clean_start=False), p.V4))
                await self.flow(reader, writer)
            except OSError:
                pass
            finally:
                writer.transport.abort()

    async def flow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framer = Framer()
        while data := await reader.read(65536):
            for first, body in framer.feed(data):
                self.take(decode(first, body, p.V4), writer)
            while not self.over and len(self.unsettled) < 10:
                packet_id = self.sent % 65535 + 1
                packet = p.Publish(
                    topic=b"t/%d" % self.qos, payload=b"%d" % self.sent, qos=self.qos, packet_id=packet_id
                )
                self.unsettled[packet_id] = packet
                self.sent += 1
                writer.write(encode(packet, p.V4))

    def take(self, packet: p.Packet, writer: asyncio.StreamWriter) -> None:
        match packet:
            case p.Connack():
                assert packet.session_present or not self.sent
                for again in self.unsettled.values():
                    one = structs.replace(again, dup=True) if isinstance(again, p.Publish) else again
                    writer.write(encode(one, p.V4))
            case p.Pubrec():
                self.unsettled[packet.packet_id] = p.Pubrel(packet.packet_id)
                writer.write(encode(p.Pubrel(packet.packet_id), p.V4))
            case p.Puback() | p.Pubcomp():
                del self.unsettled[packet.packet_id]
                self.acknowledged += 1


async def until(what: Callable[[], bool], says: str) -> None:
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110 - it is another process that changes
            await asyncio.sleep(0.02)


@pytest.mark.timeout(200)
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    seed = int(time.time())
    rng = random.Random(seed)
    program, port = await asyncio.to_thread(start, tmp_path, 0)
    got: dict[str, list[int]] = {"t/1": [], "t/2": []}
    listener = Mqtt(
        port, "listener", "t/#", qos=2, clean=False, take=lambda m: got[m.topic].append(int(m.payload))
    )
    speakers = []
    try:
        speakers = [Speaker(port, 1), Speaker(port, 2)]
        for _ in range(KILLS):
            before = [s.acknowledged for s in speakers]
            await until(
                lambda b=before: all(s.acknowledged > n + 20 for s, n in zip(speakers, b, strict=True)),
                "both flow",
            )
            # The point at which it dies is what is random here.
            await asyncio.sleep(rng.uniform(0, 0.3))
            await asyncio.to_thread(program.end, signal.SIGKILL)
            program, _ = await asyncio.to_thread(start, tmp_path, port)
        for speaker in speakers:
            speaker.over = True
        await until(lambda: all(s.acknowledged == s.sent for s in speakers), "everything is acknowledged")
        await until(
            lambda: all(len(set(got[f"t/{s.qos}"])) == s.sent for s in speakers), "everything arrives"
        )
    finally:
        for speaker in speakers:
            speaker.task.cancel()
        await asyncio.gather(*(speaker.task for speaker in speakers), return_exceptions=True)
        listener.end()
        await asyncio.to_thread(program.end)
    first, second = speakers
    assert set(got["t/1"]) == set(range(first.sent)), f"seed {seed}"
    assert [n for n, count in Counter(got["t/2"]).items() if count > 1] == [], f"seed {seed}"
    assert got["t/2"] == list(range(second.sent)), f"seed {seed}"


@pytest.mark.timeout(200)
async def test_a_session_goes_on_from_a_backup_taken_under_load(tmp_path: Path) -> None:
    program, port = await asyncio.to_thread(start, tmp_path / "old", 0, api=True)
    got: list[int] = []
    speaker = None
    listener = Mqtt(port, "listener", "t/#", clean=False)
    try:
        listener.end()
        before, present = len(listener.got), listener.present
        speaker = Speaker(port, 1)
        await until(lambda: speaker.acknowledged > 300, "messages are queued")
        waiting = {int(packet.payload) for packet in speaker.unsettled.values()}
        promised = set(range(speaker.sent)) - waiting
        done = await asyncio.to_thread(run, "backup", "--api", program.api, "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        after = speaker.acknowledged
        await until(lambda: speaker.acknowledged > after + 20, "the load goes on")
        await asyncio.to_thread(program.end, signal.SIGKILL)
        backup = Path(made["path"])
        assert backup.parent == tmp_path / "old" / "data" / "backups"
        data = tmp_path / "new" / "data"
        data.mkdir(parents=True)
        shutil.copy(backup, data / "tables.db")
        speaker.task.cancel()
        program, port = await asyncio.to_thread(start, tmp_path / "new", 0)
        listener = Mqtt(port, "listener", clean=False, take=lambda m: got.append(int(m.payload)))
        await until(lambda: promised <= set(got), "all that was acknowledged before arrives")
    finally:
        if speaker is not None:
            speaker.task.cancel()
            await asyncio.gather(speaker.task, return_exceptions=True)
        listener.end()
        await asyncio.to_thread(program.end)
    assert present + listener.present == [False, True]
    assert (before, len(promised) > 300) == (0, True)
    assert got == sorted(set(got))
