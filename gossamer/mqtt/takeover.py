"""Sessions that follow their client from node to node: who has which, and how one moves.

Each node says in the *owned* table ``sessions`` which clients' sessions it has, with an epoch; the highest
``(epoch, node)`` has the client, and whoever sees a higher one than its own ends its own session.

A client connects to B while its session is on A::

    B → A      freeze    A ends its connection (0x8E), gives the state away, and goes on queueing
    B          subscribe and wait until every node knows it: now publishers send to A *and* B
    B → all    mark      each sends a mark to A and to B, in the stream of its messages
    A          queues of each node what comes before its mark; B takes what comes after it
    B → A      release   what A queued, once all marks are there: it goes before what B took
    B          writes its row with the next epoch, says CONNACK; A sees the row and ends its session

So every message is taken by one of the two, whatever is on its way. Rules: 1. Until B's row is there, the
session is A's: whatever goes wrong before, A thaws it after :data:`FROZEN`, whole.  2. Every wait is
bounded. If A dies after it gave the state away, B goes on with that; before, the session is lost with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.mnesia_like import Change, OwnedTable
from gossamer.mqtt.ingest import MOVE_MARK, read_record, record_of
from gossamer.mqtt.packets import Subscription
from gossamer.mqtt.reasons import ReasonCode
from gossamer.mqtt.session import Session

if TYPE_CHECKING:
    from gossamer.mqtt.broker import Broker

__all__ = ["Takeovers"]

log = structlog.get_logger(__name__)

FROZEN = 15.0
MARKS_WITHIN = 3.0
CALL_WITHIN = 5.0
TRIES = 80
"""Looks at a session that somebody else is taking, five a second: for longer than :data:`FROZEN`."""


class _Gate(deque[Any]):
    """A queue that takes messages by the node they come from; None: to a share group, always taken."""

    def __init__(self, origin: Callable[[], str | None], *, opens: bool) -> None:
        super().__init__()
        self.marked: set[str] = set()
        self.changed = asyncio.Event()
        self._origin = origin
        self._opens = opens

    def append(self, item: Any) -> None:
        origin = self._origin()
        if origin is None or (origin in self.marked) == self._opens:
            super().append(item)

    async def until(self, origins: set[str]) -> bool:
        """Wait for the marks of ``origins``, a bounded time."""
        try:
            async with asyncio.timeout(MARKS_WITHIN):
                while not origins <= self.marked:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True


class Takeovers:
    """See the module."""

    def __init__(self, broker: Broker, distribution: Distribution, table: OwnedTable) -> None:
        self._broker = broker
        self._distribution = distribution
        self._table = table
        self._node = distribution.runtime.node
        self._gates: dict[str, _Gate] = {}
        self._frozen: dict[str, str] = {}
        self._thaws: dict[str, Callable[[], None]] = {}
        self._number = 0

    def offer(self, functions: dict[str, Callable[..., Any]]) -> None:
        """What other nodes call."""
        functions["mqtt.freeze"] = self._freeze
        functions["mqtt.release"] = self._release
        functions["mqtt.mark"] = self._mark
        functions["mqtt.end"] = self._end

    # -- who has it

    def elsewhere(self, client_id: str) -> list[str]:
        """Other nodes that have a session of this client and can be reached, the rightful one first."""
        found = self._table.read(client_id)
        up = self._distribution.nodes()
        return sorted((n for n in found if n in up), key=lambda n: (found[n], n), reverse=True)

    def own(self, client_id: str) -> int:
        """This node has the session now, before everybody else; the epoch."""
        found = self._table.read(client_id)
        others = [epoch for node, epoch in found.items() if node != self._node]
        if self._node not in found or (others and max(others) >= found[self._node]):
            epoch = max(found.values(), default=0) + 1
            self._table.write(client_id, epoch)
            return int(epoch)
        return int(found[self._node])

    def announce(self, session: Session) -> None:
        """Say that a session is here, with the epoch that it has had; it ends if there is a newer one."""
        client_id = session.client_id
        if not session.epoch:
            session.epoch = self.own(client_id)
            return
        self._table.write(client_id, session.epoch)
        found = self._table.read(client_id)
        if max((epoch, node) for node, epoch in found.items()) > (session.epoch, self._node):
            self._give_up(session)

    def disown(self, client_id: str) -> None:
        """The session is over."""
        self._table.delete(client_id)

    def changed(self, change: Change) -> None:
        """Another node has sessions; those of this node that are older end."""
        if change.owner == self._node:
            return
        sessions = self._broker.sessions
        for client_id, epoch in change.written.items():
            if client_id in sessions:
                mine = self._table.rows_of(self._node).get(client_id)
                if mine is not None and (epoch, change.owner) > (mine, self._node):
                    self._give_up(sessions[client_id])

    def _give_up(self, session: Session) -> None:
        session.will_due = None
        if session.channel is not None:
            session.channel.disconnect(ReasonCode.SESSION_TAKEN_OVER)
        self._frozen.pop(session.client_id, None)
        self._thaws.pop(session.client_id, None)
        self._broker.table.end(session)

    # -- the new node

    async def fetch(self, client_id: str, *, clean: bool) -> None:
        """Bring the session of a client here, or end it where it is; the rows of others decide from whom."""
        for _ in range(TRIES):
            nodes = self.elsewhere(client_id)
            if not nodes:
                return
            if clean:
                await remote.multicall(nodes, "mqtt.end", client_id, timeout=CALL_WITHIN)
                return
            self._number += 1
            token = f"{self._node}/{self._distribution.runtime.creation}/{self._number}"
            answer = await remote.call(
                nodes[0], "mqtt.freeze", client_id, token, self._node, timeout=CALL_WITHIN
            )
            if isinstance(answer, remote.Returned) and isinstance(answer.value, dict):
                await self._move(client_id, token, nodes[0], answer.value)
                return
            if not isinstance(answer, remote.Returned) or answer.value is None:
                return
            # Somebody else is taking it: it will be theirs in a moment.
            await asyncio.sleep(0.2)

    async def _move(self, client_id: str, token: str, source: str, state: dict[str, Any]) -> None:
        broker = self._broker
        known = broker.sessions.get(client_id)
        if known is not None:
            broker.table.end(known)
        session = broker.table.create(client_id, state["expiry"])
        gate = session.queue = self._gates[token] = _Gate(broker.hub.where, opens=True)
        try:
            waiting = self._import(session, state)
            seq = broker.restore_subscriptions(session)
            if seq is not None:
                await broker.router.visible(seq)
            nodes = self._distribution.nodes()
            self._mark(token, source, self._node)
            await remote.multicall(nodes, "mqtt.mark", token, source, self._node, timeout=MARKS_WITHIN)
            answer = await remote.call(source, "mqtt.release", client_id, token, timeout=CALL_WITHIN)
            if isinstance(answer, remote.Returned) and isinstance(answer.value, list):
                waiting += [self._item(item) for item in answer.value]
            else:
                log.warning(
                    "takeover_incomplete", client_id=client_id, source=source, answer=repr(answer)[:120]
                )
            await gate.until({"", *nodes} & {"", *self._distribution.nodes()})
        finally:
            del self._gates[token]
            session.refill([*waiting, *gate])

    def _import(self, session: Session, state: dict[str, Any]) -> list[Any]:
        session.version = state["version"]
        session.username = state["username"]
        session.expiry = state["expiry"]
        session.inflight.update(state["inflight"])
        session.incoming.update(dict.fromkeys(state["incoming"], True))
        for item, identifier in state["subscriptions"]:
            wanted = Subscription(*item)
            session.subscriptions[wanted.filter] = (wanted, identifier)
        return [self._item(item) for item in state["queue"]]

    def _item(self, item: Any) -> tuple[bytes, bytes, Any]:
        head, tail, record = item
        if record is None:
            return head, tail, None
        return head, tail, read_record(record, 0, len(record), self._broker.hub.now())[0]

    # -- the old node

    def _freeze(self, client_id: str, token: str, _to: str) -> dict[str, Any] | str | None:
        broker = self._broker
        session = broker.sessions.get(client_id)
        if session is None:
            return None
        taker = self._frozen.get(client_id, "").partition("/")[0]
        if taker:
            if taker in self._distribution.nodes():
                return "busy"
            # Who was taking it is gone.
            self._thaws[client_id]()
            session = broker.sessions.get(client_id)
            if session is None:
                return None
        expiry = session.expiry
        # It is to outlive its connection until it has moved.
        session.expiry = max(expiry, int(FROZEN) * 2)
        if session.channel is not None:
            broker.table.take_over(session, clean=False)
        session.will_due = None
        broker.wills.release(client_id)
        self._frozen[client_id] = token
        state = {
            "version": session.version,
            "username": session.username,
            "expiry": expiry,
            "inflight": [[packet_id, packet] for packet_id, packet in session.inflight.items()],
            "incoming": list(session.incoming),
            "subscriptions": [
                [[w.filter, w.qos, w.no_local, w.retain_as_published, w.retain_handling], identifier]
                for w, identifier in session.subscriptions.values()
            ],
            "queue": [self._packed(item) for item in session.queue],
        }
        before = list(session.queue)
        gate = session.queue = self._gates[token] = _Gate(broker.hub.where, opens=False)
        thaw = self._thaws[client_id] = partial(self._thaw, session, token, before, gate, expiry)
        broker.runtime.loop.call_later(FROZEN, thaw)
        return state

    def _thaw(self, session: Session, token: str, before: list[Any], gate: _Gate, expiry: int) -> None:
        """Nobody took it: it is as it was, and what came since waits in it."""
        self._gates.pop(token, None)
        if self._frozen.get(session.client_id) != token:
            return
        del self._frozen[session.client_id], self._thaws[session.client_id]
        session.refill([*before, *gate])
        session.expiry = expiry
        if not expiry and session.channel is None:
            self._broker.table.end(session)

    async def _release(self, client_id: str, token: str) -> list[Any] | None:
        gate = self._gates.get(token)
        if gate is None or self._frozen.get(client_id) != token:
            return None
        await gate.until({"", *self._distribution.nodes()})
        return [self._packed(item) for item in gate]

    def _packed(self, item: Any) -> list[Any]:
        head, tail, message = item
        return [head, tail, None if message is None else record_of(message, self._broker.hub.now())]

    def _end(self, client_id: str) -> bool:
        session = self._broker.sessions.get(client_id)
        if session is not None:
            self._give_up(session)
        return session is not None

    # -- every node

    def _mark(self, token: str, source: str, target: str) -> bool:
        forwarders = self._broker.router.forwarders()
        mark = MOVE_MARK + bytes((len(token.encode()),)) + token.encode()
        for node in (source, target):
            if node == self._node:
                self.marked("", token)
            elif node in forwarders:
                forwarders[node].append_acked(mark, _ignore)
        return True

    def marked(self, origin: str, token: str) -> None:
        """Everything ``origin`` sent before this is here."""
        gate = self._gates.get(token)
        if gate is not None:
            gate.marked.add(origin)
            gate.changed.set()


def _ignore(_safe: bool) -> None:
    pass
