"""The state of unique names: who gets one, and whose lease is over."""

import pytest

from gossamer.raft.names.machine import (
    LEASE,
    ListNames,
    NamesMachine,
    Register,
    Release,
    Renew,
    Unregister,
    Whereis,
    encoded,
)
from gossamer.supervisor import Pid

A, B = Pid("a", 1, 7), Pid("b", 1, 7)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def machine(clock):
    return NamesMachine(clock)


def test_the_first_that_asks_gets_a_name_and_asking_again_is_the_same(machine):
    assert machine.apply(5, encoded(Register("x", A))) == 5
    assert machine.apply(6, encoded(Register("x", B))) == 0
    assert machine.apply(7, encoded(Register("x", A))) == 5
    assert machine.read(encoded(Whereis("x"))) == (A, 5)
    assert machine.apply(8, encoded(Unregister("x", B))) is False
    assert machine.apply(9, encoded(Unregister("x", A))) is True
    assert machine.read(encoded(Whereis("x"))) is None
    assert machine.apply(10, encoded(Register("x", B))) == 10


def test_a_later_creation_of_a_node_takes_over_what_the_earlier_one_had(machine):
    assert machine.apply(5, encoded(Register("x", A))) == 5
    assert machine.apply(6, encoded(Register("x", Pid("a", 2, 3)))) == 6
    assert machine.apply(7, encoded(Register("x", A))) == 0


def test_a_lease_is_over_only_after_a_whole_one_of_silence_and_of_leading(machine, clock):
    machine.apply(5, encoded(Register("x", A)))
    machine.apply(6, encoded(Register("y", B)))
    clock.now += LEASE
    assert machine.upkeep(LEASE - 1) == []
    assert machine.read(encoded(Renew("b", 1))) == ["y"]
    [release] = machine.upkeep(LEASE)
    assert release == encoded(Release("a", 1))
    # What is about to be given away is not extended.
    assert machine.read(encoded(Renew("a", 1))) is None
    machine.apply(7, release)
    assert machine.read(encoded(ListNames())) == {"y": (B, 6)}
    assert machine.read(encoded(Renew("a", 1))) == []
    assert machine.upkeep(LEASE) == []


def test_a_release_leaves_a_later_creation_alone(machine):
    machine.apply(5, encoded(Register("x", Pid("a", 2, 3))))
    machine.apply(6, encoded(Release("a", 1)))
    assert machine.read(encoded(Renew("a", 2))) == ["x"]


def test_a_leader_whose_release_was_lost_with_its_term_renews_again(machine, clock):
    machine.apply(5, encoded(Register("x", A)))
    clock.now += LEASE
    assert machine.upkeep(LEASE)
    assert machine.read(encoded(Renew("a", 1))) is None
    assert machine.upkeep(0.0) == []
    assert machine.read(encoded(Renew("a", 1))) == ["x"]


def test_a_snapshot_has_all_holders(machine, clock):
    machine.apply(5, encoded(Register("x", A)))
    other = NamesMachine(clock)
    other.restore(machine.snapshot())
    assert other.read(encoded(ListNames())) == {"x": (A, 5)}
