"""The router held against the plain reading of everything that was subscribed."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gossamer.routes import (
    InvalidTopicFilter,
    InvalidTopicName,
    Router,
    SubscriptionOptions,
    matches,
    split_shared,
)
from tests.routes.fakes import Client, make
from tests.routes.strategies import FEW, filters, names

PEERS = ["b", "c"]

wanted_filters = st.one_of(
    filters(FEW, 2), st.builds("$share/{}/{}".format, st.sampled_from("gh"), filters(FEW, 2))
)


def who(route: Any) -> list[str]:
    return sorted(delivery.subscriber.name for delivery in route.deliveries)


def plain(topic_filter: str, topic: str) -> bool:
    return not topic_filter.startswith("$share/") and matches(topic_filter, topic)


class RouterMachine(RuleBasedStateMachine):
    """Random subscribing, unsubscribing and node churn: cached or not, a route is the brute-force answer."""

    clients = st.integers(0, 2)
    options = st.builds(
        SubscriptionOptions,
        qos=st.integers(0, 2),
        no_local=st.booleans(),
        retain_as_published=st.booleans(),
        identifier=st.none() | st.integers(1, 3),
    )

    @initialize(limit=st.sampled_from([8, 1000]))
    def begin(self, limit):
        self.router, self.table, self.links, _ = make(cache_limit=limit)
        self.people = [Client(f"client{n}") for n in range(3)]
        self.wanted: dict[int, dict[str, SubscriptionOptions]] = {n: {} for n in range(3)}
        self.up: set[str] = set()
        for peer in PEERS:
            self.node_up(peer)

    @rule(client=clients, topic_filter=wanted_filters, options=options)
    def subscribe(self, client, topic_filter, options):
        done = self.router.subscribe(topic_filter, self.people[client], options)
        assert done.existing is (topic_filter in self.wanted[client])
        self.wanted[client][topic_filter] = options

    @rule(client=clients, data=st.data())
    def unsubscribe(self, client, data):
        known = sorted(self.wanted[client])
        topic_filter = data.draw(st.sampled_from(known) if known else wanted_filters)
        expected = self.wanted[client].pop(topic_filter, None) is not None
        assert self.router.unsubscribe(topic_filter, self.people[client]) is expected

    @rule(client=clients)
    def leave(self, client):
        assert self.router.unsubscribe_all(self.people[client]) == len(self.wanted[client])
        self.wanted[client].clear()

    @rule(
        peer=st.sampled_from(PEERS),
        written=st.lists(wanted_filters, min_size=1, max_size=4),
        purge=st.booleans(),
    )
    def rows_change(self, peer, written, purge):
        old = [key for key in self.table.rows_of(peer) if key not in written] if purge else []
        self.table.put(peer, dict.fromkeys(written, 1), old)

    @rule(peer=st.sampled_from(PEERS))
    def node_up(self, peer):
        self.up.add(peer)
        self.links.up(peer)

    @rule(peer=st.sampled_from(PEERS), purge=st.booleans())
    def node_down(self, peer, purge):
        self.up.discard(peer)
        self.links.down(peer)
        if purge:
            self.table.put(peer, {}, list(self.table.rows_of(peer)))

    @rule(topics=st.lists(names(FEW, 2), max_size=6))
    def publish(self, topics):
        for topic in topics:
            if topic.encode() not in self.router.cache:
                self.router.resolve(topic.encode())
            self.check(topic)

    @rule(topic=names(FEW, 2))
    def mark(self, topic):
        route = self.router.cache.get(topic.encode())
        if route is not None:
            route.plan = who(route)

    @invariant()
    def whatever_is_cached_is_right(self):
        for topic, route in getattr(self, "router", Router("x")).cache.items():
            self.check(topic.decode())
            assert route.plan is None or route.plan == who(route)

    @invariant()
    def verification_finds_nothing(self):
        if hasattr(self, "router"):
            findings = self.router.verify(repair=False)
            assert findings.wrong == 0, findings
            assert set(self.table.rows_of("a")) == {f for mine in self.wanted.values() for f in mine}

    def check(self, topic):
        route = self.router.cache[topic.encode()]
        expected = {}
        for client, mine in self.wanted.items():
            hits = [options for topic_filter, options in mine.items() if plain(topic_filter, topic)]
            if hits:
                expected[f"client{client}"] = (
                    max(o.qos for o in hits),
                    all(o.no_local for o in hits),
                    any(o.retain_as_published for o in hits),
                    {o.identifier for o in hits if o.identifier is not None},
                )
        found = {
            d.subscriber.name: (d.qos, d.no_local, d.retain_as_published, set(d.identifiers))
            for d in route.deliveries
        }
        assert found == expected
        assert len(found) == len(route.deliveries)
        peers = [p for p in PEERS if p in self.up and any(plain(f, topic) for f in self.table.rows_of(p))]
        assert sorted(forwarder.peer for forwarder in route.peers) == peers
        groups = {name for mine in self.wanted.values() for name in mine if name.startswith("$share/")}
        groups |= {name for p in PEERS for name in self.table.rows_of(p) if name.startswith("$share/")}
        assert sorted(group.name for group in route.groups) == sorted(
            name for name in groups if matches(split_shared(name).filter, topic)
        )


TestRouterMachine = RouterMachine.TestCase
TestRouterMachine.settings = settings(max_examples=70, stateful_step_count=40, deadline=None)


def test_a_change_touches_only_the_routes_it_concerns():
    router, _, _, _ = make()
    anna = Client("anna")
    router.subscribe("a/+", anna, SubscriptionOptions())
    kept = router.resolve(b"x/y")
    gone = router.resolve(b"a/b")
    router.subscribe("a/#", Client("bert"), SubscriptionOptions())
    assert router.cache.get(b"x/y") is kept
    assert router.cache.get(b"a/b") is None
    assert who(router.resolve(b"a/b")) == ["anna", "bert"]
    assert who(gone) == ["anna"]


def test_subscribing_again_with_the_same_options_changes_nothing():
    router, table, _, _ = make()
    anna = Client("anna")
    router.subscribe("a", anna, SubscriptionOptions(qos=1))
    route = router.resolve(b"a")
    assert router.subscribe("a", anna, SubscriptionOptions(qos=1)).existing
    assert router.cache[b"a"] is route
    assert table.number == 1


def test_the_first_subscriber_writes_the_row_and_the_last_deletes_it():
    router, table, _, _ = make()
    anna, bert = Client("anna"), Client("bert")
    first = router.subscribe("a/#", anna, SubscriptionOptions())
    assert (first.existing, first.seq) == (False, 1)
    assert router.subscribe("a/#", bert, SubscriptionOptions()).seq == 1, "the row may still be on its way"
    table.reached = 1
    assert router.subscribe("a/#", bert, SubscriptionOptions(qos=1)).seq is None
    assert dict(table.rows_of("a")) == {"a/#": 1}
    router.unsubscribe("a/#", anna)
    assert dict(table.rows_of("a")) == {"a/#": 1}
    router.unsubscribe_all(bert)
    assert dict(table.rows_of("a")) == {}


async def test_visibility_is_waited_for_and_a_timeout_is_counted():
    router, table, _, _ = make()
    seq = router.subscribe("a", Client("anna"), SubscriptionOptions()).seq
    assert not router.is_visible(seq)
    assert not await router.visible(seq)
    assert router.stats()["visible_timeouts"] == 1
    table.reached = 1
    assert await router.visible(seq)
    assert router.is_visible(None)


def test_a_table_that_refuses_the_row_leaves_no_subscription():
    router, table, _, _ = make()
    anna = Client("anna")
    table.fail = RuntimeError("full")
    with pytest.raises(RuntimeError):
        router.subscribe("a", anna, SubscriptionOptions())
    table.fail = None
    assert router.stats()["subscriptions"] == 0
    assert router.resolve(b"a").deliveries == ()
    assert not router.unsubscribe("a", anna)


def test_wrong_topics_and_filters_are_refused_and_not_kept():
    router, _, _, _ = make()
    with pytest.raises(InvalidTopicName):
        router.resolve(b"a/#")
    with pytest.raises(InvalidTopicFilter):
        router.subscribe("a/#/b", Client("anna"), SubscriptionOptions())
    assert not router.cache
    assert router.stats()["subscribers"] == 0


def test_rows_that_are_no_filters_are_counted_and_passed_over():
    router, table, links, _ = make()
    links.up("b")
    table.put("b", {7: 1, "": 1, "ok": 1})
    assert router.stats()["bad_rows"] == 2
    assert [peer.peer for peer in router.resolve(b"ok").peers] == ["b"]


def test_many_subscriptions_of_one_client_share_one_delivery():
    router, _, _, _ = make()
    anna = Client("anna")
    for n in range(100):
        router.subscribe(f"a/{n}", anna, SubscriptionOptions(qos=1))
    assert len({id(d) for d in router.subscriptions(anna).values()}) == 1


@pytest.mark.parametrize("harm", ["index", "row", "remote", "cache"])
def test_verification_repairs_what_was_lost(harm):
    router, table, links, _ = make()
    anna = Client("anna")
    links.up("b")
    table.put("b", {"b/+": 1})
    router.subscribe("a/+", anna, SubscriptionOptions())
    router.resolve(b"a/x")
    router.resolve(b"b/x")
    if harm == "index":
        router._index.discard("a/+", anna)
    elif harm == "row":
        table.owned["a"] = {"stale": 1}
    elif harm == "remote":
        table.owned["b"] = {"c/+": 1}  # its events were lost
    else:
        router.cache[b"a/x"] = router.cache[b"b/x"]
    assert router.verify(repair=False).wrong > 0
    assert router.verify().wrong > 0
    assert router.verify().wrong == 0
    assert list(table.rows_of("a")) == ["a/+"]
    assert who(router.cache.get(b"a/x") or router.resolve(b"a/x")) == ["anna"]
    remote = b"c/x" if harm == "remote" else b"b/x"
    assert len((router.cache.get(remote) or router.resolve(remote)).peers) == 1
