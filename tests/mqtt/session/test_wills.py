"""Who publishes the wills of a cluster's clients, and when nobody does: the scenarios of ``wills.txt``."""

import itertools
from pathlib import Path

import pytest

from gossamer.mqtt.messages.message_ids import NO_ID, UNRECORDED
from gossamer.mqtt.session.will_nodes import REFUSALS
from gossamer.mqtt.session.wills import Wills

GRACE = 5.0


class Table:
    """The owned table ``wills`` of a whole cluster, seen without delay by those who see its owner."""

    def __init__(self, cluster):
        self.rows = {}
        self.positions = {}
        self.cluster = cluster

    def of(self, node):
        table = self

        class View:
            def write(self, key, value):
                table.rows.setdefault(node, {})[key] = value
                return table.tell(node, {key: value}, [])

            def delete(self, key):
                gone = table.rows.get(node, {}).pop(key, None) is not None
                return table.tell(node, {}, [key]) if gone else 1

            def rows_of(self, owner):
                return dict(table.rows.get(owner, {}))

            def seen_of(self, owner):
                return table.positions.get(owner, 0)

            def are_visible(self):
                return True

        return View()

    def tell(self, owner, written, deleted):
        self.positions[owner] = self.positions.get(owner, 0) + 1
        for name, wills in self.cluster.nodes.items():
            if name != owner and self.cluster.sees(name, owner):
                wills.changed(owner, written, deleted)
        return 1


