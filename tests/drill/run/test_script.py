"""What each kind of drill does, as a list of steps."""

import pytest

from gossamer.drill.record import DrillKind, Plan
from gossamer.drill.run import script
from gossamer.drill.run.script import NodeError, script_of
from gossamer.drill.stage.backend import LinkFault
from gossamer.faults import ShapeError

NODES = ("a", "b", "c")


def plan(kind: DrillKind, shape: str, **settings: float) -> Plan:
    return Plan(kind=kind, shape=shape, nodes=NODES, seconds=10.0, settings=dict(settings))


def test_a_partition_is_cut_held_and_lifted() -> None:
    steps = script_of(plan("partition", "1/2"))
    (cut, wait, conflict, rest) = steps.split
    assert isinstance(cut, script.Apply)
    assert set(cut.faults) == {
        LinkFault(*pair, cut=True) for pair in (("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"))
    }
    assert (wait, rest) == (script.Wait(6.0), script.Wait(4.0))
    # One node of each side, in the middle of the split.
    assert conflict == script.Conflict(("a", "b"))
    assert cut.seconds > 10.0, "the net below is for drills that died, not for those that are late"
    assert steps.heal == (script.Lift(),)
    assert [side.nodes for side in steps.sides] == [("a",), ("b", "c")]
    assert steps.parted == {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}


def test_messages_across_a_one_way_cut_are_parted_both_ways() -> None:
    """An acknowledgement that cannot come back is as good as none."""
    steps = script_of(plan("partition", "1>2"))
    assert isinstance(steps.split[0], script.Apply)
    assert steps.split[0].faults == (LinkFault("a", "b", cut=True),)
    assert steps.parted == {("a", "b"), ("b", "a")}


def test_flapping_cuts_and_lifts_for_as_long_as_it_lasts() -> None:
    steps = script_of(plan("flapping", "1/2", period=4.0))
    shown = [step.seconds if isinstance(step, script.Wait) else type(step).__name__ for step in steps.split]
    assert shown == ["Apply", 4.0, "Lift", 4.0, "Apply", 2.0]
    assert steps.heal == (script.Lift(),)


def test_a_slow_network_parts_nobody() -> None:
    steps = script_of(plan("slow", "1/2", delay=0.2, loss=0.1))
    assert isinstance(steps.split[0], script.Apply)
    assert LinkFault("a", "b", delay=0.2, loss=0.1) in steps.split[0].faults
    assert not steps.parted


def test_a_rolling_restart_waits_for_the_cluster_after_each_node() -> None:
    steps = script_of(plan("rolling", ""))
    assert [type(step).__name__ for step in steps.split] == ["End", "Wait", "Start", "Await"] * 3
    assert [step.node for step in steps.split if isinstance(step, script.Start)] == ["a", "b", "c"]
    assert not any(step.kill for step in steps.split if isinstance(step, script.End))


def test_drills_of_one_node_begin_and_end_with_it() -> None:
    assert script_of(plan("kill", "2")).split == (script.End("b", kill=True), script.Wait(10.0))
    assert script_of(plan("kill", "2")).heal == (script.Start("b"), script.Await())
    assert script_of(plan("pause", "3")).split[0] == script.Pause("c")
    assert script_of(plan("pause", "3")).heal == (script.Resume("c"),)
    assert script_of(plan("clock", "1", jump=-60.0)).split[0] == script.Clock("a", -60.0)
    assert script_of(plan("clock", "1")).heal == (script.Clock("a", 0.0),)
    assert script_of(plan("disk", "1")).split[0] == script.Disk("a", full=True)
    assert script_of(plan("disk", "1")).heal == (script.Disk("a", full=False),)


def test_only_who_is_down_is_parted() -> None:
    assert ("b", "b") in script_of(plan("kill", "2")).parted
    assert ("b", "a") in script_of(plan("pause", "2")).parted
    assert ("a", "c") not in script_of(plan("kill", "2")).parted
    assert not script_of(plan("clock", "2")).parted
    assert not script_of(plan("disk", "2")).parted


def test_the_coordinator_is_killed_once_a_heal_has_begun() -> None:
    steps = script_of(plan("coordinator", "2/1"))
    assert [type(step).__name__ for step in steps.heal] == [
        "Lift",
        "KillCoordinator",
        "Wait",
        "Start",
        "Await",
    ]


def test_what_does_not_fit_is_refused_before_anything_starts() -> None:
    with pytest.raises(ShapeError):
        script_of(plan("partition", "3/2"))
    with pytest.raises(NodeError, match="1 to 3"):
        script_of(plan("kill", "4"))
    with pytest.raises(NodeError):
        script_of(plan("pause", "x"))
