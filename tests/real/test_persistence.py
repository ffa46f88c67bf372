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
from paho.mqtt.client import MQTTMessage

from real.clients import Mqtt
from real.harness import Node, run
from real.history.client import Client
from real.history.history import History

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

    By the client of the checker, since popular ones forget the PUBREL they sent when a second attempt to
    reconnect fails.
    """

    def __init__(self, port: int, qos: int) -> None:
        self.qos = qos
        self.sent = 0
        self.over = False
        self.history = History()
        self.client = Client(self.history, {1: ("127.0.0.1", port)}, f"speaker{qos}", version=4)
        self.task = asyncio.create_task(self.run())

    @property
    def acknowledged(self) -> int:
        return self.sent - len(self.client.pending)

    async def run(self) -> None:
        while True:
            if self.client.connected or await self.client.connect(1):
                while not self.over and len(self.client.pending) < 10:
                    self.client.publish(f"t/{self.qos}", self.qos)
                    self.sent += 1
                await asyncio.sleep(0.001)
            else:
                await asyncio.sleep(0.2)


def number_in(message: MQTTMessage) -> int:
    """The checker's client numbers what it publishes from 1 on."""
    return int(message.payload.decode().rpartition(":")[2]) - 1


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
        port,
        "listener",
        "t/#",
        qos=2,
        clean=False,
        take=lambda m: got[m.topic].append(number_in(m)),
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
    for speaker in speakers:
        begun = [e.present for e in speaker.history.events if e.kind == "connected"]
        assert begun == [False, *[True] * KILLS], f"seed {seed}"
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
        waiting = {int(name.rpartition(":")[2]) - 1 for name in speaker.client.pending}
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
        listener = Mqtt(port, "listener", clean=False, take=lambda m: got.append(number_in(m)))
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