class Cluster:
    """Nodes with their wills, and the steps of a scenario: each takes its words, and seconds as text."""

    def __init__(self):
        self.table = Table(self)
        self.connected = {}
        self.now = 100.0
        self.publishers = []
        self.message_ids = []
        self.nodes = {}
        self.asleep = {}
        self.creations = {}
        self.apart = set()
        self.discs = {}
        self.stamps = []
        self.slow = set()

    def sees(self, one, other):
        return {one, other} <= self.nodes.keys() and frozenset((one, other)) not in self.apart

    # Nodes.

    def nodes_(self, *names):
        for name in names:
            self.start(name)

    def start(self, name, *seen, disc=True):
        """A life of a node begins, with what its disc has; it has ``seen`` these before."""
        creation = self.creations[name] = self.creations.get(name, 0) + 1
        clients = self.connected[name] = set()
        wills = Wills(
            node=name,
            creation=creation,
            grace=GRACE,
            connected=clients.__contains__,
            wall=lambda: self.now + 1e9,
            next_number=itertools.count(UNRECORDED + 1).__next__,
        )
        self.nodes[name] = wills
        if not disc:
            self.table.rows.pop(name, None)
        wills.table = self.table.of(name)
        wills.begin(1 if disc else creation, dict.fromkeys(seen, 1), self.now)
        for other in self.nodes:
            if other != name and self.sees(name, other):
                wills.node_up(other, self.creations[other])
                self.nodes[other].node_up(name, creation)

    def start_empty(self, name):
        self.start(name, disc=False)

    def stop(self, name):
        """It is gone, and nobody has noticed."""
        del self.nodes[name]

    def restart(self, name):
        self.stop(name)
        self.start(name)

    def freeze(self, name):
        self.asleep[name] = self.nodes.pop(name)

    def thaw(self, name):
        self.nodes[name] = self.asleep.pop(name)

    def down(self, name, at):
        for client_id in self.nodes[at].node_down(name, self.creations[name], self.now, left=False):
            self.back(client_id)

    def die(self, name, *, refusals=REFUSALS):
        self.stop(name)
        for other in self.nodes:
            self.down(name, other)
            for _ in range(refusals):
                self.nodes[other].nodes.refused(name, refused=True)

    def die_silent(self, name):
        """There is no proof of it."""
        self.die(name, refusals=0)

    def leave(self, name):
        """A node leaves in order, and goes on alone: to each side it is the other that leaves."""
        leaver = self.nodes[name]
        leaver.withdrawn = lambda: True
        others = self.nodes.keys() - {name}
        for other in others:
            self.apart.add(frozenset((name, other)))
            self.nodes[other].node_down(name, self.creations[name], self.now, left=True)
        for other in others:
            # Nobody sees what it does from now on.
            leaver.node_down(other, self.creations[other], self.now, left=True)

    def cut(self, one, *others):
        for other in others:
            self.apart.add(frozenset((one, other)))
            self.down(one, other)
            self.down(other, one)

    def cut_unnoticed(self, one, *others):
        """The one does not notice."""
        for other in others:
            self.apart.add(frozenset((one, other)))
            self.down(one, other)

    def see_all(self):
        self.apart.clear()

    def heal(self):
        apart, self.apart = self.apart, set()
        for one, other in map(sorted, apart):
            self.meet(one, other)

    def meet(self, one, other):
        for here, there in ((one, other), (other, one)):
            rows = self.table.rows.get(there, {})
            spent = self.nodes[here].node_up(there, self.creations[there])
            self.nodes[here].changed(there, rows, [])
            if spent:
                self.nodes[there].spent(spent, self.now)
                self.nodes[here].forget_done(spent)

    # Discs.

    def save_disc(self, name):
        self.discs[name] = dict(self.table.rows[name])

    def restore_disc(self, name):
        """It was full since."""
        self.table.rows[name] = self.discs[name]

    def lose_row(self, name, client_id):
        del self.table.rows[name][client_id]

    def slow_(self, name):
        """What it publishes is safe nowhere yet."""
        self.slow.add(name)

    def safe(self, name):
        self.slow.discard(name)
        for key in list(self.nodes[name].publishing):
            self.nodes[name].published(key, self.now)

    def has_rows(self, name):
        assert self.table.rows[name]

    def no_rows(self):
        assert not any(self.table.rows.values())

    # Clients.

    def hold(self, name, client_id, delay):
        self.nodes[name].hold(client_id, b"will", float(delay), self.now)

    def count_down(self, name, client_id, seconds):
        self.nodes[name].count_down(client_id, float(seconds))

    def release(self, name, client_id):
        self.nodes[name].release(client_id, self.now)

    def end(self, name, client_id):
        self.nodes[name].end(client_id, self.now)

    def connect(self, name, client_id):
        self.connected[name].add(client_id)
        if self.nodes[name].returned(client_id):
            self.back(client_id)

    def disconnect(self, name, client_id):
        self.wait(1)
        self.connected[name].discard(client_id)

    def visit(self, name, client_id):
        self.connect(name, client_id)
        self.connected[name].discard(client_id)

    def back(self, client_id):
        for wills in self.nodes.values():
            wills.back(client_id, self.now)

    # The session of a client ``x`` that is gone moves, with its will, and its source has not let go yet.

    def move(self, source, target, seconds):
        self.hold(source, "x", seconds)
        self.count_down(source, "x", seconds)
        self.move_on(source, target, seconds)

    def move_on(self, source, target, seconds):
        self.stamps = self.nodes[source].offer("x")
        assert self.resume(target, seconds)

    def let_go(self, source, target):
        self.nodes[source].let_go("x")
        self.nodes[target].moved("x", source)

    def move_fails(self, source, seconds):
        """The source has its session again, while the target goes on with it."""
        assert self.resume(source, seconds)

    def move_over(self, source):
        """The source would have it again, and its will is over."""
        assert not self.resume(source, 1)

    def resume(self, name, seconds):
        return self.nodes[name].resume("x", b"will", float(seconds), self.stamps, self.now)

    # Time.

    def publish(self, name):
        wills = self.nodes[name]
        keys, ends = wills.due(self.now)
        others = [n for n in self.nodes if n != name and self.sees(name, n)]
        answers = [self.nodes[n].asked(name, keys, ends, wills.former(keys), self.now) for n in others]
        for key, _, message_id in wills.settle(keys, answers, self.now):
            if name not in self.slow:
                wills.published(key, self.now)
            self.publishers.append(name)
            self.message_ids.append(message_id)

    def wait(self, seconds):
        for _ in range(int(seconds)):
            self.now += 1
            for name in list(self.nodes):
                self.publish(name)

    def at(self, when, which, step, *words):
        """The step, where the scenario's value is this one."""
        if when == which:
            getattr(self, step)(*words)

    def published(self, *names):
        assert self.publishers == [name for name in names if name != "-"]

    def published_once(self):
        assert len(self.publishers) == 1

    def one_message(self):
        """A session of QoS 2 takes it once, however often it was published."""
        assert len(set(self.message_ids)) == 1
        assert NO_ID not in self.message_ids

    def two_messages(self):
        assert len(set(self.message_ids)) == 2


def scenarios():
    """Title and steps of each scenario, once for each of its values."""
    _, *blocks = Path(__file__).with_name("wills.txt").read_text().split("\n\n")
    for block in blocks:
        title, *lines = block.strip().splitlines()
        choices = []
        while lines[0].strip().startswith("with "):
            names, _, values = lines.pop(0).strip().removeprefix("with ").partition(" = ")
            keys = names.split(", ")
            choices.append([list(zip(keys, value.split(", "), strict=True)) for value in values.split(" | ")])
        for chosen in itertools.product(*choices):
            values = dict(itertools.chain.from_iterable(chosen))
            steps = [line.strip().format(**values).split() for line in lines]
            yield pytest.param(steps, id=", ".join([title, *values.values()]))


@pytest.mark.parametrize("steps", list(scenarios()))
def test_a_will_is_published_once_or_is_void(steps):
    cluster = Cluster()
    for name, *words in steps:
        getattr(cluster, {"nodes": "nodes_", "slow": "slow_"}.get(name, name))(*words)
