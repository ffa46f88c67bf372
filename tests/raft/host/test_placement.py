"""Who should have a replica: step by step, from what the leader sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.raft import Membership
from gossamer.raft.host.placement import ALMOST, COPIES, Admit, Change, View, next_step, preferred_leader

NODES = {1: "a", 3: "b", 5: "c", 7: "d", 9: "e"}
FIVE = {"members": "abcde", "able": "abcde", "copies": 5}


def view(
    voters,
    learners=(),
    *,
    members="abcd",
    able="abcd",
    lost=(),
    behind=(),
    outgoing=(),
    racks="",
    group=1,
    copies=COPIES,
):
    """``racks``: those of a, b, c and so on; a space for none."""
    membership = Membership(tuple(voters), tuple(outgoing), tuple(learners))
    lag = {member: ALMOST + 1 if member in behind else 0 for member in (*voters, *learners)}
    named = dict.fromkeys(members, "")
    named |= {node: rack.strip() for node, rack in zip("abcd", racks, strict=False) if node in members}
    return View(group, voters[0], membership, NODES, named, set(able), set(lost), lag, copies)


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (view([1], able="a"), None),
        (view([1], able="ab"), Admit("b")),
        (view([1], [3], able="ab"), None),
        (view([1], [3], able="abc"), Admit("c")),
        (view([1], [3, 5], able="abc", behind=[5]), None),
        (view([1], [3, 5], able="abc"), Change((1, 3, 5), ())),
        (view([1, 3, 5]), None),
        (view([1, 3, 5], able="ab"), None),
        (view([1, 3, 5], members="abd"), Admit("d")),
        (view([1, 3, 5], [7], members="abd", behind=[7]), None),
        (view([1, 3, 5], [7], members="abd"), Change((1, 3, 7), ())),
        (view([1, 3, 5], members="ab", able="ab"), Change((1,), (3,))),
        (view([1, 3], [5], lost=[5]), Change((1, 3), ())),
        (view([1, 3, 5], lost=[5]), Admit("c")),
        (view([1, 3, 5], outgoing=[1]), None),
        (view([1, 3, 5], members="", able=""), None),
        # Racks: one that has none yet is better, and two voters in one are worse than a move.
        (view([1], [3], able="abcd", racks="xyxz"), Admit("d")),
        (view([1], [3], able="abc", racks="xyx "), Admit("c")),
        (view([1, 3, 5], racks="xyzw"), None),
        (view([1, 3, 5], racks="xyyx"), None),
        (view([1, 3, 5], racks="xyyz"), Admit("d")),
        (view([1, 3, 5], able="abc", racks="xyyz"), None),
        (view([1, 3, 5], [7], racks="xyyz", behind=[7]), None),
        (view([1, 3, 5], [7], racks="xyyz", able="acd"), Change((1, 5, 7), ())),
        (view([1, 3, 5], [7], racks="xxyz"), Change((1, 5, 7), ())),
        (view([1, 3, 5], [7], racks="xyzz"), Change((1, 3, 5), ())),
        # Five copies: of four places three are taken, and the fourth and fifth voter come together.
        (view([1, 3, 5], copies=5), None),
        (view([1, 3, 5], [7], **FIVE), Admit("e")),
        (view([1, 3, 5], [7, 9], behind=[9], **FIVE), None),
        (view([1, 3, 5], [7, 9], **FIVE), Change((1, 3, 5, 7, 9), ())),
        (view([1, 3, 5, 7, 9], **FIVE), None),
        (view([1, 3, 5, 7, 9], **FIVE | {"members": "abcd"}), Change((1, 3, 5), (7,))),
        (view([7, 1, 3, 5], copies=5), Change((1, 3, 7), (5,))),
        (view([1, 3, 5, 7, 9], members="abcde", able="abcde"), Change((1, 3, 5), (7, 9))),
    ],
)
def test_the_next_step_is_towards_the_replicas_that_should_be(seen, step):
    assert next_step(seen) == step


@given(st.data())
def test_steps_end_with_as_many_copies_as_there_can_be(data):
    """Whatever it begins with, each step taken at once; and in as many racks."""
    nodes = dict(NODES)
    copies = data.draw(st.sampled_from((3, 5)))
    members = data.draw(st.sets(st.sampled_from("abcde"), min_size=1))
    racks = dict(zip("abcde", data.draw(st.text("xyz ", min_size=5, max_size=5)), strict=True))
    able = data.draw(st.sets(st.sampled_from(sorted(members)), min_size=1))
    voters = data.draw(st.lists(st.sampled_from(sorted(nodes)), min_size=1, max_size=5, unique=True))
    others = sorted(set(nodes) - set(voters))
    learners = data.draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
    own = voters[0]
    members |= {nodes[own]}
    able |= {nodes[own]}
    membership = Membership(tuple(sorted(voters)), (), tuple(sorted(learners)))
    for _ in range(20):
        lag = dict.fromkeys(membership.members, 0)
        named = {node: racks[node].strip() for node in members}
        seen = View(7, own, membership, nodes, named, able, set(), lag, copies)
        step = next_step(seen)
        if step is None:
            break
        if isinstance(step, Admit):
            number = max(nodes) + 2
            nodes[number] = step.node
            membership = Membership(membership.voters, (), tuple(sorted((*membership.learners, number))))
        else:
            assert own in step.voters
            membership = Membership(step.voters, (), step.learners)
    else:
        pytest.fail(f"it does not end: {membership}")
    homes = [nodes[member] for member in membership.members]
    assert len(homes) == len(set(homes))
    assert set(homes) <= members
    wanted = max(odd for odd in (1, 3, 5) if odd <= min(len({*homes, *able}), copies))
    assert len(membership.voters) == wanted
    if wanted > 1:
        assert len({*map(seen.rack, homes)}) == min(wanted, len({*map(seen.rack, {*homes, *able})}))


def test_groups_of_the_same_voters_are_led_by_different_ones():
    led = [preferred_leader(view([1, 3, 5], group=group)) for group in range(99)]
    assert {one: led.count(one) > 15 for one in (1, 3, 5)} == {1: True, 3: True, 5: True}


def test_groups_are_spread_over_nodes_that_are_as_good():
    chosen = [next_step(view([1], group=group)).node for group in range(99)]
    assert {node: chosen.count(node) > 15 for node in "bcd"} == {"b": True, "c": True, "d": True}


def test_a_leader_is_up_and_has_the_log():
    for group in range(20):
        assert preferred_leader(view([1, 3, 5], able="ac", group=group)) in (1, 5)
        assert preferred_leader(view([1, 3, 5], behind=(3, 5))) == 1
        assert preferred_leader(view([1, 3, 5])) == preferred_leader(view([5, 1, 3]))
