"""Who publishes the wills of a dead node's clients, and when nobody does."""

import pytest

from gossamer.mqtt.cluster.wills import MEET_TIMEOUT, REFUSALS, UNREACHABLE_TIMEOUT, Wills

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

        return View()

    def tell(self, owner, written, deleted):
        self.positions[owner] = self.positions.get(owner, 0) + 1
        for name, wills in self.cluster.nodes.items():
            if name != owner and self.cluster.sees(name, owner):
                wills.changed(owner, written, deleted)
        return 1


class Cluster:
    def __init__(self, *names):
        self.table = Table(self)
        self.connected = {}
        self.now = 100.0
        self.published = []
        self.nodes = {}
        self.creations = {}
        self.apart = set()
        for name in names:
            self.add(name)

    def sees(self, one, other):
        return {one, other} <= self.nodes.keys() and frozenset((one, other)) not in self.apart

    def add(self, name, *, disc=True, seen=None):
        """A life of a node begins, with what its disc has."""
        creation = self.creations[name] = self.creations.get(name, 0) + 1
        clients = self.connected[name] = set()
        wills = Wills(
            node=name,
            creation=creation,
            grace=GRACE,
            connected=clients.__contains__,
            wall=lambda: self.now + 1e9,
        )
        self.nodes[name] = wills
        if not disc:
            self.table.rows.pop(name, None)
        wills.table = self.table.of(name)
        wills.begin(1 if disc else creation, seen or {}, self.now)
        for other in self.nodes:
            if other != name and self.sees(name, other):
                wills.node_up(other, self.creations[other])
                self.nodes[other].node_up(name, creation)
        return wills

    def connect(self, name, client_id):
        self.connected[name].add(client_id)
        if self.nodes[name].returned(client_id):
            self.tell_back(client_id)

    def tell_back(self, client_id):
        for wills in self.nodes.values():
            wills.back(client_id, self.now)

    def down(self, name, *, at):
        for client_id in self.nodes[at].node_down(name, self.creations[name], self.now, left=False):
            self.tell_back(client_id)

    def die(self, name, *, proven=True):
        del self.nodes[name]
        for other in self.nodes:
            self.down(name, at=other)
            for _ in range(REFUSALS * proven):
                self.nodes[other].refused(name, refused=True)

    def leave(self, name):
        """A node leaves in order, and goes on alone: to each side it is the other that leaves."""
        leaver = self.nodes[name]
        leaver.withdrawn = lambda: True
        for other in self.nodes.keys() - {name}:
            self.apart.add(frozenset((name, other)))
            leaver.node_down(other, self.creations[other], self.now, left=True)
            self.nodes[other].node_down(name, self.creations[name], self.now, left=True)

    def cut(self, one, *others):
        for other in others:
            self.apart.add(frozenset((one, other)))
            self.down(one, at=other)
            self.down(other, at=one)

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
                self.nodes[there].spent(spent)
                self.nodes[here].told(spent)

    def publish(self, name):
        wills = self.nodes[name]
        keys, ends = wills.due(self.now)
        others = [n for n in self.nodes if n != name and self.sees(name, n)]
        answers = [self.nodes[n].asked(name, keys, ends, self.now) for n in others]
        self.published += [(name, record) for _, record in wills.settle(keys, answers, self.now)]

    def wait(self, seconds):
        for _ in range(int(seconds)):
            self.now += 1
            for name in list(self.nodes):
                self.publish(name)


