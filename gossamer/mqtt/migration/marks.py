"""Marks of moves to this node: each node sends one in its stream of messages, behind what it sent before.

A node is asked for its mark only once it has the routes of this one, so that what it sends from then on comes
here too. A node that lacks them, is away, or comes up during the move, is asked when it has them: until its
mark comes, the copy at the source takes its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.distribution import rpc as remote
from gossamer.mqtt.migration.machines import MARK, MARK_TIMEOUT
from gossamer.mqtt.migration.superseded import MARKS_TIMEOUT

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.publish.core import Core

LOOK = 0.2


@dataclass(slots=True)
class _Move:
    token: str
    source: str
    routed: int
    """Sequence number of the write of its routes."""
    marked: frozenset[str]
    until: float
    asking: bool = False
    over: bool = False
    """The session is here, or will not come."""


class Marks:
    """Requests the marks of moves; ``mark(token, source, target)`` sends those of this node.

    One process looks after all moves that are under way, or not marked by every node.
    """

    def __init__(
        self,
        core: Core,
        distribution: Distribution,
        handoff: HintedHandoff,
        *,
        mark: Callable[[str, str, str], object],
    ) -> None:
        self._fanout, self._router = core.fanout, core.router
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._handoff = handoff
        self._own = mark
        self._incomplete: dict[str, _Move] = {}
        self._going = False
        self._listens: dict[str, Callable[[str, str], object]] = {}
        """By token, who takes its marks."""

    def listen(self, token: str, take: Callable[[str, str], object]) -> None:
        """Call ``take(origin, token)`` with the marks of a move, until it is :meth:`over`."""
        self._listens[token] = take

    def marked(self, origin: str, token: str) -> None:
        """Take the mark of ``origin``: everything that it sent before the move ``token`` is here."""
        if (take := self._listens.get(token)) is not None:
            take(origin, token)

    async def ask(self, token: str, source: str, routed: int | None) -> frozenset[str]:
        """Request marks from nodes that have the routes ``routed``; return those that sent one. The others
        are asked later."""
        self._own(token, source, self._node)
        nodes = frozenset(self._distribution.nodes())
        if routed is None:
            # All nodes that are up had them; one that comes back may not.
            routed = self._router.latest
        else:
            nodes = nodes.difference(self._router.unconfirmed(routed))
        move = _Move(token, source, routed, frozenset(), self._fanout.now() + MARKS_TIMEOUT)
        self._incomplete[token] = move
        if not self._going:
            self._going = True
            self._distribution.runtime.spawn(self._complete, label="mqtt_marks")
        await self._send(move, nodes)
        return move.marked

    def over(self, token: str, *others: str) -> None:
        """Note that the session of a move is here, or will not come; ``others``: moves whose marks itk."""
        for listened in (token, *others):
            self._listens.pop(listened, None)
        move = self._incomplete.get(token)
        if move is None:
            return
        move.over = True
        if not self._handoff.anybody and move.marked.issuperset(self._distribution.nodes()):
            del self._incomplete[token]

    async def _complete(self) -> None:
        try:
            while self._incomplete:
                await asyncio.sleep(LOOK)
                self._look()
        finally:
            self._going = False

    def _look(self) -> None:
        now, nodes = self._fanout.now(), frozenset(self._distribution.nodes())
        anybody = self._handoff.anybody
        # While a node is away they may be thousands.
        for move in list(self._incomplete.values()):
            marked = nodes <= move.marked
            if now >= move.until or (marked and move.over and not anybody):
                del self._incomplete[move.token]
            elif not (marked or move.asking):
                due = (nodes - move.marked).difference(self._router.unconfirmed(move.routed))
                if due:
                    self._distribution.runtime.spawn(self._send, move, due, label="mqtt_marks")

    async def _send(self, move: _Move, nodes: frozenset[str]) -> None:
        move.asking = True
        try:
            answers = await self._handoff.gathered.multicall(
                nodes, MARK, move.token, move.source, self._node, timeout=MARK_TIMEOUT
            )
            move.marked |= {node for node, answer in answers.items() if answer == remote.Returned(True)}
        finally:
            move.asking = False
