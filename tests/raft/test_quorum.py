"""Quorums: what a majority has, in one set of voters and in two; held against a definition by counting."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.raft.quorum import (
    Vote,
    acknowledged,
    joint_outcome,
    jointly_acknowledged,
    majority,
    outcome,
)

VOTERS = st.sets(st.integers(1, 9), max_size=7)
ACKS = st.dictionaries(st.integers(1, 9), st.integers(0, 5))
VOTES = st.dictionaries(st.integers(1, 9), st.booleans())


def has(voters, acks, index):
    return not voters or sum(acks.get(voter, 0) >= index for voter in voters) * 2 > len(voters)


@given(VOTERS, VOTERS, ACKS)
def test_the_index_is_the_largest_that_both_majorities_have(incoming, outgoing, acks):
    index = jointly_acknowledged(incoming, outgoing, acks)
    expected = [n for n in range(7) if has(incoming, acks, n) and has(outgoing, acks, n)]
    assert min(index, 6) == max(expected)


@given(VOTERS, VOTES)
def test_a_vote_is_decided_when_no_answer_can_change_it(voters, votes):
    silent = [voter for voter in voters if voter not in votes]
    best = {voter: votes.get(voter, True) for voter in voters}
    worst = {voter: votes.get(voter, False) for voter in voters}
    can_win, must_win = (has(voters, {v: int(yes) for v, yes in x.items()}, 1) for x in (best, worst))
    expected = Vote.WON if must_win else Vote.PENDING if can_win else Vote.LOST
    assert outcome(voters, votes) is expected
    assert silent or expected is not Vote.PENDING


@given(VOTERS, VOTERS, VOTES)
def test_both_sets_must_win(incoming, outgoing, votes):
    found = joint_outcome(incoming, outgoing, votes)
    each = [outcome(incoming, votes), outcome(outgoing, votes)]
    assert (found is Vote.WON) == (each == [Vote.WON] * 2)
    assert (found is Vote.LOST) == (Vote.LOST in each)


def test_any_two_majorities_meet():
    for size in range(1, 8):
        quorums = [set(quorum) for quorum in combinations(range(size), majority(size))]
        assert all(one & other for one in quorums for other in quorums)
    assert acknowledged((), {}) > 1 << 62
