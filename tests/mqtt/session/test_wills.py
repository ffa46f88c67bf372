"""Who publishes the wills of a dead node's clients, and when nobody does."""

import pytest

from gossamer.mqtt.session.wills import MEET_TIMEOUT, REFUSALS, UNREACHABLE_TIMEOUT, Wills

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
            self.nodes[other].node_down(name, self.creations[name], self.now, left=True)
        for other in self.nodes.keys() - {name}:
            # Nobody sees what it does from now on.
            leaver.node_down(other, self.creations[other], self.now, left=True)

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
                self.nodes[there].spent(spent, self.now)
                self.nodes[here].told(spent)

    def move(self, client_id, source, target, *, seconds):
        """The session of a client that is gone moves, with its will, and its source has not let go yet."""
        stamps = self.nodes[source].offer(client_id)
        assert self.nodes[target].resume(client_id, b"will", seconds, stamps, self.now)
        return stamps

    def publish(self, name):
        wills = self.nodes[name]
        keys, ends = wills.due(self.now)
        others = [n for n in self.nodes if n != name and self.sees(name, n)]
        answers = [self.nodes[n].asked(name, keys, ends, wills.former(keys), self.now) for n in others]
        self.published += [(name, record) for _, record in wills.settle(keys, answers, self.now)]

    def wait(self, seconds):
        for _ in range(int(seconds)):
            self.now += 1
            for name in list(self.nodes):
                self.publish(name)


