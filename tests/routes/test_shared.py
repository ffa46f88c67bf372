"""Share groups: one member in the whole cluster gets each message."""

import random
from collections import Counter
from itertools import permutations
from typing import Any, get_args

import pytest

from gossamer.config import MqttConfig, SharedStrategy
from gossamer.distribution import Frame
from gossamer.routes import Delivery, Forwarder, Group, SubscriptionOptions
from gossamer.routes.shared import Count
from tests.routes.fakes import Client, Cluster, make

STRATEGIES = get_args(SharedStrategy)
GROUP = "$share/g/t/+"


class Members(Cluster):
    """Routers that see each other's rows and get each other's frames at once."""

    def __init__(self, *names: str, strategy: SharedStrategy, seed: int = 1) -> None:
        config = MqttConfig(shared_subscription_strategy=strategy)
        super().__init__(*names, config=config, rng=random.Random(seed))
        self.got: list[tuple[str, str]] = []
        self.clients: dict[str, Client] = {}
        for router in self.routers.values():
            router.on_forward(lambda peer, records: None)
            router.on_group_forward(self.take)
        for one, other in permutations(names, 2):
            self.links[one].up(other)

    def join(self, node: str, client: Client, group: str = GROUP) -> None:
        self.routers[node].subscribe(group, client, SubscriptionOptions(qos=1))
        self.spread()

    def take(self, peer: str, group: Group, records: bytes) -> None:
        for record in records.split(b";")[:-1]:
            publisher, topic = record.decode().split("|")
            self.give(group.pick_here(publisher, topic), topic)

    def give(self, delivery: Delivery | None, topic: str) -> None:
        if delivery is not None:
            assert delivery.qos == 1
            self.got.append((delivery.subscriber.name, topic))

    def publish(self, node: str, publisher: str, topic: str) -> None:
        self.spread()
        router, links = self.routers[node], self.links[node]
        route = router.cache.get(topic.encode()) or router.resolve(topic.encode())
        for group in route.groups:
            chosen = router.pick(group, publisher, topic)
            if isinstance(chosen, Forwarder):
                chosen.append(f"{publisher}|{topic};".encode())
            else:
                self.give(chosen, topic)
        for turn in self.turns:
            turn.end()
        for number, (peer, frame, _) in enumerate(links.sent):
            self.links[peer].receiver(Frame(node, "data", number, frame))
        links.sent.clear()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_message_reaches_one_member_wherever_it_is_published(strategy):
    cluster = Members("a", "b", "c", strategy=strategy)
    members = [Client(f"m{n}") for n in range(5)]
    for node, member in zip("abbcc", members, strict=True):
        cluster.join(node, member)
    for n in range(300):
        cluster.publish("abc"[n % 3], f"p{n % 7}", f"t/{n}")
    assert sorted(topic for _, topic in cluster.got) == sorted(f"t/{n}" for n in range(300))


@pytest.mark.parametrize("strategy", ["random", "round_robin", "round_robin_per_group", "hash_topic"])
def test_members_get_about_equal_shares_whichever_node_they_are_on(strategy):
    cluster = Members("a", "b", strategy=strategy)
    for node, n in (("a", 0), ("b", 1), ("b", 2), ("b", 3)):
        cluster.join(node, Client(f"m{n}"))
    for n in range(2000):
        cluster.publish("a", f"p{n % 3}", f"t/{n}")
    shares = Counter(name for name, _ in cluster.got)
    assert len(shares) == 4
    assert all(350 < share < 650 for share in shares.values()), shares


def test_two_groups_and_a_plain_subscription_each_get_the_message():
    router, _, _, _ = make()
    plain, one, two = Client("plain"), Client("one"), Client("two")
    router.subscribe("t/+", plain, SubscriptionOptions())
    router.subscribe("$share/g/t/+", one, SubscriptionOptions())
    router.subscribe("$share/h/t/#", two, SubscriptionOptions())
    route = router.resolve(b"t/x")
    assert [d.subscriber for d in route.deliveries] == [plain]
    assert [router.pick(g, "p", "t/x").subscriber for g in route.groups] == [one, two]
    router.unsubscribe("$share/g/t/+", one)
    assert [g.name for g in router.resolve(b"t/x").groups] == ["$share/h/t/#"]


