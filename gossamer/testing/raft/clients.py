"""Clients of the simulated group: each does one operation after the other, at any node, and notes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from random import Random
from typing import TypeVar

from gossamer.raft import NotReadyError
from gossamer.testing.raft.linearizability import Op, Operation
from gossamer.testing.raft.machine import Command, encode
from gossamer.testing.raft.node import SimNode

KEYS = ("x", "y")
OPS: tuple[Op, ...] = ("get", "get", "get", "put", "append", "append", "cas")
PATIENCE = (0.3, 1.0)
ATTEMPTS = 4

T = TypeVar("T")


class Client:
    """One client. A request without an answer goes again to another node, under its own number; after a few
    times its outcome stays unknown, and the client goes on as another."""

    def __init__(
        self, number: int, rng: Random, nodes: Callable[[], list[SimNode]], history: list[Operation]
    ) -> None:
        self.identity = number * 10_000
        self.rng = rng
        self.nodes = nodes
        self.history = history
        self.finishing = False
        self._sequence = 0
        self._context = number * 1_000_000

    async def run(self) -> None:
        """Do operations until it is told to finish."""
        while not self.finishing:
            await asyncio.sleep(self.rng.uniform(0, 0.12))
            await self.operate(self.rng.choice(OPS), self.rng.choice(KEYS))

    async def operate(self, op: Op, key: str) -> bool:
        """Do one operation; False if its outcome is not known."""
        called = asyncio.get_running_loop().time()
        if op == "get":
            found = await self._read(key)
            if found is not None:
                self._note(op, key, "", "", found, called)
            return found is not None
        self._sequence += 1
        value = f"<{self.identity}.{self._sequence}>"
        expected = ""
        if op == "cas":
            known = [o for o in self.history[-20:] if o.key == key and o.outcome]
            expected = known[-1].outcome or "" if known else ""
        command = Command(self.identity, self._sequence, op, key, value, expected)
        outcome = await self._submit(command)
        self._note(op, key, value, expected, outcome, called)
        if outcome is None:
            self.identity, self._sequence = self.identity + 1, 0
        return outcome is not None

    def _note(self, op: Op, key: str, value: str, expected: str, outcome: str | None, called: float) -> None:
        returned = inf if outcome is None else asyncio.get_running_loop().time()
        done = Operation(self.identity, op, key, value, expected, outcome, called, returned)
        self.history.append(done)

    async def _submit(self, command: Command) -> str | None:
        data = encode(command)
        for _ in range(ATTEMPTS):
            node = self.rng.choice(self.nodes())
            if node.replica is not None:
                future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                node.waiting[command.client, command.sequence] = future
                try:
                    node.replica.propose([data])
                except NotReadyError:
                    del node.waiting[command.client, command.sequence]
                else:
                    node.kick()
                    outcome = await self._patiently(future)
                    node.waiting.pop((command.client, command.sequence), None)
                    if outcome is not None:
                        return outcome
                    continue
            await asyncio.sleep(self.rng.uniform(0, 0.2))
        return None

    async def _read(self, key: str) -> str | None:
        node = self.rng.choice(self.nodes())
        if node.replica is None:
            return None
        self._context += 1
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        node.reads[self._context] = key, future
        try:
            node.replica.read(self._context)
        except NotReadyError:
            del node.reads[self._context]
            return None
        node.kick()
        found = await self._patiently(future)
        node.reads.pop(self._context, None)
        return found

    async def _patiently(self, future: asyncio.Future[T]) -> T | None:
        await asyncio.wait([future], timeout=self.rng.uniform(*PATIENCE))
        return future.result() if future.done() else None