def test_the_first_survivor_publishes_once_after_the_grace():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.die("c")
    cluster.wait(GRACE - 1)
    assert cluster.published == []
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_leaves_does_not_publish_a_delayed_will_of_those_that_stay(restarts):
    cluster = Cluster("a", "b", "c")
    cluster.nodes["b"].hold("x", b"will", 2, cluster.now)
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
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.die("c")
    cluster.leave("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_leaves_does_not_publish_what_it_held_for_one_that_died(restarts):
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.die("c", proven=False)
    cluster.wait(10)
    assert cluster.table.rows["a"]
    cluster.leave("a")
    if restarts:
        del cluster.nodes["a"]
        cluster.add("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_a_node_that_leaves_alone_publishes_what_it_held():
    cluster = Cluster("a", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.die("c", proven=False)
    cluster.wait(10)
    cluster.leave("a")
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


def test_what_is_released_is_not_published():
    cluster = Cluster("a", "b")
    cluster.nodes["b"].hold("x", b"will", 0, cluster.now)
    cluster.nodes["b"].release("x", cluster.now)
    cluster.die("b")
    cluster.wait(100)
    assert cluster.published == []


def test_a_connection_that_ends_has_its_will_published_once_the_others_agree():
    cluster = Cluster("a", "b")
    cluster.nodes["b"].hold("x", b"will", 0, cluster.now)
    assert cluster.nodes["b"].end("x", cluster.now)
    cluster.publish("b")
    cluster.die("b")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_the_next_one_goes_on_where_the_first_survivor_dies():
    cluster = Cluster("a", "b", "c", "d", "e")
    cluster.nodes["e"].hold("x", b"will", 50, cluster.now)
    cluster.die("e")
    cluster.wait(20)
    cluster.die("a")
    cluster.wait(100)
    assert cluster.published == [("b", b"will")]


def test_the_last_of_three_publishes_the_wills_of_both_that_died():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["a"].hold("x", b"one", 0, cluster.now)
    cluster.nodes["b"].hold("y", b"two", 0, cluster.now)
    cluster.die("a")
    cluster.die("b")
    cluster.wait(30)
    assert cluster.published == [("c", b"one"), ("c", b"two")]


def test_a_node_that_is_silent_is_not_dead_for_a_minute():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
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
    cluster.nodes["a"].hold("x", b"will", 0, cluster.now)
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
    cluster.nodes["a"].hold("x", b"will", 0, cluster.now)
    cluster.cut("a", "b", "c")
    cluster.nodes["a"].release("x", cluster.now)
    cluster.wait(30)
    cluster.heal()
    cluster.wait(100)
    assert cluster.published == []


def test_a_will_that_began_behind_the_cut_is_of_this_side_alone():
    cluster = Cluster("a", "b", "c")
    cluster.cut("a", "b", "c")
    cluster.nodes["a"].hold("x", b"will", 0, cluster.now)
    assert cluster.nodes["a"].end("x", cluster.now)
    cluster.wait(2)
    assert cluster.published == [("a", b"will")]
    cluster.heal()
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


def test_whoever_sees_the_node_alive_keeps_others_from_publishing():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.cut("c", "a")
    cluster.wait(200)
    assert cluster.published == []


def test_a_survivor_that_saw_the_goodbye_is_right():
    cluster = Cluster("a", "b", "c")
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.down("c", at="a")
    cluster.nodes["c"].release("x", cluster.now)
    del cluster.nodes["c"]
    cluster.down("c", at="b")
    cluster.wait(200)
    assert cluster.published == []


@pytest.mark.parametrize("late", [1, 4, 8])
@pytest.mark.parametrize("name", ["n1", "n2", "n3"])
def test_a_delayed_will_is_published_once_where_its_node_is_back_while_others_hold_it(name, late):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes[name].hold("c", b"will", 5, cluster.now)
    cluster.nodes[name].count_down("c", 5)
    cluster.die(name)
    cluster.wait(late)
    cluster.add(name)
    cluster.wait(100)
    assert [record for _, record in cluster.published] == [b"will"]


@pytest.mark.parametrize("stays", [True, False])
def test_a_delayed_will_is_void_in_the_next_life_of_its_node_where_its_client_came_back_before(stays):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes["n3"].hold("c", b"will", 5, cluster.now)
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
    cluster.nodes["n3"].hold("c", b"will", 5, cluster.now)
    cluster.nodes["n3"].count_down("c", 5)
    cluster.die("n3", proven=False)
    cluster.add("n3")
    cluster.wait(MEET_TIMEOUT + 30)
    assert [record for _, record in cluster.published] == [b"will"]


@pytest.mark.parametrize("published", [True, False])
def test_what_others_saw_end_is_not_published_by_a_next_life_whose_disc_was_behind(published):
    cluster = Cluster("n1", "n2", "n3")
    cluster.nodes["n2"].hold("c", b"will", 0, cluster.now)
    behind = dict(cluster.table.rows["n2"])
    if published:
        assert cluster.nodes["n2"].end("c", cluster.now)
        cluster.wait(2)
        assert cluster.published == [("n2", b"will")]
    else:
        cluster.nodes["n2"].release("c", cluster.now)
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
    cluster.nodes["c"].hold("x", b"will", 30, cluster.now)
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
    sleeper.hold("x", b"will", 5, cluster.now)
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
    cluster.nodes["c"].hold("x", b"will", 0, cluster.now)
    cluster.connect("b", "x")
    cluster.die("c")
    cluster.wait(100)
    assert cluster.published == [("a", b"will")]


class TestAMove:
    """A session moves from ``c`` to ``a``, with a will that counts down."""

    def cluster(self, delay=10):
        cluster = Cluster("a", "b", "c")
        cluster.nodes["c"].hold("x", b"will", delay, cluster.now)
        cluster.nodes["c"].count_down("x", delay)
        self.stamps = cluster.move("x", "c", "a", seconds=delay)
        return cluster

    def let_go(self, cluster):
        cluster.nodes["c"].let_go("x")
        cluster.nodes["a"].moved("x", "c")

    def thaw(self, cluster, seconds):
        """The source has its session again, while the target goes on with it."""
        return cluster.nodes["c"].resume("x", b"will", seconds, self.stamps, cluster.now)

    @pytest.mark.parametrize("died", [False, True])
    def test_whose_source_has_let_go_is_of_the_target_alone(self, died):
        cluster = self.cluster()
        cluster.nodes["c"].let_go("x")
        cluster.nodes["a"].moved("x", "c")
        if died:
            cluster.die("c")
        assert cluster.nodes["a"].end("x", cluster.now)
        cluster.wait(100)
        assert cluster.published == [("a", b"will")]
        # Nobody has to be told that it is done, where nobody is away.
        assert died or not any(cluster.table.rows.values())

    @pytest.mark.parametrize("alone", ["a", "c"])
    def test_that_a_cut_leaves_with_both_has_its_will_published_once(self, alone):
        cluster = self.cluster()
        cluster.cut(alone, *{"a", "b", "c"} - {alone})
        assert self.thaw(cluster, 1)
        for name in ("a", "c"):
            assert cluster.nodes[name].end("x", cluster.now)
        cluster.wait(3)
        assert cluster.published == [("c" if alone == "a" else "a", b"will")]
        cluster.heal()
        cluster.wait(100)
        assert len(cluster.published) == 1

    def test_whose_target_does_not_notice_the_cut_has_its_will_published_once(self):
        cluster = self.cluster()
        for other in ("b", "c"):
            cluster.apart.add(frozenset(("a", other)))
            cluster.down("a", at=other)
        assert self.thaw(cluster, 1)
        assert cluster.nodes["a"].end("x", cluster.now)
        assert cluster.nodes["c"].end("x", cluster.now)
        cluster.publish("c")
        cluster.apart.clear()
        # Asked by a node that is seen again before it sees what they have done.
        cluster.publish("a")
        cluster.meet("a", "b")
        cluster.meet("a", "c")
        cluster.wait(100)
        assert cluster.published == [("c", b"will")]

    def test_is_not_back_at_its_source_once_others_have_published_its_will(self):
        cluster = self.cluster()
        for other in ("a", "b"):
            cluster.apart.add(frozenset(("c", other)))
            cluster.down("c", at=other)
        assert cluster.nodes["a"].end("x", cluster.now)
        cluster.publish("a")
        assert cluster.published == [("a", b"will")]
        cluster.heal()
        assert not self.thaw(cluster, 1)
        cluster.wait(100)
        assert len(cluster.published) == 1

    @pytest.mark.parametrize("at", ["a", "c"])
    def test_that_a_cut_leaves_with_both_has_no_will_where_its_client_came_back_to_either(self, at):
        cluster = self.cluster()
        cluster.cut("a", "b", "c")
        assert self.thaw(cluster, 10)
        cluster.nodes[at].release("x", cluster.now)
        cluster.wait(2)
        cluster.heal()
        for name in {"a", "c"} - {at}:
            cluster.nodes[name].end("x", cluster.now)
        cluster.wait(100)
        assert cluster.published == []

    @pytest.mark.parametrize("dead", [{"a"}, {"c"}])
    def test_of_which_one_side_dies_has_its_will_published_once(self, dead):
        """The third node adopts what it saw of the dead, under the stamp that it had there."""
        cluster = self.cluster()
        for name in dead:
            cluster.die(name)
        if dead == {"a"}:
            assert self.thaw(cluster, 10)
        cluster.wait(9)
        for name in {"a", "c"} - dead:
            assert cluster.nodes[name].end("x", cluster.now)
        cluster.wait(50)
        for name in dead:
            cluster.add(name)
        cluster.wait(100)
        assert [record for _, record in cluster.published] == [b"will"]

    def test_that_goes_on_to_a_third_node_has_its_will_published_once(self):
        cluster = self.cluster()
        cluster.cut("c", "a", "b")
        assert self.thaw(cluster, 10)
        cluster.move("x", "a", "b", seconds=8)
        cluster.nodes["a"].let_go("x")
        cluster.nodes["b"].moved("x", "a")
        assert cluster.nodes["b"].end("x", cluster.now)
        cluster.wait(5)
        assert cluster.published == [("b", b"will")]
        cluster.heal()
        cluster.nodes["c"].end("x", cluster.now)
        cluster.wait(100)
        assert cluster.published == [("b", b"will")]


class TestANewLife:
    def test_alone_it_publishes_what_its_disc_had(self):
        cluster = Cluster("z")
        cluster.nodes["z"].hold("x", b"will", 0, cluster.now)
        cluster.nodes["z"].hold("y", b"late", 60, cluster.now)
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
        cluster.nodes["z"].hold("x", b"will", 0, cluster.now)
        for _ in range(3):
            cluster.die("z")
            cluster.wait(pause)
            cluster.add("z", disc=disc)
            cluster.wait(pause)
        cluster.wait(100)
        assert [record for _, record in cluster.published] == [b"will"]

    def test_after_all_have_died_one_that_was_published_is_not_published_again(self):
        cluster = Cluster("a", "b", "z")
        cluster.nodes["z"].hold("x", b"will", 0, cluster.now)
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
        cluster.nodes["z"].hold("x", b"will", 0, cluster.now)
        cluster.die("z")
        cluster.add("z", seen={"a": 1, "b": 1})
        cluster.wait(UNREACHABLE_TIMEOUT)
        assert cluster.published == []
        cluster.wait(MEET_TIMEOUT + 1)
        assert cluster.published == [("z", b"will")]

    def test_what_its_disc_does_not_have_was_void(self):
        cluster = Cluster("a", "b", "z")
        cluster.nodes["z"].hold("x", b"will", 0, cluster.now)
        cluster.die("z")
        del cluster.table.rows["z"]["x"]
        cluster.add("z")
        cluster.wait(100)
        assert cluster.published == []
