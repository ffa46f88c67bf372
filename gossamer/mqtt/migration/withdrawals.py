"""Claims that were outbid, and are taken back once every node that is up knows a higher one.

Rows of different owners reach a node in any order. Were a claim taken back as soon as its own node has seen
the higher one, a third node might see that it is gone before it sees who has the session now, and would tell
the client that there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.mnesia_like import OwnedTable

__all__ = ["KNOWS", "Withdrawals"]

KNOWS = "mqtt.knows"
TOLD_TIMEOUT = 1.0
AGAIN = 0.5
ASKED = 1000
"""Claims in one question."""


class Withdrawals:
    """See the module. ``table`` has the claims: epochs, by client and node."""

    def __init__(self, distribution: Distribution, table: OwnedTable) -> None:
        self._runtime = distribution.runtime
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._table = table
        self._outbid: dict[str, int] = {}
        self._going = False
        self.functions: dict[str, Callable[..., object]] = {KNOWS: self._knows}
        """What other nodes call."""

    def withdraw(self, client_id: str) -> None:
        """Take this node's claim back: at once, or if there is a higher one, as soon as all know it."""
        epoch = self._table.read(client_id).get(self._node)
        if epoch is None:
            return
        if not self._is_outbid(client_id, self._node, epoch):
            self._table.delete(client_id)
            return
        self._outbid[client_id] = epoch
        if not self._going:
            self._going = True
            self._runtime.spawn(self._run, label="mqtt_withdrawals")

    def stays(self, client_id: str) -> None:
        """It is this node's claim again."""
        self._outbid.pop(client_id, None)

    def is_outbid(self, client_id: str) -> bool:
        """Whether this node claims the session still, and another one more so."""
        epoch = self._table.read(client_id).get(self._node)
        return epoch is not None and self._is_outbid(client_id, self._node, epoch)

    async def all_know(self, claims: Mapping[str, int]) -> set[str]:
        """For which of these claims of this node every other node that is up knows a higher one."""
        nodes = self._distribution.nodes()
        if not nodes:
            return set(claims)
        answers = await remote.multicall(nodes, KNOWS, self._node, list(claims.items()), timeout=TOLD_TIMEOUT)
        known = set(claims)
        for answer in answers.values():
            told: Any = answer.value if isinstance(answer, remote.Returned) else ()
            known &= set(told)
        return known

    async def _run(self) -> None:
        try:
            while self._outbid:
                await asyncio.sleep(AGAIN)
                asked = dict(islice(self._outbid.items(), ASKED))
                known = await self.all_know(asked)
                for client_id, epoch in asked.items():
                    if self._outbid.get(client_id) != epoch:
                        continue
                    del self._outbid[client_id]
                    if client_id in known or not self._is_outbid(client_id, self._node, epoch):
                        self._table.delete(client_id)
                    else:
                        self._outbid[client_id] = epoch
        finally:
            self._going = False

    def _knows(self, node: str, claims: list[tuple[str, int]]) -> list[str]:
        return [client_id for client_id, epoch in claims if self._is_outbid(client_id, node, epoch)]

    def _is_outbid(self, client_id: str, node: str, epoch: int) -> bool:
        claims = self._table.read(client_id)
        return any((other, name) > (epoch, node) for name, other in claims.items())
