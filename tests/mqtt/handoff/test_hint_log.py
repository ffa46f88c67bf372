"""What is kept for a node that is away, and in what order and how often it gets it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mqtt.handoff.hint_log import Spool
from gossamer.mqtt.handoff.hints import NO_END, Ask, Drop, Keep, Live, Lost, Over, Send, is_for


def still(records: bytes, seconds: float) -> tuple[bytes, int]:
    """Nothing expires but what begins with ``x``, after ten seconds."""
    return (b"", 1) if records[:1] == b"x" and seconds >= 10 else (records, 0)


def away(**options: Any) -> Spool:
    spool = Spool(refresh=still, **{"limit": 1000, "max_bytes": 10**6, **options})
    spool.generation = "g"
    spool.down()
    return spool


def sent(actions: list[Any]) -> list[bytes]:
    return [action.records for action in actions if isinstance(action, Send)]


def numbers(actions: list[Any]) -> list[int]:
    return [action.kept.number for action in actions if isinstance(action, Send)]


def test_what_is_kept_goes_in_order_when_the_node_is_back():
    spool = away()
    kept = [spool.add(b"%d" % n, 1, 0.0) for n in range(3)]
    assert all([type(action) for action in actions] == [Keep] for actions in kept)
    assert spool.up() == [Ask()]
    actions = spool.answered("g", 0, {}, 1.0)
    assert sent(actions) == [b"0", b"1", b"2"]
    assert spool.settled() == []
    last = [spool.confirmed(number, 1.0) for number in numbers(actions)]
    assert last[-1] == [Drop((3,)), Over()]
    assert spool.settled() == [Live()]
    assert (spool.state, spool.messages, spool.bytes) == ("live", 0, 0)


def test_what_comes_while_it_is_given_its_own_goes_behind_and_is_for_everybody():
    spool = away()
    spool.add(b"1", 1, 0.0)
    spool.up()
    assert sent(spool.add(b"2", 1, 0.0)) == []
    actions = spool.answered("g", 0, {}, 0.0)
    actions += spool.add(b"3", 1, 0.0)
    assert [(a.records, a.kept.live) for a in actions if isinstance(a, Send)] == [
        (b"1", False),
        (b"2", True),
        (b"3", True),
    ]
    assert [type(a) for a in actions[:3]] == [Send, Over, Send]


def test_a_frame_that_the_node_had_taken_is_not_sent_again():
    spool = away()
    for frame in (7, 8, 9):
        spool.add(b"%d" % frame, 1, 0.0, session=5, frame=frame)
    spool.add(b"unsent", 1, 0.0)
    spool.up()
    assert sent(spool.answered("g", 0, {5: 8, 4: 99}, 0.0)) == [b"9", b"unsent"]
    assert spool.counts["known"] == 2


def test_what_it_got_in_a_return_that_broke_off_is_not_sent_again():
    spool = away()
    for n in range(4):
        spool.add(b"%d" % n, 1, 0.0)
    spool.up()
    spool.answered("g", 0, {}, 0.0)
    spool.confirmed(1, 0.0)
    assert spool.add(b"late", 1, 0.0)[0].kept.live
    again, _ = spool.down()
    assert [(action.kept.records, action.kept.live) for action in again] == [(b"late", False)]
    assert spool.confirmed(2, 0.0) == [], "of another return"
    spool.up()
    assert sent(spool.answered("g", 3, {}, 0.0)) == [b"3", b"late"]


def test_a_node_that_comes_back_without_its_sessions_gets_nothing_of_them():
    spool = away()
    spool.add(b"old", 2, 0.0)
    spool.up()
    spool.add(b"new", 1, 0.0)
    assert sent(spool.answered("h", 0, {}, 0.0)) == [b"new"]
    assert spool.counts["dropped_sessions_lost"] == 2


def test_a_node_that_is_gone_for_good_gets_nothing():
    spool = away()
    spool.add(b"1", 3, 0.0)
    assert spool.gone("removed") == [Drop((1,)), Lost((b"1",), "removed")]
    assert (spool.counts["dropped_removed"], spool.messages, spool.state) == (3, 0, "live")


def test_what_has_expired_is_not_sent():
    spool = away()
    spool.add(b"x1", 1, 0.0)
    spool.add(b"2", 1, 0.0)
    spool.up()
    actions = spool.answered("g", 0, {}, 20.0)
    assert sent(actions) == [b"2"]
    assert Drop((1,)) in actions
    assert spool.counts["dropped_expired"] == 1


def test_without_room_the_oldest_goes():
    spool = away(limit=3)
    actions = [spool.add(b"%d" % n, 1, 0.0) for n in range(5)]
    assert actions[3][0] == Drop((1,))
    assert [kept.records for kept in spool.entries.values()] == [b"2", b"3", b"4"]
    assert (spool.counts["dropped_overflow"], spool.overflowed) == (2, 2)


def test_without_room_the_new_one_goes_where_that_is_wanted():
    spool = away(limit=3, keep_oldest=True)
    for n in range(5):
        spool.add(b"%d" % n, 1, 0.0)
    assert [kept.records for kept in spool.entries.values()] == [b"0", b"1", b"2"]
    assert spool.overflowed == 2


def test_bytes_are_bounded_and_what_is_larger_than_all_of_it_drops_nothing_else():
    spool = away(max_bytes=1000)
    spool.add(b"." * 500, 1, 0.0)
    assert spool.add(b"." * 2000, 1, 0.0) == [Lost((b"." * 2000,), "overflow")]
    assert spool.messages == 1
    spool.add(b"." * 500, 1, 0.0)
    assert (spool.messages, spool.overflowed) == (1, 2)


def test_only_so_much_is_on_its_way_at_once():
    spool = away(limit=10**6, max_bytes=10**9)
    for _ in range(2500):
        spool.add(b"1", 1, 0.0)
    spool.up()
    flying = numbers(spool.answered("g", 0, {}, 0.0))
    got = len(flying)
    assert got == 1000
    while flying:
        flying += numbers(spool.confirmed(flying.pop(0), 0.0))
        assert len(flying) <= 1000
    assert spool.settled() == [Live()]


def test_a_client_that_moved_gets_there_what_comes_from_then_on():
    spool = away()
    spool.add(b"1", 1, 0.0)
    assert spool.moves("anna")
    assert not spool.moves("anna")
    assert spool.moved == {"anna": (2, NO_END)}


def test_a_client_that_is_the_nodes_again_gets_there_what_comes_from_then_on():
    spool = away()
    spool.add(b"1", 1, 0.0)
    spool.moves("anna")
    spool.add(b"2", 1, 0.0)
    assert spool.returns("anna")
    assert not spool.returns("anna")
    assert not spool.returns("bert")
    assert [is_for("anna", number, spool.moved) for number in (1, 2, 3)] == [True, False, True]
    assert is_for("bert", 2, spool.moved)


def test_what_the_disc_had_goes_first():
    before = away()
    before.add(b"1", 1, 0.0)
    before.add(b"2", 1, 0.0)
    after = Spool(refresh=still, limit=100, max_bytes=10**6, first=1 << 32)
    after.restore(list(reversed(before.entries.values())), "g", {"anna": (2, NO_END)})
    after.add(b"3", 1, 0.0)
    after.up()
    assert sent(after.answered("g", 0, {}, 0.0)) == [b"1", b"2", b"3"]
    assert after.moved == {"anna": (2, NO_END)}


class Peer:
    """A node that is cut off now and then, with what it took."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.taken = 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["add", "cut", "back", "answer", "take", "take and cut", "confirm"]), max_size=60
    )
)
def test_whenever_it_is_cut_off_a_node_gets_all_in_order_and_once(events: list[str]):
    spool, peer = away(), Peer()
    way: list[Any] = []
    flown: list[int] = []
    count = 0

    def do(actions: list[Any]) -> None:
        way.extend(action for action in actions if isinstance(action, Send))

    def take() -> None:
        kept = way.pop(0).kept
        assert kept.number > peer.taken
        peer.got.append(kept.records)
        peer.taken = kept.number
        flown.append(kept.number)

    for event in [*events, "cut", "back", "answer"]:
        if event == "add":
            count += 1
            do(spool.add(b"%d" % count, 1, 0.0))
        elif event == "back" and spool.state == "away":
            do(spool.up())
        elif event == "answer" and spool.state == "asking":
            do(spool.answered("g", peer.taken, {}, 0.0))
        elif event.startswith("take") and way:
            take()
        elif event == "confirm" and flown:
            do(spool.confirmed(flown.pop(0), 0.0))
        if event.endswith("cut"):
            way.clear()
            flown.clear()
            do(spool.down()[0])
    while way or flown:
        if way:
            take()
        do(spool.confirmed(flown.pop(0), 0.0))
    assert peer.got == [b"%d" % n for n in range(1, count + 1)]
    assert spool.settled() == [Live()]


