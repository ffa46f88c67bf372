"""A run is a line, many lines are a table, and a run without a verdict stops no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from real.history import matrix as matrices
from real.history.matrix import Manner, matrix
from real.history.report import broken, in_words, line_of, read_lines, table
from real.history.run import MAY_COME, Outcome, Plan, judged

from history.telling import Tale


def _line(fault: str, seed: int, **workloads: dict[str, int]) -> dict[str, object]:
    return {"fault": fault, "seed": seed, "workloads": workloads}


def test_a_table_counts_runs_and_those_that_broke_a_promise() -> None:
    lines = [
        _line("cut", 1, home={}, roam={"lost": 3}),
        _line("cut", 2, home={}, roam={}),
        _line("kill", 1, home={}),
        {"fault": "kill", "seed": 2, "workloads": {}, "error": "no cluster"},
    ]
    assert table(lines).splitlines() == [
        "| fault | `home` | `roam` |",
        "|---|---|---|",
        "| `cut` | 0/2 | **1**/2 |",
        "| `kill` | 0/1 | – |",
    ]


def test_lines_are_read_from_between_what_else_was_printed(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('left out: cut\n{"fault": "kill", "seed": 1, "workloads": {}}\n')
    assert [line["fault"] for line in read_lines([file, file])] == ["kill", "kill"]


def test_a_line_says_what_broke_how_often_and_how_to_run_it_again() -> None:
    tale = Tale()
    subscriber, publisher = tale.client("home-1/sub"), tale.client("home-1/pub")
    plan = Plan(("home-1", "home-2"), "kill-third", 7, pace=0.3, warm=True)
    subscriber.enters(2)
    subscriber.subscribes("t")
    publisher.enters(1)
    publisher.publishes(1)
    publisher.publishes(2)
    line = line_of(Outcome(plan, tale.events, judged(plan, tale.events), 12.3))
    assert line["workloads"] == {"home-1": {"lost": 2}, "home-2": {}}
    assert broken(line)
    assert "lost" in MAY_COME
    said = in_words(line, 1)
    assert said.count("home-1  lost:") == 1
    assert "--workload home-1,home-2 --fault kill-third --seed 7 --pace 0.3 --warm" in said


def test_what_happens_to_other_workloads_is_not_held_against_one() -> None:
    tale = Tale()
    tale.pair()[1].publishes(1)
    plan = Plan(("home-1",), "none", 1)
    assert judged(plan, tale.events) == {"home-1": []}


def test_a_run_without_a_verdict_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(plan: Plan, directory: Path) -> Outcome:
        directory.mkdir()  # noqa: ASYNC240
        if plan.seed == 1:
            raise ExceptionGroup("tasks", [RuntimeError("no cluster")])
        return Outcome(plan, [], {"home-1": []}, directory=directory)

    monkeypatch.setattr(matrices, "run", run)
    plans = [Plan(("home-1",), "none", seed) for seed in (1, 2, 2)]
    lines = list(matrix(plans, Manner(tmp_path, keep_all=True)))
    assert [broken(line) for line in lines] == [True, False, False]
    assert "no cluster" in lines[0]["error"]
    # The same plan twice, and two histories.
    assert [Path(line["history"]).parent.name for line in lines[1:]] == ["none-2", "none-2-3"]


def test_no_run_is_begun_when_there_is_no_time_left_for_it(tmp_path: Path) -> None:
    plans = [Plan(("home-1",), "none", 1)]
    assert list(matrix(plans, Manner(tmp_path, minutes=0.5))) == []