def test_members_come_and_go_without_new_routes_until_the_group_is_gone():
    router, table, _, _ = make()
    one, two = Client("one"), Client("two")
    router.subscribe(GROUP, one, SubscriptionOptions())
    route = router.resolve(b"t/x")
    router.subscribe(GROUP, two, SubscriptionOptions())
    assert dict(table.rows_of("a")) == {GROUP: 2}
    router.unsubscribe_all(one)
    assert router.cache[b"t/x"] is route
    assert router.pick(route.groups[0], "p", "t/x").subscriber is two
    router.unsubscribe_all(two)
    assert b"t/x" not in router.cache
    assert dict(table.rows_of("a")) == {}


def test_sticky_and_hash_of_the_client_keep_a_publisher_with_its_member():
    for strategy in ("sticky", "hash_clientid"):
        cluster = Members("a", strategy=strategy)
        members = {f"m{n}": Client(f"m{n}") for n in range(4)}
        for member in members.values():
            cluster.join("a", member)
        for n in range(40):
            cluster.publish("a", f"p{n % 8}", f"t/p{n % 8}")
        by_publisher: dict[str, set[str]] = {}
        for name, topic in cluster.got:
            by_publisher.setdefault(topic, set()).add(name)
        assert all(len(names) == 1 for names in by_publisher.values()), strategy
        assert len(set.union(*by_publisher.values())) > 1
        gone = cluster.got[-1][0]
        cluster.routers["a"].unsubscribe_all(members[gone])
        cluster.publish("a", "p7", "t/p7")
        assert cluster.got[-1][0] != gone


def test_local_stays_here_while_it_can():
    cluster = Members("a", "b", strategy="local")
    here, there = Client("here"), Client("there")
    cluster.join("a", here)
    cluster.join("b", there)
    for n in range(20):
        cluster.publish("a", "p", f"t/{n}")
    assert {name for name, _ in cluster.got} == {"here"}
    cluster.routers["a"].unsubscribe_all(here)
    cluster.publish("a", "p", "t/x")
    assert cluster.got[-1] == ("there", "t/x")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_that_is_down_is_not_chosen(strategy):
    cluster = Members("a", "b", "c", strategy=strategy)
    cluster.join("b", Client("lost"))
    cluster.join("c", Client("alive"))
    cluster.publish("a", "p", "t/0")
    cluster.links["a"].down("b")
    cluster.got.clear()
    for n in range(30):
        cluster.publish("a", "p", f"t/{n}")
    assert cluster.got == [("alive", f"t/{n}") for n in range(30)]
    cluster.links["a"].down("c")
    cluster.publish("a", "p", "t/x")
    assert len(cluster.got) == 30


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_that_is_passed_over_is_not_chosen(strategy):
    cluster = Members("a", "b", "c", strategy=strategy)
    cluster.join("b", Client("sender"))
    router = cluster.routers["a"]
    (group,) = router.resolve(b"t/x").groups
    assert router.pick(group, "p", "t/x").peer == "b"
    assert router.pick(group, "p", "t/x", besides="b") is None
    cluster.join("c", Client("other"))
    chosen = [router.pick(group, "p", f"t/{n}", besides="b").peer for n in range(30)]
    assert chosen == ["c"] * 30


def test_what_was_sent_to_a_group_of_a_node_that_goes_down_is_answered():
    router, table, links, turn = make()
    safe: list[bool] = []
    links.up("b")
    table.put("b", {GROUP: 3})
    forwarder = router.pick(router.resolve(b"t/x").groups[0], "p", "t/x")
    forwarder.append_acked(b"1", safe.append)
    turn.end()
    links.ack("b", 1)
    assert safe == [True]
    forwarder.append_acked(b"2", safe.append)
    turn.end()
    links.down("b")
    assert safe == [True, True]
    assert forwarder.counts["dropped_peer_down"] == 1


class Member(Client):
    """One that may be away or have no room."""

    def become(self, *, online: bool = True, ready: bool = True, queued: int = 0) -> None:
        self.online, self.ready, self.queue = online, ready, (0,) * queued


