"""A seeded network of replication state machines: it drops, doubles, reorders, cuts, crashes."""

from __future__ import annotations

import heapq
import itertools
import random
from typing import Any

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.exchange.replica import Change
from gossamer.mnesia_like.replicate.replication import Action, OwnedState, Replication, Send

DEFINITION = TableDef(name="routes", replication="owned", grace=20.0)


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


class Lossy:
    """Machines joined by links that are as bad as ``loss`` says until :meth:`mend`."""

    def __init__(
        self,
        seed: int,
        names: list[str],
        *,
        loss: float = 0.2,
        definition: TableDef = DEFINITION,
        **options: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.now = 0.0
        self.definition = definition
        self.options = options
        self.creation = itertools.count(1)
        self.machines: dict[str, Machine] = {}
        self.cut: set[frozenset[str]] = set()
        self.frames = 0
        self._order = itertools.count()
        self._wire: list[tuple[float, int, str, str, int, bytes]] = []
        for name in names:
            self.boot(name)

    def boot(self, name: str) -> None:
        machine = Machine(name, next(self.creation), self.now, self.definition, **self.options)
        self.machines[name] = machine
        for other in self.machines.values():
            if other is not machine and frozenset((name, other.name)) not in self.cut:
                self._up(other, machine)
                self._up(machine, other)

    def crash(self, name: str) -> None:
        del self.machines[name]
        for other in self.machines.values():
            self.run(other, other.core.peer_down(name, self.now))

    def leave(self, name: str) -> None:
        del self.machines[name]
        for other in self.machines.values():
            self.run(other, other.core.peer_down(name, self.now, left=True))

    def partition(self, one: str, two: str) -> None:
        pair = frozenset((one, two))
        if pair in self.cut or one == two:
            return
        self.cut.add(pair)
        if one in self.machines and two in self.machines:
            for a, b in ((one, two), (two, one)):
                machine = self.machines[a]
                self.run(machine, machine.core.peer_down(b, self.now))

    def heal(self, one: str, two: str) -> None:
        pair = frozenset((one, two))
        if pair not in self.cut:
            return
        self.cut.discard(pair)
        if one in self.machines and two in self.machines:
            self._up(self.machines[one], self.machines[two])
            self._up(self.machines[two], self.machines[one])

    def write(self, name: str, key: Any, value: Any) -> None:
        self.machines[name].state.log.write(key, value)

    def delete(self, name: str, key: Any) -> None:
        self.machines[name].state.log.delete(key)

    def flush(self, name: str) -> None:
        machine = self.machines[name]
        self.run(machine, machine.core.flush(self.now))

    def blink(self, one: str, two: str) -> None:
        """Only ``one`` sees the other go down and come back."""
        pair = frozenset((one, two))
        if one != two and pair not in self.cut and one in self.machines and two in self.machines:
            machine = self.machines[one]
            self.run(machine, machine.core.peer_down(two, self.now))
            self._up(machine, self.machines[two])

    def mend(self) -> None:
        self.loss = 0.0
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
                self.now, _, source, target, creation, frame = heapq.heappop(self._wire)
                self._deliver(source, target, creation, frame)
            else:
                self.now = tick
                tick += 0.5
                for machine in list(self.machines.values()):
                    self.run(machine, machine.core.tick(self.now))
                    self.ticked(machine)
                    while machine.core.busy:
                        self.run(machine, machine.core.work(self.now))
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
                self._send(machine, action.peer, action.frame)
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

    def _up(self, machine: Machine, peer: Machine) -> None:
        self.run(machine, machine.core.peer_up(peer.name, peer.core.creation, self.now))

    def _send(self, machine: Machine, peer: str, frame: bytes) -> None:
        assert len(frame) <= 256 * 1024
        self.frames += 1
        copies = 1
        if self.random.random() < self.loss:
            copies = self.random.choice((0, 0, 2))
        for _ in range(copies):
            delay = 0.01 + (self.random.random() * 3.0 * self.loss if self.loss else 0.0)
            entry = (
                self.now + delay,
                next(self._order),
                machine.name,
                peer,
                machine.core.creation,
                frame,
            )
            heapq.heappush(self._wire, entry)

    def _deliver(self, source: str, target: str, creation: int, frame: bytes) -> None:
        machine = self.machines.get(target)
        if machine is None or frozenset((source, target)) in self.cut:
            return
        self.run(machine, machine.core.receive(source, frame, self.now))