def test_what_was_live_is_for_every_session_of_a_node_that_is_away_again():
    """One that had been elsewhere may have been on its way back, and have it from nowhere else."""
    spool = away()
    spool.add(b"1", 1, 0.0)
    for client in ("elsewhere", "back", "returned"):
        spool.moves(client)
    spool.add(b"2", 1, 0.0)
    spool.up()
    spool.moves("late")
    spool.add(b"3", 1, 0.0)
    spool.returns("returned")
    spool.add(b"4", 1, 0.0)
    _, changed = spool.down()
    assert sorted(changed) == ["back", "elsewhere", "late", "returned"]
    assert spool.moves("elsewhere")
    spool.add(b"5", 1, 0.0)
    gets = {
        client: [number for number in spool.entries if is_for(client, number, spool.moved)]
        for client in ("elsewhere", "back", "returned", "late")
    }
    assert gets == {
        "elsewhere": [1, 3, 4],
        "back": [1, 3, 4, 5],
        "returned": [1, 3, 4, 5],
        "late": [1, 2, 3, 4, 5],
    }
    assert "late" not in spool.moved
    assert spool.down()[1] == [], "nothing was live"


def test_what_a_node_kept_that_leaves_goes_behind_and_to_whom_it_was_for():
    spool = away(first=10)
    spool.add(b"10", 1, 0.0)
    spool.moves("left early")
    spool.moves("left late")
    spool.add(b"11", 1, 0.0)
    theirs = away(first=500)
    theirs.add(b"500", 1, 0.0)
    theirs.moves("left early")
    theirs.moves("theirs alone")
    theirs.add(b"501", 1, 0.0)
    theirs.moves("left late")
    actions, changed = spool.adopt(theirs.entries.values(), theirs.moved)
    assert sorted(changed) == ["left early", "left late", "theirs alone"]
    assert [type(action) for action in actions] == [Keep, Keep]
    assert [kept.records for kept in spool.entries.values()] == [b"10", b"11", b"500", b"501"]
    spool.add(b"14", 1, 0.0)
    gets = {
        client: [number for number in spool.entries if is_for(client, number, spool.moved)]
        for client in ("stays", "left early", "left late", "theirs alone")
    }
    assert gets == {
        "stays": [10, 11, 12, 13, 14],
        "left early": [10, 12],
        "left late": [10, 12, 13],
        "theirs alone": [10, 11, 12, 14],
    }
    assert not spool.moves("left early")
    assert spool.returns("left early")
    spool.add(b"15", 1, 0.0)
    assert is_for("left early", 15, spool.moved)
    assert not is_for("left early", 14, spool.moved)


def test_what_another_node_has_taken_over_is_kept_no_more_though_it_is_on_its_way():
    spool = away()
    for n in range(3):
        spool.add(b"%d" % n, 1, 0.0)
    spool.up()
    spool.answered("g", 0, {}, 0.0)
    assert [type(action) for action in spool.adopted([1, 2, 9], 0.0)] == [Drop]
    assert spool.confirmed(1, 0.0) == []
    assert spool.confirmed(3, 0.0) == [Drop((3,)), Over()]
    assert spool.counts["handed_over"] == 2
    assert (spool.messages, spool.bytes) == (0, 0)