def refresh(cluster: Members) -> None:
    for router in cluster.routers.values():
        for _ in router.refresh_groups():
            pass
    cluster.spread()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_member_that_is_away_has_no_turn_while_another_is_connected(strategy):
    cluster = Members("a", "b", "c", strategy=strategy)
    members = [Member(f"m{n}") for n in range(6)]
    for node, member in zip("aabbcc", members, strict=True):
        cluster.join(node, member)
    for member in (members[0], members[2], *members[4:]):
        member.become(online=False, ready=False)
    refresh(cluster)
    for number in range(60):
        cluster.publish("abc"[number % 3], f"p{number}", f"t/{number}")
    assert len(cluster.got) == 60
    assert {name for name, _ in cluster.got} <= {"m1", "m3"}
    # With nobody there it is kept for one of them all the same.
    for member in members:
        member.become(online=False, ready=False)
    refresh(cluster)
    cluster.got.clear()
    for number in range(60):
        cluster.publish("abc"[number % 3], f"p{number}", f"t/{number}")
    assert len(cluster.got) == 60
    assert all(router.verify().wrong == 0 for router in cluster.routers.values())


@pytest.mark.parametrize("strategy", ["random", "round_robin", "round_robin_per_group", "hash_topic"])
def test_the_turns_of_members_that_are_away_go_to_all_others_alike(strategy):
    cluster = Members("a", "b", strategy=strategy)
    members = [Member(f"m{n}") for n in range(6)]
    for node, member in zip("aaaaab", members, strict=True):
        cluster.join(node, member)
    for member in members[1:3]:
        member.become(online=False, ready=False)
    refresh(cluster)
    for number in range(1200):
        cluster.publish("a", f"p{number % 7}", f"t/{number}")
    shares = Counter(name for name, _ in cluster.got)
    assert set(shares) == {"m0", "m3", "m4", "m5"}
    assert all(230 < share < 370 for share in shares.values()), shares


@pytest.mark.parametrize("strategy", ["random", "round_robin", "round_robin_per_group", "local"])
def test_a_member_without_room_is_passed_over_while_another_has_some(strategy):
    cluster = Members("a", "b", strategy=strategy)
    members = [Member(f"m{n}") for n in range(4)]
    for node, member in zip("aabb", members, strict=True):
        cluster.join(node, member)
    members[0].become(ready=False)
    for member in members[2:]:
        member.become(ready=False, queued=3)
    refresh(cluster)
    for number in range(40):
        cluster.publish("a", f"p{number}", f"t/{number}")
    assert [name for name, _ in cluster.got] == ["m1"] * 40
    members[1].become(ready=False)
    cluster.got.clear()
    for number in range(40):
        cluster.publish("a", f"p{number}", f"t/{number}")
    assert len(cluster.got) == 40


