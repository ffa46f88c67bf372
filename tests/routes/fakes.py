"""Small stand-ins for what routing stands on: a subscriber, the ``routes`` table, the links, the turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any

from gossamer.distribution import Frame, NodeDown, NodeUp, PeerGoneError
from gossamer.routes import RouteOwner, Router
from gossamer.supervisor import ChildSpec


def routes_child(router: Any, table: Any, links: Any) -> ChildSpec:
    """The route owner as a child of a supervisor."""
    return ChildSpec("routes", partial(RouteOwner.start_link, router, table, links, name="routes"))


class Client:
    """A subscriber that remembers what it was given."""

    online = ready = True
    queue: tuple[Any, ...] = ()
    delivered = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.got: list[Any] = []

    def deliver(self, message: Any, delivery: Any) -> None:
        self.got.append((message, delivery))

    def __repr__(self) -> str:
        return self.name


class Turn:
    """The end of the loop's turn, run by hand."""

    def __init__(self) -> None:
        self._due: list[Any] = []

    def __call__(self, function: Any) -> None:
        self._due.append(function)

    def end(self) -> None:
        while self._due:
            due, self._due = self._due, []
            for function in due:
                function()


@dataclass
class Change:
    owner: str
    written: dict[str, Any] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)


class Table:
    """One node's copy of the table; other nodes' rows are put in by hand."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.owned: dict[str, dict[str, Any]] = {node: {}}
        self.number = 0
        self.reached = 0
        self.callbacks: list[Any] = []
        self.fail: Exception | None = None

    def write(self, key: str, value: Any) -> int:
        if self.fail is not None:
            raise self.fail
        self.number += 1
        self.put(self.node, {key: value})
        return self.number

    def delete(self, key: str) -> int:
        self.number += 1
        self.put(self.node, {}, [key])
        return self.number

    def put(self, owner: str, written: dict[str, Any], deleted: list[str] | None = None) -> None:
        rows = self.owned.setdefault(owner, {})
        rows.update(written)
        for key in deleted or []:
            rows.pop(key, None)
        for callback in self.callbacks:
            callback(Change(owner, written, deleted or []))

    def rows_of(self, owner: str) -> dict[str, Any]:
        return self.owned.get(owner, {})

    def owners(self) -> list[str]:
        return [owner for owner, rows in self.owned.items() if rows]

    def is_visible(self, number: int) -> bool:
        return number <= self.reached

    async def visible(self, number: int, timeout: float) -> bool:
        return self.is_visible(number)

    def behind(self, number: int) -> list[str]:
        return ["node2@far"] if number > self.reached else []

    def subscribe_batches(self, callback: Any, own: bool = True) -> None:
        self.callbacks.append(callback)


class Links:
    """Links that keep what was sent until told what became of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bool]] = []
        self.finished: list[Frame] = []
        self.gone: set[str] = set()
        self.receiver: Any = None
        self._numbers: dict[str, int] = {}

    def send(self, peer: str, purpose: str, frame: bytes, reliable: bool = True) -> int:
        assert purpose == "data"
        if peer in self.gone:
            raise PeerGoneError(peer)
        self.sent.append((peer, frame, reliable))
        if not reliable:
            return 0
        self._numbers[peer] = self._numbers.get(peer, 0) + 1
        return self._numbers[peer]

    def done(self, frame: Frame) -> None:
        self.finished.append(frame)

    def on_frame(self, purpose: str, receiver: Any) -> None:
        def take(frame: Frame) -> None:
            if receiver(frame):
                self.done(frame)

        self.receiver = take

    def on_ack(self, purpose: str, callback: Any) -> None:
        self.ack = callback

    def on_ahead(self, purpose: str, callback: Any) -> None:
        self.ahead = callback

    def partly(self, frame: Any, spans: Any) -> None:
        self.parts.append((frame, spans))

    def refresh_with(self, purpose: str, refresh: Any) -> None:
        self.refresh = refresh

    def subscribe(self, subscriber: Any) -> None:
        self.tell = subscriber

    def up(self, name: str) -> None:
        self.tell(NodeUp(name, 1))

    def down(self, name: str) -> None:
        self._numbers.pop(name, None)
        self.tell(NodeDown(name, 1, "left"))


def make(node: str = "a", **options: Any) -> tuple[Router, Table, Links, Turn]:
    """A router over a table, links and turns of the loop."""
    turn, table, links = Turn(), Table(node), Links()
    router = Router(node, schedule=turn, **options)
    table.subscribe_batches(router.apply)
    router.attach(table, links)
    return router, table, links, turn


class Cluster:
    """Routers whose rows travel when the test says so, by :meth:`spread`."""

    def __init__(self, *names: str, **options: Any) -> None:
        made = {name: make(name, **options) for name in names}
        self.routers = {name: router for name, (router, *_) in made.items()}
        self.tables = {name: table for name, (_, table, *_) in made.items()}
        self.links = {name: links for name, (_, _, links, _) in made.items()}
        self.turns = [turn for *_, turn in made.values()]

    def meet(self, one: str, other: str) -> None:
        """Each takes in what rows the other owns."""
        for owner, reader in ((one, other), (other, one)):
            rows, known = self.tables[owner].rows_of(owner), self.tables[reader].rows_of(owner)
            if rows != known:
                self.tables[reader].put(owner, dict(rows), [key for key in known if key not in rows])

    def spread(self) -> None:
        for _ in self.routers:
            for one, other in permutations(self.routers, 2):
                self.meet(one, other)
