"""A seeded network of replication state machines: it delays, cuts, crashes, and ends sessions."""

from __future__ import annotations

import heapq
import itertools
import random
from functools import partial
from typing import Any

from hypothesis import strategies as st

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.exchange import Action, OwnedState, Send
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.values import encode

DEFINITION = TableDef(name="routes", replication="owned", grace=20.0)


ONE = st.sampled_from("abc")
ARGUMENTS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "put": (ONE, st.integers(0, 4), st.sampled_from([None, 1, 2, 3])),
    "tell": (ONE, st.integers(0, 4), st.sampled_from([None, 1, 2, 3])),
    "flush": (ONE,),
    "partition": (ONE, ONE),
    "heal": (ONE, ONE),
    "renew": (ONE, ONE),
    "restart": (ONE,),
    "leave": (ONE,),
    "advance": (st.sampled_from([0.01, 0.3, 2.0, 30.0]),),
}


def scripts(*verbs: str, most: int = 60, **arguments: Any) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Scripts for :func:`play`; ``arguments`` of a verb, where they are not the usual ones."""
    table = ARGUMENTS | arguments
    steps = [st.tuples(st.just(verb), *table[verb]) for verb in verbs]
    return st.lists(st.one_of(*steps), max_size=most)


def play(net: Net, script: list[tuple[Any, ...]]) -> None:
    """Call the methods of ``net`` that a script names; a machine that does not run does nothing."""
    for verb, *arguments in script:
        if verb not in ("put", "tell", "flush", "leave") or arguments[0] in net.machines:
            getattr(net, verb)(*arguments)


def put(log: OwnLog, key: Any, value: Any) -> int:
    """Write a row, as its table does."""
    return log.write(key, value, encode(key) + encode(value))


class Machine:
    """One node: its core, and a copy of the tables built from nothing but the changes it reported."""

    def __init__(self, name: str, creation: int, now: float, definition: TableDef, **options: Any) -> None:
        self.name = name
        self.core = Replication(node=name, creation=creation, **options)
        self.state: OwnedState
        self.state, _ = self.core.create(definition, now)
        self.told: dict[str, dict[Any, Any]] = {}

    def note(self, change: Change) -> None:
        rows = self.told.setdefault(change.owner, {})
        rows.update(change.written)
        for key in change.deleted:
            del rows[key]

    def held(self) -> dict[str, dict[Any, Any]]:
        return {o: dict(r.rows) for o, r in self.state.replicas.items() if r.rows}


class Net:
    """Machines joined by links whose sessions end, with what is on its way, as often as ``renewals`` says
    until :meth:`mend`. Each side hears of an end, and of the next session, in its own time."""

    def __init__(
        self,
        seed: int,
        names: list[str],
        *,
        renewals: float = 0.0,
        definition: TableDef = DEFINITION,
        **options: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.renewals = renewals
        self.now = 0.0
        self.latency = 0.01
        self.definition = definition
        self.options = options
        self.creation = itertools.count(1)
        self.machines: dict[str, Machine] = {}
        self.cut: set[frozenset[str]] = set()
        self.frames = 0
        self._order = itertools.count()
        self._numbers = itertools.count(1)
        self._wire: list[tuple[float, int, Any]] = []
        # The session of each pair, and who knows of it already.
        self._sessions: dict[frozenset[str], int] = {}
        self._aware: dict[tuple[str, str], int] = {}
        # What waits at its sender until the session is up at the other side as well.
        self._held: dict[tuple[str, str], list[bytes]] = {}
        for name in names:
            self.boot(name)

    def boot(self, name: str) -> None:
        machine = Machine(name, next(self.creation), self.now, self.definition, **self.options)
        self.machines[name] = machine
        for other in list(self.machines):
            if other != name and frozenset((name, other)) not in self.cut:
                self._begin(name, other, spread=0.0)

    def crash(self, name: str) -> None:
        self._gone(name, left=False)

    def leave(self, name: str) -> None:
        self._gone(name, left=True)

    def _gone(self, name: str, *, left: bool) -> None:
        del self.machines[name]
        for other in self.machines.values():
            self._end(name, other.name)
            self.run(other, other.core.peer_down(name, self.now, left=left))

    def partition(self, one: str, two: str) -> None:
        pair = frozenset((one, two))
        if pair in self.cut or one == two:
            return
        self.cut.add(pair)
        if one in self.machines and two in self.machines:
            self._end(one, two)
            for a, b in ((one, two), (two, one)):
                self._down(a, b)

    def heal(self, one: str, two: str) -> None:
        pair = frozenset((one, two))
        if pair not in self.cut:
            return
        self.cut.discard(pair)
        if one in self.machines and two in self.machines:
            self._begin(one, two, spread=0.0)

    def renew(self, one: str, two: str) -> None:
        """The session ends and another begins; ``two`` hears of it later."""
        pair = frozenset((one, two))
        if one != two and pair not in self.cut and one in self.machines and two in self.machines:
            self._end(one, two)
            self._down(one, two)
            late = self.random.random()
            self._later(late, self._down, two, one)
            self._begin(one, two, spread=1.0, after=late)

    def _end(self, one: str, two: str) -> None:
        self._sessions.pop(frozenset((one, two)), None)
        for pair in ((one, two), (two, one)):
            self._aware.pop(pair, None)
            self._held.pop(pair, None)

    def _begin(self, one: str, two: str, *, spread: float, after: float = 0.0) -> None:
        session = self._sessions[frozenset((one, two))] = next(self._numbers)
        for a, b in ((one, two), (two, one)):
            if spread:
                self._later(after + spread * self.random.random(), self._up, a, b, session)
            else:
                self._up(a, b, session)

    def _later(self, seconds: float, function: Any, *args: Any) -> None:
        heapq.heappush(self._wire, (self.now + seconds, next(self._order), partial(function, *args)))

    def put(self, name: str, key: Any, value: Any) -> None:
        """Write a row; None: delete it."""
        if value is None:
            self.delete(name, key)
        else:
            self.write(name, key, value)

    def tell(self, name: str, key: Any, value: Any) -> None:
        """Write a row, or delete it, at the end of a turn."""
        self.put(name, key, value)
        self.flush(name)

    def restart(self, name: str) -> None:
        """End a machine, unless it is the last; or begin it again."""
        if name not in self.machines:
            self.boot(name)
        elif len(self.machines) > 1:
            self.crash(name)

    def write(self, name: str, key: Any, value: Any) -> None:
        put(self.machines[name].state.log, key, value)

    def delete(self, name: str, key: Any) -> None:
        log = self.machines[name].state.log
        if key in log.rows:
            log.delete(key, encode(key))

    def flush(self, name: str) -> None:
        machine = self.machines[name]
        self.run(machine, machine.core.flush())

    def mend(self) -> None:
        self.renewals = 0.0
        for pair in sorted(self.cut, key=sorted):
            self.heal(*sorted(pair))

    def advance(self, seconds: float) -> None:
        """Deliver what is due, tick every half second."""
        end = self.now + seconds
        tick = self.now + 0.5
        while True:
            due = self._wire[0][0] if self._wire else end + 1
            if min(due, tick) > end:
                break
            if due <= tick:
                self.now, _, happens = heapq.heappop(self._wire)
                happens()
            else:
                self.now = tick
                tick += 0.5
                for machine in list(self.machines.values()):
                    self.run(machine, machine.core.tick(self.now))
                    self.ticked(machine)
                    while machine.core.busy:
                        self.run(machine, machine.core.work())
        self.now = end

    def settle(self) -> None:
        """A good network and time enough."""
        self.mend()
        for name in list(self.machines):
            self.flush(name)
        self.advance(60.0)

    def ticked(self, machine: Machine) -> None:
        """Half a second passed."""

    def run(self, machine: Machine, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._send(machine, action.peer, action.session, action.frame)
            elif isinstance(action, Change):
                machine.note(action)

    def check(self) -> None:
        """Every machine holds exactly what every other owns, and was told of exactly that."""
        for machine in self.machines.values():
            expected = {
                m.name: m.state.log.rows
                for m in self.machines.values()
                if m is not machine and m.state.log.rows
            }
            assert machine.held() == expected
            assert {o: r for o, r in machine.told.items() if r} == expected
            assert machine.core.not_loaded("routes") == []
            assert machine.core.visible("routes") == machine.state.log.last

    def _up(self, name: str, peer: str, session: int) -> None:
        if self._sessions.get(frozenset((name, peer))) == session:
            self._aware[name, peer] = session
            machine = self.machines[name]
            self.run(
                machine, machine.core.peer_up(peer, self.machines[peer].core.creation, session, self.now)
            )
            for frame in self._held.pop((peer, name), ()):
                self._deliver(peer, name, session, frame)

    def _down(self, name: str, peer: str) -> None:
        if name in self.machines and (name, peer) not in self._aware:
            machine = self.machines[name]
            self.run(machine, machine.core.peer_down(peer, self.now))

    def _send(self, machine: Machine, peer: str, session: int, frame: bytes) -> None:
        assert len(frame) <= 256 * 1024
        self.frames += 1
        if self._aware.get((machine.name, peer)) == session:
            self._later(self.latency, self._deliver, machine.name, peer, session, frame)
            if self.random.random() < self.renewals:
                self._later(0.02 * self.random.random(), self.renew, machine.name, peer)

    def _deliver(self, source: str, target: str, session: int, frame: bytes) -> None:
        if self._sessions.get(frozenset((source, target))) != session:
            return
        if self._aware.get((target, source)) != session:
            self._held.setdefault((source, target), []).append(frame)
            return
        machine = self.machines[target]
        self.run(machine, machine.core.receive(source, frame, self.now))
