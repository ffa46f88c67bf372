"""Who should have a replica: step by step, from what the leader sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.raft import Membership
from gossamer.raft.host.placement import ALMOST, COPIES, Admit, Change, View, next_step, preferred_leader

NODES = {1: "a", 3: "b", 5: "c", 7: "d"}


def view(voters, learners=(), *, members="abcd", able="abcd", lost=(), behind=(), outgoing=()):
    membership = Membership(tuple(voters), tuple(outgoing), tuple(learners))
    lag = {member: ALMOST + 1 if member in behind else 0 for member in (*voters, *learners)}
    return View(voters[0], membership, NODES, set(members), set(able), set(lost), lag)


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
    ],
)
def test_the_next_step_is_towards_the_replicas_that_should_be(seen, step):
    assert next_step(seen) == step


@given(st.data())
def test_steps_end_with_as_many_copies_as_there_can_be(data):
    """Whatever it begins with, each step taken at once."""
    nodes = dict(NODES)
    members = data.draw(st.sets(st.sampled_from("abcd"), min_size=1))
    able = data.draw(st.sets(st.sampled_from(sorted(members)), min_size=1))
    voters = data.draw(st.lists(st.sampled_from(sorted(nodes)), min_size=1, max_size=3, unique=True))
    learners = data.draw(st.lists(st.sampled_from(sorted(set(nodes) - set(voters))), max_size=2, unique=True))
    own = voters[0]
    members |= {nodes[own]}
    able |= {nodes[own]}
    membership = Membership(tuple(sorted(voters)), (), tuple(sorted(learners)))
    for _ in range(20):
        lag = dict.fromkeys(membership.members, 0)
        step = next_step(View(own, membership, nodes, members, able, set(), lag))
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
    assert len(homes) == len(set(homes)) or len(set(homes)) >= COPIES
    assert set(homes) <= members
    assert len(membership.voters) in (1, 3)
    assert (len(membership.voters) == 3) == (len(set(homes) | able) >= 3)


def test_groups_of_the_same_voters_are_led_by_different_ones():
    led = [preferred_leader(group, view([1, 3, 5])) for group in range(99)]
    assert {one: led.count(one) > 15 for one in (1, 3, 5)} == {1: True, 3: True, 5: True}


def test_a_leader_is_up_and_has_the_log():
    for group in range(20):
        assert preferred_leader(group, view([1, 3, 5], able="ac")) in (1, 5)
        assert preferred_leader(group, view([1, 3, 5], behind=(3, 5))) == 1
        assert preferred_leader(group, view([1, 3, 5])) == preferred_leader(group, view([5, 1, 3]))
