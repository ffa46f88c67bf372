"""Large requests leave together where several are on their way, and alone where none is."""

from gossamer.raft.host.gathering import PATIENCE, Gathering


def test_one_that_comes_alone_leaves_at_once():
    gathering: Gathering[str] = Gathering()
    for now in (0.0, 0.01, 0.02):
        gathering.add("a")
        assert gathering.due(now) == ["a"]
        gathering.answered(now + 0.004)


def test_who_came_meanwhile_waits_for_who_was_answered_and_leaves_with_it():
    gathering: Gathering[str] = Gathering()
    gathering.add("a")
    assert gathering.due(0.0) == ["a"]
    gathering.add("b")
    assert gathering.due(0.002) == []
    assert gathering.waits(0.002) == 0.0
    gathering.answered(0.004)
    assert gathering.due(0.004) == []
    assert 0.0 < gathering.waits(0.004) <= 0.002
    gathering.add("a again")
    assert gathering.due(0.005) == ["b", "a again"]
    gathering.answered(0.01)
    assert gathering.due(0.01) == []
    gathering.answered(0.01)
    gathering.add("b again")
    assert gathering.due(0.011) == []


def test_who_does_not_come_again_is_waited_for_once_and_not_for_long():
    gathering: Gathering[str] = Gathering()
    gathering.add("a")
    gathering.add("b")
    assert gathering.due(0.0) == ["a", "b"]
    gathering.answered(1.0)
    gathering.answered(1.0)
    gathering.add("b again")
    assert gathering.due(1.0) == []
    assert gathering.due(1.0 + PATIENCE) == ["b again"]
    gathering.answered(1.1)
    gathering.add("b once more")
    assert gathering.due(1.1) == ["b once more"]


def test_what_has_not_left_when_it_is_given_up_is_returned_and_others_do_not_wait_for_it():
    gathering: Gathering[str] = Gathering()
    gathering.add("a")
    assert gathering.due(0.0) == ["a"]
    gathering.add("b")
    assert gathering.give_up() == ["b"]
    gathering.add("c")
    assert gathering.due(0.1) == ["c"]