def test_the_first_survivor_publishes_once_after_the_grace():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.die("c")
    cluster.wait(GRACE - 1)
    assert cluster.published == []
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_leaves_does_not_publish_a_delayed_will_of_those_that_stay(restarts):
    cluster = Cluster("a", "b", "c")
    cluster.nodes["b"].hold("x", b"will", 2)
    cluster.nodes["b"].count_down("x", 2)
    cluster.leave("a")
    cluster.wait(1)
    if restarts:
        del cluster.nodes["a"]
        cluster.add("a")
    cluster.wait(1)
    cluster.nodes["b"].end("x", cluster.now)
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_a_node_that_leaves_does_not_publish_the_wills_of_one_that_died_before():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.die("c")
    cluster.leave("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_what_is_released_is_not_published():
    cluster = Cluster("a", "b")
    cluster.nodes["b"].hold("x", b"will", 0)
    cluster.nodes["b"].release("x")
    cluster.die("b")
    cluster.wait(100)
    assert cluster.published == []


def test_a_connection_that_ends_has_its_will_published_once_the_others_agree():
    cluster = Cluster("a", "b")
    cluster.nodes["b"].hold("x", b"will", 0)
    assert cluster.nodes["b"].end("x", cluster.now)
    cluster.publish("b")
    cluster.die("b")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_the_next_one_goes_on_where_the_first_survivor_dies():
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.nodes["e"].hold("x", b"will", 50)
    cluster.die("e")
    cluster.wait(20)
    cluster.die("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_the_last_of_three_publishes_the_wills_of_both_that_died():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["a"].hold("x", b"one", 0)
    cluster.nodes["b"].hold("y", b"two", 0)
    cluster.die("a")
    cluster.die("b")
    cluster.wait(30)
    assert cluster.published == [("c", b"one"), ("c", b"two")]


def test_a_node_that_is_silent_is_not_dead_for_a_minute():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.die("c", proven=False)
    cluster.wait(UNREACHABLE_TIMEOUT - 1)
    assert cluster.published == []
    cluster.wait(10)
    assert cluster.published == [("a", b"will")]


@pytest.mark.parametrize("ends", ["before", "behind", "after"])
@pytest.mark.parametrize("minutes", [0.5, 5])
def test_both_sides_of_a_cut_publish_a_will_once(ends, minutes):
    """Whether the client falls behind the cut, or after it, and whoever was taken for dead."""
    cluster = Cluster("a", "b", "c")
    cluster.nodes["a"].hold("x", b"will", 0)
    cluster.cut("a", "b", "c")
    if ends == "behind":
        assert cluster.nodes["a"].end("x", cluster.now)
    cluster.wait(60 * minutes)
    cluster.heal()
    cluster.wait(10)
    if ends == "after":
        cluster.nodes["a"].end("x", cluster.now)
    cluster.wait(100)
    published = [record for _, record in cluster.published]
    assert published == ([b"will"] if minutes > 1 or ends != "before" else [])


def test_a_goodbye_behind_a_cut_that_heals_leaves_no_will():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["a"].hold("x", b"will", 0)
    cluster.cut("a", "b", "c")
    cluster.nodes["a"].release("x")
    cluster.wait(30)
    cluster.heal()
    cluster.wait(100)
    assert cluster.published == []


def test_a_will_that_began_behind_the_cut_is_of_this_side_alone():
    cluster = Cluster("a", "b", "c")
    cluster.cut("a", "b", "c")
    cluster.nodes["a"].hold("x", b"will", 0)
    assert cluster.nodes["a"].end("x", cluster.now)
    cluster.wait(2)
    assert cluster.published == [("a", b"will")]
    cluster.heal()
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


def test_whoever_sees_the_node_alive_keeps_others_from_publishing():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.cut("c", "a")
    cluster.wait(200)
    assert cluster.published == []


def test_a_survivor_that_saw_the_goodbye_is_right():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0)
    cluster.down("c", at="a")
    cluster.nodes["c"].release("x")
    del cluster.nodes["c"]
    cluster.down("c", at="b")
    cluster.wait(200)
    assert cluster.published == []


@pytest.mark.parametrize("late", [1, 4, 8])
@pytest.mark.parametrize("name", ["n1", "n2", "n3"])
def test_a_delayed_will_is_published_once_where_its_node_is_back_while_others_hold_it(name, late):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes[name].hold("c", b"will", 5)
    cluster.nodes[name].count_down("c", 5)
    cluster.die(name)
    cluster.wait(late)
    cluster.add(name)
    cluster.wait(100)
    assert [record for _, record in cluster.published] == [b"will"]


@pytest.mark.parametrize("stays", [True, False])
def test_a_delayed_will_is_void_in_the_next_life_of_its_node_where_its_client_came_back_before(stays):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes["n3"].hold("c", b"will", 5)
    cluster.nodes["n3"].count_down("c", 5)
    cluster.wait(1)
    cluster.die("n3")
    cluster.connect("n1", "c")
    if not stays:
        cluster.wait(1)
        cluster.connected["n1"].discard("c")
    cluster.add("n3")
    cluster.wait(MEET_TIMEOUT + 30)
    assert cluster.published == []


def test_a_delayed_will_of_a_later_connection_is_published_in_the_next_life_of_its_node():
    cluster = Cluster("n1", "n2", "n3")
    cluster.tell_back("c")
    cluster.wait(2)
    cluster.nodes["n3"].hold("c", b"will", 5)
    cluster.nodes["n3"].count_down("c", 5)
    cluster.die("n3", proven=False)
    cluster.add("n3")
    cluster.wait(MEET_TIMEOUT + 30)
    assert [record for _, record in cluster.published] == [b"will"]


@pytest.mark.parametrize("published", [True, False])
def test_what_others_saw_end_is_not_published_by_a_next_life_whose_disc_was_behind(published):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes["n2"].hold("c", b"will", 0)
    behind = dict(cluster.table.rows["n2"])
    if published:
        assert cluster.nodes["n2"].end("c", cluster.now)
        cluster.wait(2)
        assert cluster.published == [("n2", b"will")]
    else:
        cluster.nodes["n2"].release("c")
    sent = list(cluster.published)
    cluster.die("n2")
    # Its disc was full.
    cluster.table.rows["n2"] = behind
    cluster.add("n2")
    cluster.wait(MEET_TIMEOUT + 2 * UNREACHABLE_TIMEOUT)
    assert cluster.published == sent


@pytest.mark.parametrize("when", ["before", "after", "held"])
def test_a_delayed_will_is_void_when_its_client_is_back_on_a_third_node(when):
    """Whether it comes before the death is noticed, after it, or once the will is held."""
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 30)
    if when == "before":
        cluster.connect("b", "x")
    cluster.die("c")
    if when == "held":
        cluster.wait(10)
        assert cluster.table.rows["a"]
    if when != "before":
        cluster.connect("b", "x")
        cluster.connected["b"].clear()
    cluster.wait(100)
    assert cluster.published == []


