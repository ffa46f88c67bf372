"""Every promise is kept by a drill that went well, and broken by what breaks it, and by nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from drill.made import (
    CUT,
    FIFTH,
    FOUR,
    LEFT,
    LIFTED,
    MOVED,
    NODES,
    RIGHT,
    SAID,
    marks,
    of_fifth,
    record,
    traffic,
)
from gossamer.drill.record import (
    ClientDrop,
    Clients,
    DrillRecord,
    Heal,
    Mark,
    NodeEnd,
    Plan,
    Quarantined,
    Side,
    Tally,
    Verdict,
)
from gossamer.drill.report.copies import PRESENT
from gossamer.drill.report.promises import PROMISES, judge
from gossamer.faults import DrillKind

KNOW, ROUTES, CLIENTS, TOGETHER, BETWEEN, TWICE, *REST = PROMISES
ORDER, ELSEWHERE, ALONE, SLOWED, SAYS, REPLACED, MINORITY, QUARANTINE, WHOLE = REST
OF_COPIES: tuple[DrillKind, ...] = ("kill-owner", "kill-quorum", "slow-disc", "disc-fault")


def verdicts(made: DrillRecord) -> dict[str, Verdict]:
    return {verdict.promise: verdict for verdict in judge(made)}


COUNTS = ("lost", "doubled", "disordered", "waited", "acknowledged")


def changed(sides: Any = (LEFT, RIGHT), **wanted: Any) -> Any:
    """Rows of traffic, where those that are as ``wanted`` says have another count."""
    count = {name: wanted.pop(name) for name in COUNTS if name in wanted}
    return tuple(
        replace(row, **count) if all(getattr(row, key) == value for key, value in wanted.items()) else row
        for row in traffic(sides)
    )


def without(kind: str, node: str) -> tuple[Mark, ...]:
    return tuple(mark for mark in marks() if not (mark.kind == kind and mark.node == node))


def delayed(kind: str, node: str, seconds: float) -> tuple[Mark, ...]:
    return tuple(
        replace(mark, at=mark.at + seconds) if mark.kind == kind and mark.node == node else mark
        for mark in marks()
    )


def heal(**changes: Any) -> tuple[Heal, ...]:
    return (replace(record().heals[0], **changes),)


def ends(**changes: Any) -> tuple[NodeEnd, ...]:
    *others, last = record().ends
    return (*others, replace(last, **changes))


def test_drills_that_went_well_keep_them_all():
    kept: set[str] = set()
    for made in (record(), *map(of_fifth, OF_COPIES)):
        found = judge(made)
        assert [verdict.promise for verdict in found] == list(PROMISES)
        assert all(verdict.got for verdict in found)
        judged = [verdict for verdict in found if verdict.kept is not None]
        assert {verdict.kept for verdict in judged} == {True}, made.plan.kind
        assert all(verdict.expected for verdict in judged)
        kept |= {verdict.promise for verdict in judged}
    assert kept == set(PROMISES)


BROKEN = [
    (KNOW, {"marks": delayed("declared down", NODES[3], 3.0)}, r"\d\.\d s, the last node4 of side 1,2,3"),
    (KNOW, {"marks": without("declared down", NODES[1])}, "node2 never declared anybody of side 4,5 down"),
    (ROUTES, {"marks": delayed("routes equal", NODES[2], 3.0)}, r"\d\.\d s, the last node3"),
    (ROUTES, {"marks": tuple(m for m in marks() if m.kind != "routes equal")}, "never"),
    (
        CLIENTS,
        {"clients": Clients(5, 30, (ClientDrop(7.0, "s-1", NODES[0], "keep-alive"),))},
        "1 of 35; first s-1 at 7.0 s: keep-alive",
    ),
    (
        TOGETHER,
        {"traffic": changed(source="4,5", target="4,5", phase="split", qos=1, persistent=False, lost=3)},
        "3 lost of .*; 3 from 4,5 to 4,5 in split, QoS 1",
    ),
    (TOGETHER, {"traffic": changed(target="4,5", phase="after", qos=2, persistent=True, lost=1)}, "2 lost"),
    (
        BETWEEN,
        {"traffic": changed(source="1,2,3", target="4,5", phase="split", qos=2, persistent=True, lost=4)},
        "4 lost of .*; 4 from 1,2,3 to 4,5 in split, QoS 2",
    ),
    (
        BETWEEN,
        {"traffic": changed(source="4,5", target="1,2,3", phase="heal", qos=1, persistent=True, lost=2)},
        "2 lost",
    ),
    (
        TWICE,
        {"traffic": changed(source="4,5", target="4,5", phase="heal", qos=2, persistent=True, doubled=2)},
        "2 of ",
    ),
    (
        ORDER,
        {"traffic": changed(source="4,5", target="4,5", phase="heal", qos=1, persistent=True, disordered=2)},
        "2 of .* behind a later one; 2 from 4,5 to 4,5 in heal, QoS 1",
    ),
    (MINORITY, {"heals": heal(reloaded=LEFT.nodes, survivors=RIGHT.nodes)}, "side 1,2,3, though only node4"),
    (MINORITY, {"heals": heal(survivors=NODES)}, "node4, node5 survived and restarted"),
    (
        MINORITY,
        {"marks": (*marks(), Mark(30.0, NODES[0], "restarted store"))},
        "node1, which no heal named",
    ),
    (QUARANTINE, {"heals": heal(quarantined=9)}, "9 in quarantine"),
    (QUARANTINE, {"heals": heal(restored=11)}, "10 in quarantine"),
    (QUARANTINE, {"heals": heal(left=1)}, "10 in quarantine, 1 left undecided"),
    (WHOLE, {"ends": ends(members=())}, "node5 did not answer"),
    (WHOLE, {"ends": ends(members=NODES[1:])}, "node5 was without node1"),
    (WHOLE, {"ends": ends(tables={})}, "retained of node1: node1 4 rows 77, node5 no rows"),
]


@pytest.mark.parametrize(("promise", "changes", "words"), BROKEN, ids=range(len(BROKEN)))
def test_each_is_broken_by_what_breaks_it_and_no_other(promise: str, changes: dict[str, Any], words: str):

    found = verdicts(record(**changes))
    assert [name for name, verdict in found.items() if verdict.kept is False] == [promise]
    assert re.match(words, found[promise].got), found[promise].got


def back(at: float, detail: str = PRESENT) -> tuple[Mark, ...]:
    """Marks of a killed owner; one of its clients is back at that time, the other sooner."""
    one = MOVED[0]
    others = (mark for mark in of_fifth("kill-owner").marks if mark.peer != one)
    return tuple(sorted((*others, Mark(at, NODES[0], "client back", one, detail)), key=lambda mark: mark.at))


ALONE_ROWS = {"sides": (FOUR, FIFTH), "source": "5", "target": "5", "phase": "split", "qos": 1}
BROKEN_BY_ONE: list[tuple[str, DrillKind, dict[str, Any], str]] = [
    (ELSEWHERE, "kill-owner", {"marks": back(CUT + 5.1)}, "2 of 2, the last after 5.1 s"),
    (ELSEWHERE, "kill-owner", {"marks": back(CUT + 1, "")}, f"1 of 2 began anew, first {MOVED[0]}"),
    (ELSEWHERE, "kill-owner", {"marks": back(CUT - 1)}, f"{MOVED[0]} never came to another node"),
    (ALONE, "kill-quorum", {"traffic": changed(**ALONE_ROWS, waited=6.0)}, "40[24] of 40[24], .* 6.0 s"),
    (ALONE, "kill-quorum", {"traffic": changed(**ALONE_ROWS, acknowledged=7)}, "14 of 402"),
    (SLOWED, "slow-disc", {"traffic": changed(**ALONE_ROWS, acknowledged=200)}, r"\d,\d+ of \d,\d+, the"),
    (SAYS, "kill-quorum", {"said": SAID["kill-quorum"][1:]}, "nothing of no_quorum"),
    (SAYS, "slow-disc", {"said": (replace(SAID["slow-disc"][0], value=0.02),)}, "30 commits took"),
    (SAYS, "disc-fault", {"said": (replace(SAID["disc-fault"][0], text="something is wrong"),)}, "something"),
    (SAYS, "disc-fault", {"said": ()}, "nothing of raft_log_damaged"),
    (
        REPLACED,
        "disc-fault",
        {"marks": tuple(mark for mark in of_fifth("disc-fault").marks if mark.kind != "copies whole")},
        "never",
    ),
]


@pytest.mark.parametrize(
    ("promise", "kind", "changes", "words"), BROKEN_BY_ONE, ids=range(len(BROKEN_BY_ONE))
)
def test_of_copies_and_discs_too(promise: str, kind: DrillKind, changes: dict[str, Any], words: str):
    found = verdicts(of_fifth(kind, **changes))
    assert [name for name, verdict in found.items() if verdict.kept is False] == [promise]
    assert re.match(words, found[promise].got), found[promise].got


def test_alarms_that_had_no_time_to_come_are_not_judged():
    plan = Plan(kind="kill-quorum", shape="5", nodes=NODES, seconds=10.0)
    found = verdicts(of_fifth("kill-quorum", plan=plan, said=()))[SAYS]
    assert (found.kept, found.got) == (None, "it lasted 10 s only; alarms come after 10 s")


def test_every_promise_is_broken_by_some_test():
    broken = {promise for promise, *_ in (*BROKEN, *BROKEN_BY_ONE)}
    assert broken == set(PROMISES)


def test_what_a_drill_could_not_break_is_not_judged():
    empty = DrillRecord(plan=Plan(kind="disk", shape="1", nodes=NODES), began_at=0.0)
    assert {verdict.kept for verdict in judge(empty)} == {None}
    assert all(verdict.got for verdict in judge(empty))


def test_clients_of_a_node_that_the_drill_killed_are_excused():
    drops = (ClientDrop(7.0, "s-1", NODES[0], "reset", excused=True),)
    found = verdicts(record(clients=Clients(5, 30, drops)))[CLIENTS]
    assert (found.kept, found.got) == (True, "0 of 35; 1 more of nodes that the drill ended")


@pytest.mark.parametrize("shape", ["1>2", "1-2"])
def test_nodes_that_reach_each_other_through_others_need_not_declare_anybody(shape: str):
    plan = Plan(kind="partition", shape=shape, nodes=NODES)
    found = verdicts(record(plan=plan, marks=(Mark(CUT, "", "fault applied"),)))
    assert found[KNOW].kept is None


def test_one_way_between_two_nodes_has_to_be_seen_by_both():
    nodes, sides = NODES[:2], (Side("1", NODES[:1]), Side("2", NODES[1:2]))
    plan = Plan(kind="partition", shape="1>2", nodes=nodes)
    begun = Mark(CUT, "", "fault applied")
    one = Mark(CUT + 3, nodes[0], "declared down", nodes[1])
    other = Mark(CUT + 4, nodes[1], "declared down", nodes[0])
    assert verdicts(record(plan=plan, sides=sides, marks=(begun, one)))[KNOW].kept is False
    assert verdicts(record(plan=plan, sides=sides, marks=(begun, one, other)))[KNOW].kept is True


def test_a_fault_that_is_over_at_once_need_not_be_seen():
    short = (Mark(CUT, "", "fault applied"), Mark(CUT + 2, "", "fault lifted"))
    assert verdicts(record(marks=short))[KNOW].got == "it lasted 2.0 s only"


def test_of_a_node_that_stood_still_only_the_others_have_to_know():
    plan = Plan(kind="pause", shape="5", nodes=NODES)
    sides = (Side("1,2,3,4", NODES[:4]), Side("5", NODES[4:]))
    seen = [Mark(CUT + number, name, "declared down", NODES[4]) for number, name in enumerate(NODES[:4], 1)]
    begun = Mark(CUT, NODES[4], "process paused")
    over = [Mark(LIFTED, NODES[4], "process resumed"), Mark(LIFTED + 2, NODES[4], "routes equal")]
    found = verdicts(record(plan=plan, sides=sides, marks=(begun, *seen, *over)))
    assert (found[KNOW].kept, found[KNOW].got) == (True, "4.0 s, the last node4 of side 5")
    assert (found[ROUTES].kept, found[ROUTES].got) == (True, "2.0 s, the last node5")


def test_a_rolling_restart_parts_no_sides_and_keeps_what_is_for_persistent_sessions():
    plan = Plan(kind="rolling", shape="", nodes=NODES)
    lost = changed(source="4,5", target="1,2,3", phase="split", qos=1, persistent=True, lost=2)
    found = verdicts(record(plan=plan, traffic=lost))
    assert [found[name].kept for name in (KNOW, ROUTES, BETWEEN)] == [None, None, False]


def test_what_a_coordinator_had_when_it_was_killed_is_no_loss_of_its_side():
    """All others of its side are still owed everything."""
    row = Tally(
        source="1,2,3", target="1,2,3", phase="heal", qos=1, persistent=False, parted=True,
        sent=9, acknowledged=9, lost=9,
    )  # fmt: skip
    plan = Plan(kind="coordinator", shape="3/2", nodes=NODES)
    found = verdicts(record(plan=plan, traffic=(*traffic(), row)))
    assert (found[TOGETHER].kept, found[ROUTES].kept) == (True, None)
    found = verdicts(record(plan=plan, traffic=(*traffic(), row, replace(row, parted=False))))
    assert found[TOGETHER].kept is False


def test_what_was_on_its_way_to_a_killed_node_is_not_lost_on_one_side():
    """Of messages to the side that is no more, those for sessions that last are owed, no others."""
    row = Tally(
        source="5", target="5", phase="split", qos=1, persistent=False, parted=True,
        sent=9, acknowledged=9, lost=9,
    )  # fmt: skip
    after = replace(row, phase="heal", parted=False)
    found = verdicts(record(traffic=(row, after)))
    assert found[TOGETHER].kept is None
    found = verdicts(record(traffic=(replace(row, persistent=True), after)))
    assert (found[TOGETHER].kept, found[BETWEEN].kept) == (None, False)


def test_a_row_may_be_in_the_quarantine_of_another_node_than_the_coordinator():
    found = verdicts(record(heals=heal(quarantined=0), quarantined=(Quarantined(NODES[4], "q.bin", 10),)))
    assert (found[QUARANTINE].kept, found[QUARANTINE].got) == (True, "10 in quarantine")
