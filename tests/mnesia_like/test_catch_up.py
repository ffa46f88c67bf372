"""What a node that is gone told one of the others, both have: in order, of the same life, without gaps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from gossamer.mnesia_like.replication.exchange import Send
from gossamer.mnesia_like.replication.replica import Replica, Tail
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.replication.wire import (
    Chunk,
    Delta,
    Follow,
    Head,
    Reached,
    Refused,
    Relayed,
    decode_frame,
    encode_creations,
    encode_frames,
)
from gossamer.mnesia_like.values import encode

from .fakes import play, scripts
from .test_shared import DEFINITION, NAMES, Sharing


@given(
    st.integers(1, 9),
    st.integers(1, 40),
    st.lists(st.integers(1, 20) | st.none(), max_size=30),
    st.integers(-3, 60),
)
def test_a_tail_gives_all_that_comes_after_a_number_or_nothing(
    most: int, most_bytes: int, script: list[int | None], asked: int
) -> None:
    """Of a script of sizes; None: what was kept is of no use any more, as after a snapshot."""
    tail = Tail(most=most, most_bytes=most_bytes)
    added: dict[int, bytes] = {}
    number = 3
    for size in script:
        number += 1
        if size is None:
            tail.clear()
            added.clear()
            number += 10
        else:
            added[number] = bytes(size)
            tail.add(number, added[number])
        assert 0 <= tail.size <= most_bytes
    for behind in (asked, *range(number + 2)):
        found = tail.after(behind)
        assert len(found) <= most
        assert found in ([], [added.get(n) for n in range(behind + 1, number + 1)])
    if added and len(added[number]) <= most_bytes:
        assert tail.after(number - 1) == [added[number]]


def replica(position: int = 4) -> Replica:
    """Of an owner that went at this number of its first life."""
    made = Replica(DEFINITION, "c")
    made.peer_up(1)
    made.on_head(position)
    if position:
        made.on_chunk(Chunk("routes", position, {"k": 0}))
    made.peer_down(0.0, left=False)
    return made


def relayed(number: int, creation: int = 1) -> Relayed:
    return Relayed("routes", "c", creation, Delta("routes", number, {"k": number}, {}))


def test_what_is_passed_on_takes_effect_in_its_turn_and_once() -> None:
    """As far as it has no gap; then it can be passed on again."""
    one = replica()
    taken = [number for number in (5, 7, 5, 6, 6, 8) if one.on_relayed(relayed(number)) is not None]
    assert taken == [5, 6]
    assert (one.position, one.rows) == (6, {"k": 6})
    assert len(one.tail.after(4)) == 2


def test_what_is_passed_on_of_another_life_or_to_no_beginning_has_no_effect() -> None:
    """Nor of an owner that is up, whose deltas are counted, or that has left."""
    up, left = replica(), replica()
    up.peer_up(1)
    left.peer_down(0.0, left=True)
    for one, delta in (
        (replica(), relayed(5, creation=2)),
        (replica(0), relayed(1)),
        (up, relayed(5)),
        (left, relayed(1)),
        (left, relayed(5)),
    ):
        rows = dict(one.rows)
        assert one.on_relayed(delta) is None
        assert one.rows == rows


@pytest.mark.parametrize("ends", ["snapshot", "life"])
def test_a_tail_ends_where_its_numbers_do(ends: str) -> None:
    one = replica()
    one.on_relayed(relayed(5))
    if ends == "snapshot":
        one.peer_up(1)
        one.on_head(9)
        one.on_chunk(Chunk("routes", 9, {"k": 9}))
    else:
        one.peer_up(2)
    assert one.tail.after(4) == []


def positions(net: Sharing, origin: str) -> list[int]:
    return [m.state.replicas[origin].position for n, m in net.machines.items() if n != origin]


def told_some(net: Sharing, writes: int, *, value: int = 1) -> None:
    """``c`` is cut off from ``b``, then writes, which ``a`` alone hears of."""
    net.tell("c", -1, value)
    net.advance(1.0)
    net.partition("c", "b")
    for number in range(writes):
        net.tell("c", number, value)
    net.advance(0.1)


def test_what_is_not_kept_any_more_is_adopted() -> None:
    net = Sharing(1, NAMES)
    told_some(net, 1001)
    net.crash("c")
    net.advance(0.1)
    assert positions(net, "c") == [1002, 1]
    assert len(net.shared["b"].rows) == 1002
    assert net.shared["a"].rows == net.shared["b"].rows


@pytest.mark.parametrize("agreed", [True, False])
def test_only_a_peer_that_agrees_about_the_table_passes_anything_on(agreed: bool) -> None:
    core = Replication(node="b", creation=1)
    state, _ = core.create(DEFINITION, 0.0)
    for name, messages in (
        ("c", [Head("routes", 4), Chunk("routes", 4, {})]),
        ("a", [Head("routes", 0) if agreed else Refused("routes", "another epoch"), relayed(5)]),
    ):
        core.peer_up(name, 1, 1, 0.0)
        if name == "a":
            core.peer_down("c", 0.0)
        for payload in encode_frames(encode_creations(1, 1), map(encode, messages)):
            core.receive(name, payload, 0.0)
    assert state.replicas["c"].position == 4 + agreed


def test_a_table_is_not_loaded_before_those_have_answered_that_had_more_of_a_node_that_is_gone() -> None:
    core = Replication(node="b", creation=1)
    core.create(DEFINITION, 0.0)
    core.peer_up("a", 1, 1, 0.0)

    def tell(*messages: Any) -> list[Any]:
        found = []
        for payload in encode_frames(encode_creations(1, 1), map(encode, messages)):
            for action in core.receive("a", payload, 0.0):
                if isinstance(action, Send):
                    found += decode_frame("b", action.frame)[2]
        return [message for message in found if isinstance(message, Reached | Follow)]

    follow = Follow("routes", core.tables["routes"].fingerprint, 0, snapshot=False)
    answer = tell(follow, Head("routes", 0), Reached("routes", "c", 7, 5))
    assert [type(message) for message in answer] == [Reached, Follow]
    assert answer[0] == Reached("routes", "c", 7, 0)
    assert core.not_loaded("routes")
    # Asked for once, however often it says so.
    assert [type(message) for message in tell(Head("routes", 1), Reached("routes", "c", 7, 5))] == [Reached]
    assert core.not_loaded("routes")
    tell(Delta("routes", 1, {"k": [1, "c", 1]}, {}))
    assert not core.not_loaded("routes")


def test_who_has_part_of_what_a_node_had_that_is_gone_asks_as_one_that_has_nothing() -> None:
    """What is passed on in order would come before the answer that it is all here."""
    core = Replication(node="b", creation=1)
    state, _ = core.create(DEFINITION, 0.0)
    follow = Follow("routes", state.fingerprint, 0, snapshot=False)
    for name, messages in (
        ("a", [follow, Head("routes", 0)]),
        ("c", [Head("routes", 9), Chunk("routes", 4, {"k": [1, "c", 1]})]),
    ):
        core.peer_up(name, 1, 1, 0.0)
        for payload in encode_frames(encode_creations(1, 1), map(encode, messages)):
            core.receive(name, payload, 0.0)
    sent = [action for action in core.peer_down("c", 0.0) if isinstance(action, Send)]
    told = [message for action in sent for message in decode_frame("b", action.frame)[2]]
    assert Reached("routes", "c", 1, 0) in told
    assert state.replicas["c"].position == 4
    assert core.not_loaded("routes")


OF_C = (st.just("c"), st.sampled_from("ab"))
WITHIN_GRACE = (st.sampled_from([0.001, 0.01, 0.3, 2.0]),)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    script=scripts(
        *("tell", "partition", "heal", "advance"), most=40, partition=OF_C, heal=OF_C, advance=WITHIN_GRACE
    ),
    fate=st.sampled_from(["cut", "crash"]),
)
def test_survivors_are_level_however_a_node_went(seed: int, script: list[tuple[Any, ...]], fate: str) -> None:
    """And all nodes are once it is back, as if it had told everybody itself."""
    note(f"seed={seed}")
    net = Sharing(seed, NAMES)
    for name in NAMES:
        net.tell(name, -1, 1)
    net.advance(1.0)
    play(net, script)
    if fate == "cut":
        net.partition("c", "a")
        net.partition("c", "b")
    else:
        net.crash("c")
    net.advance(0.3)
    assert net.shared["a"].rows == net.shared["b"].rows
    assert len(set(positions(net, "c"))) == 1
    if fate == "crash":
        net.boot("c")
    net.settle()
    net.check()
