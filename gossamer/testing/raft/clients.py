"""Clients of the simulated group: each does one operation after the other, at any node, and notes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Protocol

from gossamer.testing.raft.linearizability import Op, Operation
from gossamer.testing.raft.machine import Command

KEYS = ("x", "y")
OPS: tuple[Op, ...] = ("get", "get", "get", "put", "append", "append", "cas")
PATIENCE = (0.3, 1.0)
STALENESS = (0.0, 0.0, 0.15, 0.5)
"""Seconds by which a read may be stale; 0: not at all."""
ATTEMPTS = 4


class Server(Protocol):
    """What a client knows of a node. None: it takes nothing now; cancel a future that nobody waits for."""

    def submit(self, command: Command) -> asyncio.Future[str] | None: ...
    def read(self, key: str, context: int) -> asyncio.Future[str] | None: ...
    def read_here(self, key: str, max_staleness: float) -> str | None: ...


class Client:
    """One client. A request without an answer goes again to another node, under its own number; after a few
    times its outcome stays unknown, and the client goes on as another."""

    def __init__(
        self,
        number: int,
        rng: Random,
        nodes: Callable[[], Sequence[Server]],
        history: list[Operation],
        *,
        stale_reads: bool = False,
    ) -> None:
        self.identity = number * 10_000
        self.rng = rng
        self.nodes = nodes
        self.history = history
        self.stale_reads = stale_reads
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
            staleness = self.rng.choice(STALENESS) if self.stale_reads else 0.0
            found = self.rng.choice(self.nodes()).read_here(key, staleness) if staleness else None
            if found is not None:
                # It is right if it was at any time since.
                called -= staleness
            else:
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
        for _ in range(ATTEMPTS):
            # All may be down.
            future = self.rng.choice(nodes).submit(command) if (nodes := self.nodes()) else None
            if future is None:
                await asyncio.sleep(self.rng.uniform(0, 0.2))
                continue
            outcome = await self._patiently(future)
            if outcome is not None:
                return outcome
        return None

    async def _read(self, key: str) -> str | None:
        self._context += 1
        future = self.rng.choice(nodes).read(key, self._context) if (nodes := self.nodes()) else None
        return None if future is None else await self._patiently(future)

    async def _patiently(self, future: asyncio.Future[str]) -> str | None:
        await asyncio.wait([future], timeout=self.rng.uniform(*PATIENCE))
        return None if future.cancel() else future.result()
