"""What each kind of drill does, as a list of steps."""

import pytest

from gossamer.drill.record import Plan
from gossamer.drill.run.script import LIFT, WHOLE, Step, script_of, wait
from gossamer.drill.stage.backend import LinkFault
from gossamer.errors import WrongValueError
from gossamer.faults import DrillKind, ShapeError

NODES = ("a", "b", "c")


def plan(kind: DrillKind, shape: str, **settings: float) -> Plan:
    return Plan(kind=kind, shape=shape, nodes=NODES, seconds=10.0, settings=dict(settings))


def test_a_partition_is_cut_held_and_lifted() -> None:
    steps = script_of(plan("partition", "1/2"))
    (cut, first, conflict, rest) = steps.split
    assert set(cut.faults) == {
        LinkFault(*pair, cut=True) for pair in (("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"))
    }
    assert (first, rest) == (wait(6.0), wait(4.0))
    # One node of each side, in the middle of the split.
    assert conflict == Step("write conflict", ("a", "b"))
    assert cut.seconds > 10.0, "the net below is for drills that died, not for those that are late"
    assert steps.heal == (LIFT,)
    assert [side.nodes for side in steps.sides] == [("a",), ("b", "c")]
    assert steps.parted == {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}


def test_messages_across_a_one_way_cut_are_parted_both_ways() -> None:
    """An acknowledgement that cannot come back is as good as none."""
    steps = script_of(plan("partition", "1>2"))
    assert steps.split[0].faults == (LinkFault("a", "b", cut=True),)
    assert steps.parted == {("a", "b"), ("b", "a")}


def test_flapping_cuts_and_lifts_for_as_long_as_it_lasts() -> None:
    steps = script_of(plan("flapping", "1/2", period=4.0))
    cut = steps.split[0]
    assert cut.faults
    assert steps.split == (cut, wait(4.0), LIFT, wait(4.0), cut, wait(2.0))
    assert steps.heal == (LIFT,)


def test_a_slow_network_parts_nobody() -> None:
    steps = script_of(plan("slow", "1/2", delay=0.2, loss=0.1))
    assert LinkFault("a", "b", delay=0.2, loss=0.1) in steps.split[0].faults
    assert not steps.parted


def test_a_rolling_restart_waits_for_the_cluster_after_each_node() -> None:
    steps = script_of(plan("rolling", ""))
    assert [step.action for step in steps.split] == ["stop", "wait", "start", "await cluster"] * 3
    assert [step.nodes for step in steps.split if step.action == "start"] == [("a",), ("b",), ("c",)]


def test_drills_of_one_node_begin_and_end_with_it() -> None:
    kill = script_of(plan("kill", "2"))
    assert kill.split == (Step("kill", ("b",)), wait(10.0))
    assert kill.heal == (Step("start", ("b",)), WHOLE)
    assert script_of(plan("pause", "3")).split[0] == Step("pause", ("c",))
    assert script_of(plan("pause", "3")).heal == (Step("resume", ("c",)),)
    assert script_of(plan("clock", "1", jump=-60.0)).split[0] == Step("set clock", ("a",), -60.0)
    assert script_of(plan("clock", "1")).heal == (Step("set clock", ("a",), 0.0),)
    assert script_of(plan("disk", "1")).split[0] == Step("fill disk", ("a",))
    assert script_of(plan("disk", "1")).heal == (Step("free disk", ("a",)),)


def test_only_who_is_down_is_parted() -> None:
    assert ("b", "b") in script_of(plan("kill", "2")).parted
    assert ("b", "a") in script_of(plan("pause", "2")).parted
    assert ("a", "c") not in script_of(plan("kill", "2")).parted
    assert not script_of(plan("clock", "2")).parted
    assert not script_of(plan("disk", "2")).parted


def test_the_coordinator_is_killed_once_a_heal_has_begun() -> None:
    steps = script_of(plan("coordinator", "2/1"))
    assert steps.heal == (LIFT, Step("kill coordinator"), wait(3.0), Step("start"), WHOLE)


def test_what_does_not_fit_is_refused_before_anything_starts() -> None:
    with pytest.raises(ShapeError):
        script_of(plan("partition", "3/2"))
    with pytest.raises(WrongValueError, match="1 to 3"):
        script_of(plan("kill", "4"))
    with pytest.raises(WrongValueError):
        script_of(plan("pause", "x"))
