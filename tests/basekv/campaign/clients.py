"""Clients of ranges: each does one operation after the other by way of a node, and notes what it saw."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol

from gossamer.basekv import Expect, Put, kind_of
from gossamer.basekv.ranges import RoutingTable
from gossamer.basekv.sending import send_batch
from gossamer.basekv.values import (
    Busy,
    Done,
    Get,
    Moved,
    RangeInfo,
    Result,
    Value,
    Write,
    batch_of,
    decode_answer,
    encode,
)
from gossamer.errors import GossamerError
from gossamer.testing.network import SimNetwork
from gossamer.testing.raft.linearizability import Op, Operation

KEYS = [bytes([first, second]) for first in (8, 24, 56, 64, 150, 200) for second in (1, 2)]
OPS: tuple[Op, ...] = ("get", "get", "get", "put", "put", "cas")
STALENESS = (0.0, 0.0, 0.3, 1.0)
PATIENCE = 4.0


class Cluster(Protocol):
    """What clients know of the nodes, by whose names they ask; ``failed`` are values of writes that were
    refused."""

    sim: SimNetwork
    names: list[str]
    history: list[Operation]
    failed: set[str]

    def known(self, home: str) -> list[RangeInfo]:
        """Return the ranges as a node knows them."""

    def read_here(self, home: str, number: int, question: bytes, max_staleness: float) -> object:
        """Have a node's own replica of a range answer; None: its state may be older."""

    async def ask(self, home: str, kind: str, data: bytes, *, timeout: float, read: bool = False) -> bytes:
        """Have the group of a kind answer by way of a node. Raises NotReadyError."""


class RangeClient:
    """One client, with what it knows of ranges. It writes as one writer to each range, and has one batch on
    its way. A write whose outcome is not known may be done yet; the next is another's."""

    def __init__(self, world: Cluster, number: int) -> None:
        self.world = world
        self.number = number
        self.rng = world.sim.rng(f"client {number}")
        self.routing = RoutingTable()
        self.finishing = False
        self._values = 0
        self._identity = number * 10_000
        self._batches: dict[int, int] = {}

    async def run(self) -> None:
        """Do operations until it is told to finish."""
        while not self.finishing:
            await asyncio.sleep(self.rng.uniform(0, 0.15))
            await self.operate(self.rng.choice(OPS), self.rng.choice(KEYS))

    async def operate(self, op: Op, key: bytes) -> bool:
        """Do one operation; False if its outcome is not known."""
        loop = self.world.sim.loop
        called, home = loop.time(), self.rng.choice(self.world.names)
        if self.rng.random() < 0.3:
            self.routing.learn(self.world.known(home))
        self._values += 1
        value, expected, outcome = f"<{self.number}.{self._values}>", "", None
        try:
            async with asyncio.timeout(2 * PATIENCE):
                if op == "get":
                    staleness = self.rng.choice(STALENESS)
                    found = self._read_here(home, key, staleness) if staleness else None
                    called -= staleness if found is not None else 0.0
                    outcome = found if found is not None else await self._read(home, key)
                else:
                    if op == "cas":
                        expected = await self._read(home, key)
                        called = loop.time()
                    if not await self._write(home, key, value, expected if op == "cas" else None):
                        self.world.failed.add(value)
                        return True
                    outcome = value
        except (GossamerError, TimeoutError):
            self._identity, self._batches = self._identity + 1, {}
        if op == "get" and outcome is None:
            return False
        returned = inf if outcome is None else loop.time()
        given = "" if op == "get" else value
        self.world.history.append(
            Operation(self._identity, op, key.hex(), given, expected, outcome, called, returned)
        )
        return outcome is not None

    def _read_here(self, home: str, key: bytes, staleness: float) -> str | None:
        info = self.routing.find(key)
        data = self.world.read_here(home, info.number, encode(Get(info.version, key)), staleness)
        answer = decode_answer(data) if isinstance(data, bytes) else None
        return (answer.value or b"").decode() if isinstance(answer, Value) else None

    async def _read(self, home: str, key: bytes) -> str:
        while True:
            info = self.routing.find(key)
            try:
                data = await self.world.ask(
                    home,
                    kind_of(info.number),
                    encode(Get(info.version, key)),
                    timeout=1.0,
                    read=True,
                )
            except GossamerError:
                self.routing.learn(self.world.known(home))
                continue
            match decode_answer(data):
                case Value(value):
                    return (value or b"").decode()
                case Moved(now, others):
                    self.routing.learn([now, *others])
            await asyncio.sleep(0.02)

    async def _write(self, home: str, key: bytes, value: str, expected: str | None) -> bool:
        async def request(kind: str, data: bytes, *, timeout: float) -> bytes:
            return await self.world.ask(home, kind, data, timeout=timeout)

        async def whereabouts() -> int:
            self.routing.learn(self.world.known(home))
            return self.routing.find(key).number

        condition = [] if expected is None else [Expect(key, expected.encode() or None)]
        write = Write([Put(key, value.encode())], condition)
        while True:
            info = self.routing.find(key)
            number = self._batches[info.number] = self._batches.get(info.number, 0) + 1
            writer = self._identity.to_bytes(8) + info.number.to_bytes(8)
            batch = encode(batch_of(info.version, writer, number, [write]))
            answer = await send_batch(info.number, batch, whereabouts, request=request, patience=PATIENCE)
            match answer:
                case Done([result], False):
                    return result is Result.DONE
                case Moved(now, others):
                    self.routing.learn([now, *others])
                case Busy():
                    pass
                case _:
                    raise AssertionError(f"a write was answered with {answer}")
            await asyncio.sleep(0.02)
