"""Who is ready while somebody keeps apart: the rules by themselves."""

import pytest

from gossamer.node.views.readiness import NEWCOMER, Judge, Peer

LONG = NEWCOMER + 1


def peers(*apart, size=3, me=1):
    """The others of a cluster of ``size``, started in the order of their numbers."""
    return [
        Peer(f"node{n}", float(n), (f"no link to node{n}",) if n in apart else ())
        for n in range(1, size + 1)
        if n != me
    ]


def judge(me=1):
    return Judge(name=f"node{me}", started_at=float(me))


@pytest.mark.parametrize(
    ("size", "me", "apart", "ready"),
    [
        (1, 1, (), True),
        (3, 1, (3,), True),
        (3, 3, (1, 2), False),
        (5, 1, (4, 5), True),
        (5, 4, (1, 2, 3), False),
        # Halves: the side of the eldest, in a cluster of two the node that was there first.
        (2, 1, (2,), True),
        (2, 2, (1,), False),
        (4, 2, (3, 4), True),
        (4, 3, (1, 2), False),
        (3, 2, (1, 3), False),
    ],
)
def test_only_the_smaller_side_is_not_ready(size, me, apart, ready):
    one = judge(me)
    one.judge(peers(size=size, me=me), running=True, begun=0, now=0)
    assert one.judge(peers(*apart, size=size, me=me), running=True, begun=0, now=1).ready is ready


def test_one_that_starts_waits_for_all_and_not_for_ever():
    one = judge(3)
    answers = [
        one.judge(peers(2, me=3), running=True, begun=0, now=at).ready for at in (0, NEWCOMER - 1, LONG)
    ]
    assert answers == [False, False, True]


def test_one_that_was_whole_waits_for_no_newcomer():
    one = judge()
    assert one.judge(peers(), running=True, begun=0, now=0).ready
    assert one.judge(peers(3), running=True, begun=0, now=1).ready


def test_one_that_does_not_run_is_never_ready():
    assert not judge().judge(peers(), running=False, begun=0, now=LONG).ready


def test_it_tells_since_when_somebody_is_apart_and_forgets_who_is_back():
    one = judge()
    one.judge(peers(3), running=True, begun=0, now=5)
    assert one.judge(peers(3), running=True, begun=0, now=9).apart == {"node3": (5, ("no link to node3",))}
    assert one.judge(peers(), running=True, begun=0, now=10).apart == {}
    assert one.judge(peers(3), running=True, begun=0, now=11).apart["node3"][0] == 11
