"""Who publishes the wills of a dead node's clients, and when nobody does."""

import pytest

from gossamer.mqtt.wills import WITNESSES_WITHIN, Wills

GRACE = 5.0


class Table:
    """The owned table ``wills`` of a whole cluster, seen without delay."""

    def __init__(self):
        self.rows = {}
        self.views = []

    def of(self, node):
        table = self

        class View:
            def write(self, key, value):
                table.rows.setdefault(node, {})[key] = value
                table.tell(node, [key], [])
                return 1

            def delete(self, key):
                if table.rows.get(node, {}).pop(key, None) is not None:
                    table.tell(node, [], [key])
                return 1

            def rows_of(self, owner):
                return dict(table.rows.get(owner, {}))

        return View()

    def tell(self, owner, written, deleted):
        for name, wills in self.views:
            if name != owner:
                wills.adopted(owner, written, deleted)


class Cluster:
    def __init__(self, *names):
        self.table = Table()
        self.connected = {}
        self.now = 100.0
        self.published = []
        self.nodes = {}
        for name in names:
            self.add(name)
        for name in names:
            for other in names:
                if name != other:
                    self.nodes[name].node_up(other, 1)

    def add(self, name):
        clients = self.connected[name] = set()
        wills = Wills(node=name, grace=GRACE, connected=clients.__contains__)
        wills.table = self.table.of(name)
        self.nodes[name] = wills
        self.table.views = list(self.nodes.items())
        return wills

    def connect(self, name, client_id):
        self.connected[name].add(client_id)
        if self.nodes[name].returned(client_id):
            self.tell_back(client_id)

    def tell_back(self, client_id):
        for wills in self.nodes.values():
            wills.back(client_id, self.now)

    def die(self, name, *, seen_by=None):
        del self.nodes[name]
        self.table.views = list(self.nodes.items())
        for wills in self.nodes.values() if seen_by is None else [self.nodes[n] for n in seen_by]:
            for client_id in wills.node_down(name, 1, self.now, left=False):
                self.tell_back(client_id)

    def wait(self, seconds):
        for _ in range(int(seconds)):
            self.now += 1
            for name, wills in self.nodes.items():
                self.published += [(name, record) for record in wills.due(self.now)]


def test_the_first_survivor_publishes_once_after_the_grace():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.die("c")
    cluster.wait(GRACE - 1)
    assert cluster.published == []
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]
    assert cluster.table.rows["a"] == {}


def test_what_is_released_is_not_published():
    cluster = Cluster("a", "b")
    cluster.nodes["b"].hold("x", b"will", 0)
    cluster.nodes["b"].release("x")
    cluster.die("b")
    cluster.wait(100)
    assert cluster.published == []


def test_the_next_one_goes_on_where_the_first_survivor_dies():
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.nodes["e"].hold("x", b"will", 50)
    cluster.die("e")
    cluster.wait(20)
    cluster.die("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_less_than_half_publishes_nothing():
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.nodes["e"].hold("x", b"will", 0)
    for name in ("e", "d", "c"):
        cluster.die(name, seen_by=["a"])
    cluster.wait(30)
    assert cluster.published == []


def test_a_node_that_is_back_in_the_same_life_keeps_its_wills():
    cluster = Cluster("a", "b")
    c = cluster.nodes["b"]
    c.hold("x", b"will", 0)
    cluster.die("b")
    cluster.wait(2)
    cluster.nodes["a"].node_up("b", 1)
    cluster.wait(100)
    assert cluster.published == []


@pytest.mark.parametrize("when", ["before", "after", "adopted"])
def test_a_delayed_will_is_void_when_its_client_is_back_on_a_third_node(when):
    """Whether it comes before the death is noticed, after it, or once the will is adopted."""
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 30)
    if when == "before":
        cluster.connect("b", "x")
    cluster.die("c")
    if when == "adopted":
        cluster.wait(10)
        assert cluster.table.rows["a"]
    if when != "before":
        cluster.connect("b", "x")
        cluster.connected["b"].clear()
    cluster.wait(100)
    assert cluster.published == []


def test_one_that_is_back_first_is_remembered_by_those_who_learn_of_the_death_later():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 30)
    cluster.connect("b", "x")
    cluster.die("c", seen_by=["b"])
    cluster.wait(5)
    cluster.nodes["a"].node_down("c", 1, cluster.now, left=False)
    cluster.wait(100)
    assert cluster.published == []


def test_a_will_without_delay_is_published_though_its_client_is_back():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.connect("b", "x")
    cluster.die("c")
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


class TestANewLife:
    def life(self, witnesses, *, others=()):
        cluster = Cluster(*others)
        wills = cluster.add("z")
        for name in others:
            wills.node_up(name, 1)
        wills.begin(witnesses, cluster.now)
        wills.restore("x", b"will", 0, cluster.now)
        wills.restore("y", b"late", 60, cluster.now)
        return cluster

    def test_alone_it_publishes_what_its_disc_had(self):
        cluster = self.life({})
        cluster.wait(WITNESSES_WITHIN - 1)
        assert cluster.published == []
        cluster.wait(2)
        assert cluster.published == [("z", b"will")]
        cluster.wait(100)
        assert cluster.published == [("z", b"will"), ("z", b"late")]

    def test_those_who_saw_it_die_have_done_so(self):
        cluster = self.life({"a": 1}, others=["a"])
        cluster.wait(100)
        assert cluster.published == []

    def test_one_who_died_too_has_not(self):
        cluster = self.life({"a": 0}, others=["a"])
        cluster.wait(100)
        assert [record for _, record in cluster.published] == [b"will", b"late"]

    def test_a_client_that_is_back_voids_what_is_delayed(self):
        cluster = self.life({})
        cluster.nodes["z"].back("x", cluster.now)
        cluster.nodes["z"].back("y", cluster.now)
        cluster.wait(100)
        assert cluster.published == [("z", b"will")]