@pytest.mark.parametrize("seconds", [5, 100])
@pytest.mark.parametrize("asks", ["before", "after"])
def test_a_delayed_will_is_void_at_a_node_that_slept_while_its_client_came_and_went(seconds, asks):
    """Whether it asks for what is due before or after others say that they have taken it for dead."""
    cluster = Cluster("a", "b", "c")
    sleeper = cluster.nodes["c"]
    sleeper.hold("x", b"will", 5)
    sleeper.count_down("x", 5)
    del cluster.nodes["c"]
    for other in ("a", "b"):
        cluster.down("c", at=other)
    cluster.wait(1)
    cluster.connect("a", "x")
    cluster.connected["a"].discard("x")
    cluster.wait(seconds)
    cluster.nodes["c"] = sleeper
    assert sleeper.end("x", cluster.now)
    if asks == "before":
        cluster.publish("c")
    cluster.meet("c", "a")
    cluster.meet("c", "b")
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
    def test_alone_it_publishes_what_its_disc_had(self):
        cluster = Cluster("z")
        cluster.nodes["z"].hold("x", b"will", 0)
        cluster.nodes["z"].hold("y", b"late", 60)
        cluster.die("z")
        cluster.add("z")
        cluster.wait(MEET_TIMEOUT - 1)
        assert cluster.published == []
        cluster.wait(2)
        assert cluster.published == [("z", b"will")]
        cluster.wait(100)
        assert cluster.published == [("z", b"will"), ("z", b"late")]

    @pytest.mark.parametrize("pause", [1, 20])
    @pytest.mark.parametrize("disc", [True, False])
    def test_it_or_who_saw_it_die_publishes_them_once(self, pause, disc):
        cluster = Cluster("a", "b", "z")
        cluster.nodes["z"].hold("x", b"will", 0)
        for _ in range(3):
            cluster.die("z")
            cluster.wait(pause)
            cluster.add("z", disc=disc)
            cluster.wait(pause)
        cluster.wait(100)
        assert [record for _, record in cluster.published] == [b"will"]

    def test_after_all_have_died_one_that_was_published_is_not_published_again(self):
        cluster = Cluster("a", "b", "z")
        cluster.nodes["z"].hold("x", b"will", 0)
        cluster.die("z")
        cluster.wait(30)
        for name in ("a", "b"):
            cluster.die(name)
        for name in ("z", "a", "b"):
            cluster.add(name, seen={"a": 1, "b": 1, "z": 1})
        cluster.wait(100)
        assert [record for _, record in cluster.published] == [b"will"]

    def test_it_waits_for_those_who_were_there_before_it_publishes_alone(self):
        cluster = Cluster("z")
        cluster.nodes["z"].hold("x", b"will", 0)
        cluster.die("z")
        cluster.add("z", seen={"a": 1, "b": 1})
        cluster.wait(UNREACHABLE_TIMEOUT)
        assert cluster.published == []
        cluster.wait(MEET_TIMEOUT + 1)
        assert cluster.published == [("z", b"will")]

    def test_what_its_disc_does_not_have_was_void(self):
        cluster = Cluster("a", "b", "z")
        cluster.nodes["z"].hold("x", b"will", 0)
        cluster.die("z")
        del cluster.table.rows["z"]["x"]
        cluster.add("z")
        cluster.wait(100)
        assert cluster.published == []
