"""Many healers on one virtual clock: links that can be cut any way, nodes that die and come back."""

from gossamer.autoheal.coordinator import Reconcile
from gossamer.autoheal.machine import Healer
from gossamer.autoheal.values import Cluster, Incident, Partition, Peer, Reconciled, Reload, Tell

STEP = 0.5


class Town:
    """Nodes ``n1`` to ``n<size>``, started in this order; ``notice`` seconds make a death of a silence."""

    def __init__(self, size, *, delay=15.0, notice=3.0, gate=30.0):
        self.now = 1000.0
        self.delay, self.notice, self.gate = delay, notice, gate
        self.names = [f"n{number}" for number in range(1, size + 1)]
        self.creations = dict.fromkeys(self.names, 1)
        self.started = {name: float(number) for number, name in enumerate(self.names)}
        self.discs = dict.fromkeys(self.names)
        self.healers = {}
        self.deaf = set()  # (listener, speaker): the listener does not hear the speaker
        self.silent = {}  # (listener, speaker) -> since when
        self.dead = set()  # (holder, held): declared down
        self.linked = set()  # (one, other), both ways
        self._unmarked = set()
        self.mail = []
        self.lose = lambda to, message: False
        self.events = []  # (node, event)
        self.reloads = []
        for name in self.names:
            self.boot(name)
        self.run(2)

    def boot(self, name):
        self.healers[name] = Healer(
            node=name,
            creation=self.creations[name],
            start_time=self.started[name],
            delay=self.delay,
            gate=self.gate,
            state=self.discs[name],
        )

    def kill(self, name):
        del self.healers[name]

    def restart(self, name):
        self.creations[name] += 1
        self.started[name] = self.now
        self.dead -= {pair for pair in self.dead if pair[0] == name}
        self.boot(name)

    # -- the network

    def split(self, *groups):
        """Cut everything between the groups of numbers."""
        self.deaf = {
            (f"n{a}", f"n{b}")
            for group in groups
            for a in group
            for other in groups
            if other is not group
            for b in other
        }

    def cut(self, listener, speaker):
        self.deaf.add((f"n{listener}", f"n{speaker}"))

    def join(self):
        self.deaf.clear()

    def hears(self, listener, speaker):
        return listener in self.healers and speaker in self.healers and (listener, speaker) not in self.deaf

    # -- time

    def run(self, seconds):
        for _ in range(int(seconds / STEP)):
            self.step()

    def until(self, holds, most=300):
        begun = self.now
        while not holds():
            assert self.now - begun < most, self.tell()
            self.step()
        return self.now - begun

    def tell(self):
        return {
            name: (healer.leader.phase, healer.marks.marks, healer.coordinator.work)
            for name, healer in self.healers.items()
        }

    def step(self):
        self.now += STEP
        self._verdicts()
        self._links()
        mail, self.mail = self.mail, []
        for source, to, message in mail:
            if source == to or (source, to) in self.linked:
                healer = self.healers.get(to)
                if healer is not None and not self.lose(to, message):
                    self.act(to, healer.receive(message, self.cluster(to), self.now, self.now))
        for name in self.names:
            if name in self.healers:
                self.act(name, self.healers[name].tick(self.cluster(name), self.now, self.now))

    def _verdicts(self):
        for listener in self.healers:
            for speaker in self.names:
                pair = (listener, speaker)
                if listener == speaker:
                    continue
                if self.hears(*pair):
                    self.silent.pop(pair, None)
                    self.dead.discard(pair)
                elif self.now - self.silent.setdefault(pair, self.now) >= self.notice:
                    self.dead.add(pair)

    def _links(self):
        for one in self.names:
            for other in self.names:
                if one >= other:
                    continue
                ends = (one, other), (other, one)
                up = all(end not in self.dead and end[0] in self.healers for end in ends)
                reachable = all(self.hears(*end) for end in ends)
                if ends[0] in self.linked:
                    if up:
                        continue
                    self.linked -= set(ends)
                    for here, there in ends:
                        if here in self.healers:
                            reason = "down" if (here, there) in self.dead else "forgotten by the peer"
                            self.healers[here].marks.down(there, self.creations[there], reason, self.now)
                            self._unmarked.discard((here, there))
                            if reason != "down":
                                self._unmarked.add((here, there))
                elif up and reachable:
                    self.linked |= set(ends)
                    self._unmarked -= set(ends)
                    for here, there in ends:
                        self.act(here, self.healers[here].up(there))
                else:
                    # The other end gave it up first; its own verdict comes later.
                    for here, there in ends:
                        if (here, there) in self._unmarked and (here, there) in self.dead:
                            self._unmarked.discard((here, there))
                            if here in self.healers:
                                self.healers[here].marks.down(there, self.creations[there], "down", self.now)

    def cluster(self, name):
        online = {
            other: Peer(other, self.creations[other], self.started[other])
            for other in self.names
            if other == name or (name, other) in self.linked
        }
        return Cluster(online, frozenset(self.names))

    def act(self, name, actions):
        healer = self.healers[name]
        if healer.changed:
            self.discs[name] = healer.state()
        for action in actions:
            match action:
                case Tell(to, message):
                    self.mail.append((name, to, message))
                case Reload():
                    self.reloads.append(name)
                    self.act(name, healer.store_reloaded(action))
                case Reconcile(plan):
                    healer.coordinator.reconciled(plan.id, Reconciled(restored=1))
                case event:
                    self.events.append((name, event))

    # -- what came of it

    def pairs(self):
        """Who raised ``inconsistent_database`` about whom, in order."""
        return [(name, event.peer) for name, event in self.events if isinstance(event, Partition)]

    def contexts(self):
        return {event.context for _, event in self.events if isinstance(event, Partition)}

    def episodes(self, name):
        return [event for node, event in self.events if node == name and isinstance(event, Incident)]

    @property
    def healed(self):
        return all(
            not healer.marks.marks and not healer.unresolved and healer.leader.phase == "idle"
            for healer in self.healers.values()
        )
