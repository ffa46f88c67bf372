"""What a remote node is sent, in how many frames, and what those who wait for it are told."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.config import MqttConfig
from gossamer.distribution import Frame
from gossamer.errors import UsageError
from gossamer.routes import Forwarder, Router, SubscriptionOptions
from gossamer.routes.forwarding.forwarding import GROUP_MARK, KEPT_MARK
from tests.routes.fakes import Client, Links, Turn, make


def forwarder(**options: Any) -> tuple[Forwarder, Links, Turn]:
    turn, links = Turn(), Links()
    made = Forwarder("b", send=lambda f, r: links.send("b", "data", f, r), schedule=turn, **options)
    return made, links, turn


def test_records_of_one_turn_are_one_frame():
    to, links, turn = forwarder()
    to.append(b"one")
    to.append(b"two")
    assert links.sent == []
    turn.end()
    to.append(b"three")
    turn.end()
    assert links.sent == [("b", b"onetwo", False), ("b", b"three", False)]


def test_one_acknowledged_record_makes_the_frame_reliable_and_keeps_the_order():
    to, links, turn = forwarder()
    safe: list[Any] = []
    to.append(b"1")
    to.append_acked(b"2", lambda ok: safe.append((2, ok)))
    to.append(b"3")
    to.append_acked(b"4", lambda ok: safe.append((4, ok)))
    turn.end()
    assert links.sent == [("b", b"1234", True)]
    assert (safe, to.pending) == ([], 2)
    to.acked(1)
    assert (safe, to.pending, to.unacked_bytes) == ([(2, True), (4, True)], 0, 0)


def test_large_batches_are_split_in_order():
    to, links, turn = forwarder(frame_bytes=10)
    for n in range(8):
        if n % 3:
            to.append(b"%d---" % n)
        else:
            to.append_acked(b"%d---" % n, lambda ok: None)
    turn.end()
    assert b"".join(frame for _, frame, _ in links.sent) == b"".join(b"%d---" % n for n in range(8))
    assert [(len(frame), reliable) for _, frame, reliable in links.sent] == [
        (12, True),
        (12, True),
        (8, True),
    ]


def test_a_peer_that_goes_down_is_answered_for_as_the_policy_says():
    for policy in (True, False):
        to, _, turn = forwarder(lost_is_safe=policy)
        safe: list[bool] = []
        to.append_acked(b"sent", safe.append)
        turn.end()
        to.append_acked(b"unsent", safe.append)
        to.append(b"qos0")
        to.down()
        turn.end()
        assert safe == [policy, policy]
        assert to.counts["dropped_peer_down"] == 3
        assert to.pending == 0


def test_a_frame_that_took_effect_before_an_earlier_one_is_safe_and_not_given_up():
    left = []
    to, _, turn = forwarder(left=lambda number, records, waiting: left.append((number, records)) or 0)
    safe: list[tuple[bytes, bool]] = []
    for record in (b"1", b"2", b"3"):
        to.append_acked(record, lambda ok, record=record: safe.append((record, ok)))
        turn.end()
    to.ahead([2])
    to.ahead([2, 9])
    assert (safe, to.pending, to.unacked_bytes) == ([(b"2", True)], 2, 3)
    to.acked(1)
    assert safe == [(b"2", True), (b"1", True)]
    to.down()
    assert left == [(3, b"3")]
    assert to.unacked_bytes == 0


def test_records_are_safe_once_all_their_bytes_took_effect_and_each_is_told_once():
    left = []
    to, _, turn = forwarder(left=lambda number, records, waiting: left.append(records) or 0)
    safe: list[bytes] = []
    for record in (b"aaaa", b"bb", b"cc"):
        to.append_acked(record, lambda ok, record=record: safe.append(record))
    to.append(b"zz")
    turn.end()
    to.partly(1, 0, 2)
    to.partly(1, 0, 2)
    assert safe == []
    to.partly(1, 2, 5)
    assert (safe, to.pending) == ([b"aaaa"], 2)
    to.partly(1, 6, 99)
    to.partly(2, 0, 10)
    assert (safe, to.pending) == ([b"aaaa", b"cc"], 1)
    to.partly(1, 0, 10)
    to.acked(1)
    to.down()
    assert (safe, left) == ([b"aaaa", b"cc", b"bb"], [])


def test_a_peer_that_the_links_do_not_know_counts_as_down():
    to, links, turn = forwarder()
    links.gone.add("b")
    safe: list[bool] = []
    to.append_acked(b"x", safe.append)
    assert safe == [], "never within the call"
    turn.end()
    assert safe == [True]
    assert to.counts["dropped_peer_down"] == 1


def test_a_slow_peer_is_congested_until_half_is_acknowledged():
    seen: list[bool] = []
    to, links, turn = forwarder(high_water=100, congestion=lambda _, congested: seen.append(congested))
    for _ in range(4):
        to.append_acked(b"x" * 25, lambda ok: None)
        turn.end()
    assert to.congested
    to.append(b"dropped")
    to.append_acked(b"kept", lambda ok: None)
    turn.end()
    assert to.counts["dropped_congested"] == 1
    assert links.sent[-1] == ("b", b"kept", True)
    to.acked(2)
    assert to.congested
    to.acked(3)
    assert seen == [True, False]
    assert to.unacked_bytes == 29


def test_a_callback_that_raises_does_not_keep_the_others_waiting():
    to, _, turn = forwarder()
    safe: list[bool] = []

    def broken(ok: bool) -> None:
        raise ValueError("mine")

    to.append_acked(b"1", broken)
    to.append_acked(b"2", safe.append)
    turn.end()
    to.acked(1)
    assert safe == [True]


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 40)),
            st.tuples(st.just("acked"), st.integers(1, 40)),
            st.tuples(st.sampled_from(["turn", "ack", "down", "up"]), st.just(0)),
        ),
        max_size=60,
    )
)
def test_every_record_is_answered_once_and_in_order(steps):
    to, links, turn = forwarder(frame_bytes=64, high_water=256)
    asked: list[int] = []
    told: list[int] = []
    number = 0
    for what, size in steps:
        if what == "append":
            to.append(b"x" * size)
        elif what == "acked":
            asked.append(number)
            to.append_acked(b"y" * size, lambda ok, n=number: told.append(n))
            number += 1
        elif what == "turn":
            turn.end()
        elif what == "ack":
            to.acked(links._numbers.get("b", 0))
        elif what == "down":
            turn.end()  # a session's end is an event of its own turn
            to.down()
            links._numbers.clear()
        else:
            to.up = True
        assert told == asked[: len(told)]
    turn.end()
    to.down()
    assert told == asked
    assert (to.pending, to.unacked_bytes, to.congested) == (0, 0, False)
    assert all(len(frame) < 64 + 40 for _, frame, _ in links.sent)


def received(router: Router, links: Links, peer: str, payload: bytes, number: int) -> None:
    links.receiver(Frame(peer, "data", number, payload))


def test_the_router_forwards_once_to_each_node_that_wants_a_topic():
    router, table, links, turn = make()
    for peer in ("b", "c", "d"):
        links.up(peer)
    table.put("b", {"a/+": 1, "a/#": 1, "a/x": 1})
    table.put("c", {"other": 1})
    table.put("d", {"#": 1})
    route = router.resolve(b"a/x")
    for peer in route.peers:
        peer.append(b"message")
    turn.end()
    assert sorted(peer for peer, _, _ in links.sent) == ["b", "d"]


def test_what_arrives_is_handed_over_and_acknowledged_after_it_took_effect():
    router, _, links, _ = make()
    assert links.receiver is None, "frames wait at their senders while nobody takes them"
    order: list[Any] = []
    router.on_forward(lambda peer, records: order.append((peer, records, list(links.finished))))
    received(router, links, "b", b"records", 1)
    assert order == [("b", b"records", [])]
    assert [frame.number for frame in links.finished] == [1]


def test_acks_and_ends_of_sessions_reach_the_right_forwarder():
    router, table, links, turn = make()
    safe: list[Any] = []
    for peer in ("b", "c"):
        links.up(peer)
        table.put(peer, {"t": 1})
    route = router.resolve(b"t")
    for _ in range(2):
        for peer in route.peers:
            peer.append_acked(b"m", lambda ok, p=peer.peer: safe.append((p, ok)))
        turn.end()
    links.ack("b", 1)
    assert safe == [("b", True)]
    links.down("c")
    assert safe[1:] == [("c", True), ("c", True)]
    assert [peer.peer for peer in router.resolve(b"t").peers] == ["b"]
    links.up("c")
    assert [peer.peer for peer in router.resolve(b"t").peers] == ["b", "c"]


def test_congestion_of_a_peer_is_told():
    router, table, links, turn = make(high_water=10)
    told: list[Any] = []
    router.on_congestion(lambda peer, congested: told.append((peer, congested)))
    links.up("b")
    table.put("b", {"t": 1})
    router.resolve(b"t").peers[0].append_acked(b"x" * 20, lambda ok: None)
    turn.end()
    links.ack("b", 1)
    assert told == [("b", True), ("b", False)]


def test_a_node_that_is_forgotten_gives_its_place_to_another():
    router, table, links, _ = make()
    router.subscribe("t", Client("anna"), SubscriptionOptions())
    for n in range(50):
        peer = f"n{n}"
        links.up(peer)
        table.put(peer, {"t": 1})
        assert [p.peer for p in router.resolve(b"t").peers] == [peer]
        links.down(peer)
        table.put(peer, {}, ["t"])
    assert router.stats()["nodes"] == 0
    links.up("last")
    assert router._nodes.slot("last").bit == 1


def test_what_a_forgotten_node_lost_stays_counted():
    router, table, links, turn = make()
    links.up("b")
    table.put("b", {"t": 1})
    router.resolve(b"t").peers[0].append_acked(b"m", lambda ok: None)
    turn.end()
    links.down("b")
    table.put("b", {}, ["t"])
    stats = router.stats()
    assert (stats["nodes"], stats["forward_frames"], stats["forward_dropped_peer_down"]) == (0, 1, 1)


def test_async_forwarding_answers_once_the_record_is_on_its_way_and_still_counts_what_is_lost():
    router, table, links, turn = make(config=MqttConfig(forwarding="async"), high_water=10)
    safe: list[bool] = []
    told: list[Any] = []
    router.on_congestion(lambda peer, congested: told.append(congested))
    links.up("b")
    table.put("b", {"t": 1})
    peer = router.resolve(b"t").peers[0]
    peer.append_acked(b"m" * 20, safe.append)
    assert safe == [], "never within the call"
    turn.end()
    assert safe == [True]
    assert [reliable for _, _, reliable in links.sent] == [True], "the link keeps it all the same"
    assert (peer.pending, told) == (1, [True])
    links.ack("b", 1)
    assert (peer.pending, safe, told) == (0, [True], [True, False])
    peer.append_acked(b"2", safe.append)
    turn.end()
    peer.append_acked(b"3", safe.append)
    turn.end()
    links.down("b")
    assert safe == [True] * 3
    assert peer.counts["dropped_peer_down"] == 2
    peer.append_acked(b"4", safe.append)
    turn.end()
    assert safe == [True] * 4, "a peer that is gone has no subscribers: answered by the same rule as ever"


def dropping(**options: Any) -> tuple[Forwarder, Links, Turn, list[Any]]:
    to, links, turn = forwarder(**options)
    told: list[Any] = []
    to.dropped = lambda peer, records, reason, kept: told.append((peer, records, reason, kept))
    return to, links, turn, told


def test_what_a_peer_that_is_behind_does_not_get_is_told():
    to, _, turn, told = dropping(high_water=3)
    to.append_acked(b"abc", lambda ok: None)
    turn.end()
    to.append(b"de")
    assert told == [("b", b"de", "congested", False)]


def test_what_a_peer_that_goes_down_does_not_get_is_told():
    to, _, turn, told = dropping()
    to.append_acked(b"1", lambda ok: None)
    to.append(b"2")
    turn.end()
    to.append_acked(b"3", lambda ok: None)
    to.append(b"4")
    to.down()
    turn.end()
    assert told == [("b", b"12", "peer_down", False), ("b", b"34", "peer_down", False)]


def test_what_finds_another_member_is_not_told_as_dropped():
    found: list[bytes] = []
    to, _, turn, told = dropping(lost=lambda record, on_safe: found.append(record))
    to.append_acked(b"1", lambda ok: None)
    turn.end()
    to.append_acked(b"2", lambda ok: None)
    to.append(b"3")
    to.down()
    turn.end()
    assert (found, told) == ([b"1", b"2"], [("b", b"3", "peer_down", False)])


def test_what_is_kept_for_a_peer_is_told_with_that():
    to, _, turn, told = dropping()
    to.left = lambda number, records, waiting: 0
    to.append_acked(b"1", lambda ok: None)
    turn.end()
    to.down()
    assert told == [("b", b"1", "peer_down", True)]


def test_a_frame_that_left_late_goes_as_those_say_who_know_what_is_in_it():
    router, _table, links, _turn = make()
    router.refresh_with(
        lambda records, _: (b"fresh " + records, 0), lambda entries, _: (b"kept " + entries, 0)
    )
    kept, group = bytes([KEPT_MARK]), bytes([GROUP_MARK, 0, 0, 1]) + b"g"
    assert links.refresh(b"one", 2.0) == b"fresh one"
    assert links.refresh(kept + b"one", 2.0) == kept + b"kept one"
    assert links.refresh(group + b"one", 2.0) == group + b"fresh one"


def test_a_frame_that_cannot_be_refreshed_goes_as_it_is():
    """It would be tried again over each new connection, and nothing behind it would pass."""
    router, _table, links, _turn = make()

    def fail(_records: bytes, _seconds: float) -> tuple[bytes, int]:
        raise UsageError("no run of records")

    router.refresh_with(fail, fail)
    assert links.refresh(b"one", 2.0) == b"one"
