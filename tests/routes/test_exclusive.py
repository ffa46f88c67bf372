"""Exclusive subscriptions: one client in the cluster, and one rule for who that is."""

import random

import pytest

from gossamer.config import MqttConfig, MqttLimitsConfig
from gossamer.routes import ExclusiveTakenError, InvalidTopicFilter, SubscriptionOptions, body_of
from tests.routes.fakes import Client, Cluster, make
from tests.routes.test_router import who

OPTIONS = SubscriptionOptions(qos=1)


class Claims(Cluster):
    """Routers that write down who lost a claim; each claim is a moment later than the one before."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.lost: list[tuple[str, str]] = []
        super().__init__(*names, wall=self.wall)
        for router in self.routers.values():
            router.on_evicted(lambda subscriber, text: self.lost.append((subscriber.name, text)))

    def wall(self) -> float:
        self.now += 0.001
        return self.now


def test_one_client_has_it_and_the_next_is_refused_until_it_is_free():
    router, table, _, _ = make()
    anna, bert = Client("anna"), Client("bert")
    router.subscribe("$exclusive/a/b", anna, OPTIONS)
    assert router.subscribe("$exclusive/a/b", anna, OPTIONS).existing
    with pytest.raises(ExclusiveTakenError, match="another client of this node has it"):
        router.subscribe("$exclusive/a/b", bert, OPTIONS)
    router.subscribe("a/b", bert, OPTIONS)
    assert who(router.resolve(b"a/b")) == ["anna", "bert"]
    assert set(table.rows_of("a")) == {"a/b", "$exclusive/a/b"}
    assert router.unsubscribe("$exclusive/a/b", anna)
    assert set(table.rows_of("a")) == {"a/b"}
    router.subscribe("$exclusive/a/b", bert, OPTIONS)
    router.unsubscribe_all(bert)
    assert dict(table.rows_of("a")) == {}
    assert router.resolve(b"a/b").deliveries == ()
    assert router.verify().wrong == 0


def test_the_claim_of_another_node_is_respected_until_its_rows_are_purged():
    cluster = Claims("a", "b")
    cluster.routers["a"].subscribe("$exclusive/t/+", Client("anna"), OPTIONS)
    cluster.spread()
    with pytest.raises(ExclusiveTakenError, match="a client of a has it"):
        cluster.routers["b"].subscribe("$exclusive/t/+", Client("bert"), OPTIONS)
    assert cluster.routers["b"].stats()["subscriptions"] == 0
    assert dict(cluster.tables["b"].rows_of("b")) == {}
    cluster.tables["b"].put("a", {}, list(cluster.tables["b"].rows_of("a")))
    cluster.routers["b"].subscribe("$exclusive/t/+", Client("bert"), OPTIONS)


def test_a_client_that_moves_keeps_its_claim():
    cluster = Claims("a", "b")
    before, after = Client("anna"), Client("anna")
    before.client_id = after.client_id = "anna"
    cluster.routers["a"].subscribe("$exclusive/t", before, OPTIONS)
    cluster.spread()
    cluster.routers["b"].subscribe("$exclusive/t", after, OPTIONS)
    cluster.spread()
    assert cluster.lost == []
    cluster.routers["a"].unsubscribe_all(before)
    cluster.spread()
    with pytest.raises(ExclusiveTakenError):
        cluster.routers["a"].subscribe("$exclusive/t", Client("carl"), OPTIONS)


@pytest.mark.parametrize("seed", range(30))
def test_after_a_split_exactly_the_earliest_claim_is_left(seed):
    rng = random.Random(seed)
    cluster = Claims("a", "b", "c", "d")
    claimed: dict[str, list[tuple[float, str]]] = {}
    for number in range(30):
        node, body = rng.choice("abcd"), rng.choice(["t/1", "t/2", "t/+"])
        client = Client(f"{node}{number}")
        try:
            cluster.routers[node].subscribe(f"$exclusive/{body}", client, OPTIONS)
            claimed.setdefault(body, []).append((cluster.now, client.name))
        except ExclusiveTakenError:
            pass
        if rng.random() < 0.1:
            cluster.meet(*rng.sample("abcd", 2))
    cluster.spread()
    # Those that had lost before may have made room for nobody: the earliest was there all the time.
    for body, claims in claimed.items():
        left = [
            delivery.subscriber.name
            for router in cluster.routers.values()
            for delivery in router.resolve(body.replace("+", "9").encode()).deliveries
            if f"$exclusive/{body}"
            in {f"$exclusive/{text}" for text in router.subscriptions(delivery.subscriber)}
        ]
        assert left == [min(claims)[1]]
    assert len(cluster.lost) == sum(len(claims) - 1 for claims in claimed.values())
    for router in cluster.routers.values():
        assert router.verify().wrong == 0


def test_there_is_a_limit_and_none_may_be_allowed_at_all():
    router, table, _, _ = make(config=MqttConfig(limits=MqttLimitsConfig(max_exclusive=1)))
    router.subscribe("$exclusive/a", Client("anna"), OPTIONS)
    with pytest.raises(ExclusiveTakenError, match="this node has its 1 exclusive subscriptions"):
        router.subscribe("$exclusive/b", Client("anna"), OPTIONS)
    assert set(table.rows_of("a")) == {"a", "$exclusive/a"}
    router, _, _, _ = make(config=MqttConfig(limits=MqttLimitsConfig(max_exclusive=0)))
    with pytest.raises(InvalidTopicFilter, match="this node allows none"):
        router.subscribe("$exclusive/a", Client("anna"), OPTIONS)


@pytest.mark.parametrize("wrong", ["$exclusive/", "$exclusive/a/#/b", "$exclusive/$share/g/a"])
def test_what_is_no_filter_behind_the_prefix_is_refused(wrong):
    router, table, _, _ = make()
    with pytest.raises(InvalidTopicFilter):
        router.subscribe(wrong, Client("anna"), OPTIONS)
    assert dict(table.rows_of("a")) == {}
    assert router.stats()["exclusive"] == 0


def test_a_refused_row_leaves_no_claim():
    router, table, _, _ = make()
    table.fail = RuntimeError("full")
    with pytest.raises(RuntimeError):
        router.subscribe("$exclusive/a", Client("anna"), OPTIONS)
    table.fail = None
    assert router.stats()["exclusive"] == 0
    router.subscribe("$exclusive/a", Client("bert"), OPTIONS)


def test_rows_that_are_no_claims_are_passed_over():
    router, table, links, _ = make()
    links.up("b")
    router.subscribe("$exclusive/a", Client("anna"), OPTIONS)
    table.put("b", {"$exclusive/a": 1, "$exclusive/": [1, "x"], "$exclusive/b": [1, 2], "$exclusive/c": "x"})
    assert router.stats()["exclusive"] == 1
    router.subscribe("$exclusive/b", Client("anna"), OPTIONS)
    assert router.verify().wrong == 0


def test_a_lost_row_is_written_anew():
    router, table, _, _ = make()
    router.subscribe("$exclusive/a", Client("anna"), OPTIONS)
    del table.owned["a"]["$exclusive/a"]
    table.owned["a"]["$exclusive/stale"] = [1, ""]
    assert router.verify().differences == {"missing_rows": 1, "stale_rows": 1}
    assert set(table.rows_of("a")) == {"a", "$exclusive/a"}


@pytest.mark.parametrize(
    ("text", "body"),
    [("a/b", "a/b"), ("$exclusive/a/b", "a/b"), ("$share/g/a/b", "a/b"), ("$SYS/x", "$SYS/x")],
)
def test_what_a_filter_matches_by(text, body):
    assert body_of(text) == body
