"""Reads of a node's processes: of each group those that come while one is on its way leave together.

A leader has them confirmed by one round, and answers by one state, which has all that was done before the
last of them was asked.
"""

from __future__ import annotations

from msgspec import Struct

from gossamer.raft.host.messages import NO_GROUP, NO_LEADER, RAFT, Done, NotDone, Read
from gossamer.supervisor import Caller, CallFailed, NoReply, Reply, call, reply, spawn

MOST = 64
"""Questions that leave together: their answers, of one page each, must fit a frame."""
ATTEMPT = 2.0
"""Seconds in which a leader answers."""


class _Asked(Struct):
    question: bytes
    caller: Caller


class Reads:
    """Asks leaders at other nodes."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], list[_Asked]] = {}
        """By group and leader, what waits for the answer to those before it."""

    def ask(self, group: int, leader: str, question: bytes, caller: Caller) -> Reply | NoReply:
        """Ask the leader of a group, 0 and blank where not known, for ``caller``, who is answered with
        :class:`Done` or :class:`NotDone`."""
        if not leader:
            return Reply(NotDone(NO_LEADER if group else NO_GROUP))
        asked = _Asked(question, caller)
        waiting = self._waiting.get((group, leader))
        if waiting is None:
            self._waiting[group, leader] = [asked]
            spawn(self._serve, group, leader, label="raft_reads")
        else:
            waiting.append(asked)
        return NoReply()

    async def _serve(self, group: int, leader: str) -> None:
        waiting = self._waiting[group, leader]
        try:
            while batch := waiting[:MOST]:
                del waiting[:MOST]
                await self._send(group, leader, batch)
        finally:
            del self._waiting[group, leader]

    async def _send(self, group: int, leader: str, batch: list[_Asked]) -> None:
        first, *more = batch
        asked = Read(group, first.question, [one.question for one in more])
        try:
            answer = await call((RAFT, leader), asked, ATTEMPT)
        except CallFailed as error:
            answer = NotDone(str(error))
        if not isinstance(answer, Done):
            for one in batch:
                reply(one.caller, answer)
        elif not more:
            reply(first.caller, answer)
        elif isinstance(answer.value, list):
            for one, value in zip(batch, answer.value, strict=True):
                reply(one.caller, Done(value))
        else:
            reply(first.caller, answer)
            for one in more:
                await self._send(group, leader, [one])