def test_the_row_of_a_group_says_how_its_members_are():
    cluster = Members("a", "b", strategy="random")
    away, full = Member("away"), Member("full")
    cluster.join("a", full)
    assert cluster.tables["b"].rows_of("a") == {GROUP: 1}
    cluster.routers["a"].subscribe(GROUP, away, SubscriptionOptions(qos=1, persistent=True))
    away.become(online=False)
    full.become(queued=1)
    refresh(cluster)
    row = cluster.tables["b"].rows_of("a")[GROUP]
    assert Count.of(row) == Count(free=0, online=1, members=2, persistent=1)
    assert Count.of(Count(1, 2, 100_000, 3).row()) == Count(1, 2, 32767, 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_whose_members_take_nothing_is_reported_while_another_has_room(strategy):
    cluster = Members("a", "b", strategy=strategy)
    stuck, slow, other = Member("stuck"), Member("slow"), Member("other")
    for node, member in (("a", stuck), ("a", slow), ("b", other)):
        cluster.join(node, member)
    reported: list[tuple[Any, ...]] = []
    for router in cluster.routers.values():
        router.on_stuck(lambda group: reported.append(tuple(group.stuck)))
    for member in (stuck, slow):
        member.become(ready=False)
    refresh(cluster)
    slow.delivered += 1
    assert reported == []
    refresh(cluster)
    # A strategy by which a publisher or topic has one member leaves that one what it was given.
    expected = [] if strategy in ("sticky", "hash_clientid", "hash_topic") else [(stuck,)]
    assert reported == expected
    free = Count.of(cluster.tables["b"].rows_of("a")[GROUP]).free
    assert free == 2 - len(expected)
    other.become(ready=False, queued=1)
    refresh(cluster)
    slow.delivered += 1
    reported.clear()
    refresh(cluster)
    assert reported == []
    for member in (stuck, slow, other):
        member.become()
    refresh(cluster)
    assert reported == []


def test_a_group_that_left_before_the_frame_came_is_counted():
    router, _, links, _ = make()
    router.on_forward(lambda peer, records: None)
    router.on_group_forward(lambda peer, group, records: pytest.fail("nobody is here"))
    name = GROUP.encode()
    links.receiver(Frame("b", "data", 1, b"\xff" + len(name).to_bytes(3) + name + b"record"))
    assert router.stats()["group_frames_dropped"] == 1
    assert [frame.number for frame in links.finished] == [1]


def test_rows_that_are_no_groups_are_counted_and_passed_over():
    router, table, links, _ = make()
    links.up("b")
    table.put("b", {"$share/": 1, "$share/g": 1, "$share/+/a": 1, GROUP: "many", "$share/g/ok": 2})
    assert router.stats()["groups"] == 1
    assert router.verify().wrong == 0
    table.put("b", {}, ["$share/g/ok"])
    assert router.stats()["groups"] == 0


def test_verification_repairs_groups():
    router, table, links, _ = make()
    links.up("b")
    one = Client("one")
    router.subscribe(GROUP, one, SubscriptionOptions())
    table.put("b", {GROUP: 2})
    table.owned["b"] = {GROUP: 5, "$share/h/t/x": 1}
    table.owned["a"] = {GROUP: 9}
    router._shared.leave(GROUP, one)
    assert router.verify().wrong >= 4
    assert router.verify().wrong == 0
    assert dict(table.rows_of("a")) == {GROUP: 1}
    groups = router.resolve(b"t/x").groups
    assert {g.name: g.others for g in groups} == {GROUP: {"b": 5}, "$share/h/t/x": {"b": 1}}


@pytest.mark.parametrize("sync", [True, False])
def test_what_a_node_that_goes_down_had_not_acknowledged_is_given_back_to_be_chosen_anew(sync):
    router, table, links, turn = make(config=MqttConfig(forwarding="sync" if sync else "async"))
    safe: list[bool] = []
    lost: list[tuple[str, bytes]] = []

    def find_another(group: str, record: bytes, on_safe: Any) -> None:
        lost.append((group, record))
        on_safe(True)

    router.on_group_lost(find_another)
    links.up("b")
    table.put("b", {GROUP: 3})
    forwarder = router.pick(router.resolve(b"t/x").groups[0], "p", "t/x")
    forwarder.append_acked(b"1", safe.append)
    turn.end()
    forwarder.append(b"qos 0")
    forwarder.append_acked(b"2", safe.append)
    turn.end()
    links.ack("b", 1)
    forwarder.append_acked(b"3", safe.append)
    links.down("b")
    turn.end()
    assert lost == [(GROUP, b"2"), (GROUP, b"3")]
    assert safe == [True] * 3
    assert forwarder.counts["redispatched"] == 2
    assert forwarder.pending == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(4))
def test_exactly_one_member_gets_each_message_while_members_come_and_go(strategy, seed):
    rng = random.Random(seed)
    cluster = Members("a", "b", "c", strategy=strategy, seed=seed)
    members: dict[str, str] = {}
    sent = 0
    for number in range(400):
        draw = rng.random()
        if draw < 0.12 or not members:
            name, node = f"m{number}", rng.choice("abc")
            members[name] = node
            client = Client(name)
            cluster.clients[name] = client
            cluster.join(node, client)
        elif draw < 0.2 and len(members) > 1:
            name = rng.choice(sorted(members))
            cluster.routers[members.pop(name)].unsubscribe_all(cluster.clients[name])
        before = len(cluster.got)
        cluster.publish(rng.choice("abc"), f"p{rng.randrange(5)}", f"t/{number}")
        sent += 1
        assert len(cluster.got) == before + 1, (number, members)
        assert cluster.got[-1][0] in members
    assert [topic for _, topic in cluster.got] == [f"t/{number}" for number in range(sent)]
    assert all(router.verify().wrong == 0 for router in cluster.routers.values())
