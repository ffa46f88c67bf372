"""Who is down for too long goes: once, by one node, never by a minority or while a split is open."""

import pytest

from gossamer.autoheal.autoclean import Autoclean
from gossamer.autoheal.values import Cluster, Peer


def cluster(online, known):
    return Cluster({n: Peer(n, 1, float(n[1:])) for n in online}, frozenset(known))


ALL = ["n1", "n2", "n3"]


def run(clean, seconds, *, online=("n1", "n2"), known=ALL, unresolved=False, start=0.0):
    removed = []
    for second in range(int(seconds) + 1):
        down = dict.fromkeys(set(known) - set(online))
        removed += clean.tick(cluster(online, known), down, start + second, unresolved=unresolved)
    return removed


def make(node="n1", limit=300.0, **options):
    return Autoclean(node=node, limit=limit, now=0.0, wall=options.pop("wall", 0.0), **options)


def test_a_member_that_is_down_for_too_long_is_removed_once():
    clean = make()
    assert run(clean, 299) == []
    assert run(clean, 20, start=300) == ["n3"]


def test_a_removal_that_did_not_work_is_tried_again():
    assert run(make(limit=10.0), 60) == ["n3", "n3"]


def test_only_the_leader_removes():
    assert run(make("n2"), 400) == []


def test_a_minority_removes_nobody():
    assert run(make(), 400, online=["n1"]) == []
    assert run(make(), 400, online=["n1"], known=["n1", "n2"]) == []


def test_nobody_is_removed_while_a_split_is_open():
    clean = make()
    assert run(clean, 400, unresolved=True) == []
    assert run(clean, 1, start=401) == ["n3"]


def test_a_member_that_returns_begins_at_nought():
    clean = make()
    run(clean, 200)
    run(clean, 5, online=ALL, start=201)
    assert run(clean, 299, start=207) == []


def test_a_restarted_observer_goes_on_counting():
    clean = make(wall=1000.0)
    run(clean, 200)
    kept = clean.downtime(wall=1200.0)
    clean = make(wall=1250.0, downtime=kept)
    # It has just started, and knows nobody.
    assert run(clean, 5, online=["n1"], known=["n1"]) == []
    assert run(clean, 40, start=6) == []
    assert run(clean, 10, start=46) == ["n3"]


def test_a_clock_that_went_back_adds_nothing():
    clean = make(wall=500.0, downtime=make(wall=1000.0).downtime(wall=1000.0))
    assert run(clean, 300) == []


@pytest.mark.parametrize("limit", [None, 1000.0])
def test_the_limit_can_be_changed_meanwhile(limit):
    clean = make(limit=limit)
    assert run(clean, 400) == []
    clean.limit = 300.0
    assert run(clean, 5, start=401) == ["n3"]
