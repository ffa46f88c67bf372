"""The times of a drill, read off its marks."""

from gossamer.drill.record import DrillRecord, Mark, MarkKind, Plan, Side
from gossamer.drill.report.promises import DETECTED, HEALED, KNOWN, ROUTES, measure
from gossamer.faults import DrillKind

NODES = ("a", "b", "c")
SIDES = (Side("1,2", ("a", "b")), Side("3", ("c",)))


def times(marks: list[Mark], kind: DrillKind = "partition") -> dict[str, tuple[float | None, float | None]]:
    plan = Plan(kind=kind, shape="3" if kind == "kill" else "2/1", nodes=NODES)
    ordered = tuple(sorted(marks, key=lambda mark: mark.at))
    record = DrillRecord(plan=plan, began_at=0.0, sides=SIDES, marks=ordered)
    return {speed.name: (speed.seconds, speed.bar) for speed in measure(record)}


def mark(at: float, kind: MarkKind, node: str = "", peer: str = "") -> Mark:
    return Mark(at, node, kind, peer)


CUT = [
    mark(5.0, "fault applied"),
    mark(7.0, "declared down", "a", "c"),
    mark(8.5, "declared down", "b", "c"),
    mark(7.5, "declared down", "c", "a"),
    mark(9.0, "declared down", "c", "b"),
]
HEAL = [
    mark(25.0, "fault lifted"),
    mark(25.4, "routes equal", "a"),
    mark(26.5, "routes equal"),
    mark(26.0, "partition raised", "a", "c"),
    mark(26.0, "partition raised", "c", "a"),
    mark(44.0, "healed", "a"),
    mark(44.5, "healed", "b"),
    mark(45.0, "healed", "c"),
]


def test_a_plain_split_has_all_times_and_their_bars() -> None:
    assert times([*CUT, *HEAL]) == {
        # One word at each side: c's about a at 7.5.
        DETECTED: (2.5, None),
        # One word of each node: b's at 8.5.
        KNOWN: (3.5, 5.0),
        ROUTES: (1.5, 6.0),
        HEALED: (20.0, None),
    }


def test_what_never_happened_has_no_time() -> None:
    found = times([one for one in [*CUT, *HEAL] if not (one.node == "c" and one.kind != "partition raised")])
    assert found[KNOWN] == (None, 5.0)
    assert found[DETECTED] == (None, None)
    assert found[HEALED] == (None, None)


def test_what_was_declared_before_the_fault_says_nothing() -> None:
    assert times([mark(1.0, "declared down", "a", "c"), mark(5.0, "fault applied")])[KNOWN] == (None, 5.0)


def test_drills_that_promise_no_time_have_no_bar() -> None:
    found = times([*CUT, *HEAL], "coordinator")
    assert found[KNOWN] == (3.5, None)
    assert found[ROUTES] == (1.5, None)


def test_the_dead_need_not_know() -> None:
    killed = [mark(5.0, "process killed", "c"), mark(6.0, "declared down", "a", "c")]
    assert times([*killed, mark(8.0, "declared down", "b", "c")], "kill")[KNOWN] == (3.0, None)
