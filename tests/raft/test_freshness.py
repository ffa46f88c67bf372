"""How old a replica takes its state to be: never younger than it is, whatever comes late."""

from math import inf

from gossamer.raft import Membership
from gossamer.raft.freshness import Freshness
from gossamer.raft.messages import Heartbeat
from tests.raft.group import Group


class Clock:
    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def test_a_state_is_as_old_as_the_stamp_that_came_back_once_it_has_the_entries():
    clock = Clock(1000.0)
    freshness = Freshness(clock)
    assert freshness.as_of(99) == -inf
    clock.now = 1012.0
    stamp = freshness.stamp()
    clock.now = 1900.0
    freshness.confirm(stamp, 31)
    assert freshness.as_of(30) == -inf
    assert freshness.as_of(31) == 1012.0


def test_a_stamp_that_comes_late_makes_nothing_older():
    clock = Clock()
    freshness = Freshness(clock)
    early = freshness.stamp()
    clock.now = 5.0
    freshness.confirm(freshness.stamp(), 8)
    freshness.confirm(early, 3)
    assert (freshness.as_of(3), freshness.as_of(8)) == (-inf, 5.0)
    freshness.confirm(early, 3)
    assert freshness.as_of(8) == 5.0


def test_stamps_of_an_earlier_process_and_none_at_all_say_nothing():
    """Whatever the two clocks show: the machine may have been started anew between them."""
    for began in (0.0, 7.0, 1e4):
        before = Freshness(Clock(began + 1e-9)).stamp()
        clock = Clock(began)
        freshness = Freshness(clock)
        clock.now += 1e5
        for stamp in (before, 0, freshness.stamp() + 1):
            freshness.confirm(stamp, 1)
        assert freshness.as_of(99) == -inf


def settled(**settings):
    group = Group(Membership((1, 2, 3)), **settings)
    group.replicas[1].campaign()
    group.settle()
    return group


def ages(group):
    return {
        number: group.ticks - replica.as_of(replica.log.applied) for number, replica in group.replicas.items()
    }


def test_followers_know_their_age_from_the_second_heartbeat_on():
    group = settled()
    group.tick(2)
    assert ages(group) == {1: 0, 2: inf, 3: inf}
    group.tick(1)
    assert ages(group) == {1: 0, 2: 2, 3: 2}
    group.tick(50)
    assert ages(group) == {1: 0, 2: 2, 3: 2}


def test_an_idle_group_knows_its_age_to_three_heartbeats():
    group = settled(idle_heartbeat_ticks=5)
    group.tick(20)
    worst = 0
    for _ in range(20):
        group.tick(1)
        worst = max(worst, *ages(group).values())
    assert worst == 14


def test_a_leader_that_is_cut_off_makes_its_follower_no_younger():
    """Of five, two are cut off with the leader, which goes on for a while; the others elect another."""
    group = Group(Membership((1, 2, 3, 4, 5)))
    group.replicas[1].campaign()
    group.settle()
    group.tick(10)
    cut_at = group.ticks
    group.cut([1, 2], [3, 4, 5])
    group.tick(8)
    assert group.replicas[1].leader == group.replicas[2].leader == 1
    assert all(replica.as_of(99) <= cut_at for number, replica in group.replicas.items() if number < 3)


def test_a_heartbeat_of_a_release_that_knows_of_no_stamps_says_nothing():
    group = settled()
    group.replicas[2].step(Heartbeat(2, 1, 1, 1, 0))
    assert group.replicas[2].as_of(99) == -inf
