"""What is known of persistent sessions of other nodes, and where their messages go while those are away."""

from typing import Any

from gossamer.routes import Router, SubscriptionOptions
from tests.routes.fakes import Client, Links, Table, Turn, make

PERSISTENT = SubscriptionOptions(qos=1, persistent=True)
PASSING = SubscriptionOptions(qos=1)


class Keeper:
    """Keeps everything, and writes down what it is told."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.told: list[Any] = []
        self.taken: list[tuple[str, bytes]] = []

    def up(self, peer: str) -> bool:
        return peer not in self.known

    def down(self, peer: str, creation: int) -> None:
        self.known.add(peer)

    def gone(self, peer: str) -> None:
        self.told.append(("gone", peer))

    def take(self, peer: str, record: bytes, on_safe: Any) -> None:
        self.taken.append((peer, record))

    def left(self, peer: str, number: int, records: bytes, waiting: list[Any]) -> int:
        self.told.append(("left", peer, number, records, len(waiting)))
        return 0

    def wanted(self, peer: str, topic_filter: str, persistent: bool) -> None:
        self.told.append((topic_filter, persistent))


def town() -> tuple[Router, Table, Links, Turn, Keeper]:
    keeper = Keeper()
    router, table, links, turn = make()
    router.keep_with(keeper)
    return router, table, links, turn, keeper


def peers(router: Router, topic: bytes) -> list[str]:
    route = router.cache.get(topic) or router.resolve(topic)
    assert router.verify().wrong == 0
    return [forwarder.peer for forwarder in route.peers]


def test_a_row_says_whether_a_subscriber_lasts():
    router, table, *_ = town()
    anna, bert, cleo = Client("anna"), Client("bert"), Client("cleo")
    rows = table.owned["a"]
    router.subscribe("t", anna, PASSING)
    assert rows == {"t": 1}
    router.subscribe("t", bert, PERSISTENT)
    router.subscribe("t", cleo, PERSISTENT)
    assert rows == {"t": 2}
    router.unsubscribe("t", bert)
    assert rows == {"t": 2}
    router.subscribe("t", cleo, PASSING)
    assert rows == {"t": 1}
    router.subscribe("t", cleo, PERSISTENT)
    router.unsubscribe_all(cleo)
    assert rows == {"t": 1}
    router.unsubscribe_all(anna)
    assert rows == {}
    assert router.verify().wrong == 0


def test_only_what_lasts_is_kept_for_a_node_that_is_away():
    router, table, links, turn, keeper = town()
    links.up("b")
    table.put("b", {"kept/#": 2, "now/#": 1})
    assert peers(router, b"kept/x") == peers(router, b"now/x") == ["b"]
    router.node_down("b")
    assert peers(router, b"kept/x") == ["b"]
    assert peers(router, b"now/x") == []
    router.resolve(b"kept/x").peers[0].append_acked(b"1", lambda ok: None)
    router.resolve(b"kept/x").peers[0].append(b"0")
    turn.end()
    assert keeper.taken == [("b", b"1")]
    assert links.sent == []


def test_what_was_on_its_way_is_given_back_in_order_and_before_what_comes():
    router, table, links, turn, keeper = town()
    links.up("b")
    table.put("b", {"t": 2})
    to = router.resolve(b"t").peers[0]
    to.append_acked(b"1", lambda ok: None)
    turn.end()
    to.append_acked(b"2", lambda ok: None)
    to.append(b"q")
    router.node_down("b")
    to.append_acked(b"3", lambda ok: None)
    turn.end()
    assert [entry for entry in keeper.told if entry[0] == "left"] == [
        ("left", "b", 1, b"1", 1),
        ("left", "b", 0, b"2q", 1),
    ]
    assert keeper.taken == [("b", b"3")]


def test_what_lasts_outlives_the_rows_of_a_node_that_is_away():
    router, table, links, _, keeper = town()
    links.up("b")
    table.put("b", {"t": 2, "u": 2, "v": 1})
    router.node_down("b")
    table.put("b", {}, ["t", "u", "v"])
    assert (peers(router, b"t"), peers(router, b"v")) == (["b"], [])
    assert list(router.routes()) == []
    links.up("b")
    assert peers(router, b"t") == ["b"], "until its rows are here"
    table.put("b", {"t": 2})
    router.live("b")
    assert (peers(router, b"t"), peers(router, b"u")) == (["b"], [])
    assert keeper.told == [("t", True), ("u", True), ("u", False)]


def test_nothing_is_kept_for_a_node_that_left():
    router, table, links, turn, keeper = town()
    links.up("b")
    table.put("b", {"t": 2})
    to = router.resolve(b"t").peers[0]
    answered: list[bool] = []
    to.append_acked(b"1", answered.append)
    turn.end()
    links.down("b")
    table.put("b", {}, ["t"])
    assert (peers(router, b"t"), answered, len(list(router.forwarders()))) == ([], [True], 0)
    assert ("gone", "b") in keeper.told


def test_a_node_that_is_removed_while_it_is_away_is_forgotten():
    router, table, links, _, keeper = town()
    links.up("b")
    table.put("b", {"t": 2})
    router.node_down("b")
    table.put("b", {}, ["t"])
    router.gone("b")
    assert (peers(router, b"t"), list(router.forwarders())) == ([], [])
    assert ("t", False) in keeper.told


def test_what_is_expected_from_before_a_restart_is_kept():
    router, table, links, *_ = town()
    router.expect("b", ["t/+"])
    assert peers(router, b"t/1") == ["b"]
    assert router.awaits("b", b"t/1")
    assert not router.awaits("b", b"u")
    links.up("b")
    table.put("b", {"t/+": 1})
    router.live("b")
    assert peers(router, b"t/1") == ["b"]
    assert not router.awaits("b", b"t/1")


def test_rows_that_are_here_stay_when_what_is_expected_besides_is_forgotten():
    """Once the node is back it wants what it wanted; and when it goes again, too."""
    router, table, links, *_ = town()
    links.up("b")
    table.put("b", {"t": 2})
    router.node_down("b")
    router.expect("b", ["t"])
    links.up("b")
    router.live("b")
    assert router.awaits("b", b"t")
    router.node_down("b")
    assert router.awaits("b", b"t")
