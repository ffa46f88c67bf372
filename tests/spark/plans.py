"""How Spark carries out each job: the physical plans, as ``docs/design/audit-plans.md`` shows them.

``python -m tests.spark.plans DIR`` prints the page over the recording in DIR.

Names that differ from run to run (numbers of columns and plans, paths) are left out, and long lines cut, so
that two pages can be compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from gossamer.spark.analyses import Terms
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.engine.session import open_session
from gossamer.spark.jobs import JOBS
from gossamer.spark.source.source import Recording, load

FORBIDDEN = ("CartesianProduct", "BroadcastNestedLoopJoin", "Python", "Pandas")
"""What no plan may have: everything against everything, and rows that go through Python.

Parts of the names of Spark's steps, of which there are many for the latter (``BatchEvalPython``,
``ArrowEvalPython``, ``MapInPandas``, ``FlatMapGroupsInPandas``, …).
"""
_WIDTH = 110
_DEEPEST = 18
_REPEATED = 4
"""Lines from which on a part that comes again is not drawn again."""
_PASSING = (
    *("Project", "ColumnarToRow", "AQEShuffleRead", "ShuffleQueryStage", "BroadcastQueryStage"),
    *("ResultQueryStage", "TableCacheQueryStage", "AdaptiveSparkPlan", "== Final Plan"),
)
"""Steps that only hand on."""
_HEAD = """\
# Plans of the audit jobs

What Spark does for each table, from the leaves up, as `gossamer audit run` would on two cores over a million
events; printed by `python -m tests.spark.plans DIR`. What Spark learns while it runs (how large a
side is, which parts are skewed) may still change a join. Steps that only hand on are left out, and a
part that comes again is drawn once.

![The completeness job: what was owed meets what came](../pictures/plans.svg)"""


@dataclass(slots=True)
class _Node:
    text: str
    below: list[_Node] = field(default_factory=list)
    whole: str = ""
    """Names it and everything below it."""
    lines: int = 1

    def sum_up(self) -> None:
        for node in self.below:
            node.sum_up()
        self.lines = 1 + sum(node.lines for node in self.below)
        parts = (self.text, *(node.whole for node in self.below))
        self.whole = blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def plans(recording: Recording, terms: Terms = Terms()) -> Iterator[tuple[str, str, str]]:  # noqa: B008
    """(job, table, plan) of every table of every job, where Spark is the engine."""
    engine = recording.engine
    assert isinstance(engine, SparkEngine)
    made: dict[str, str] = {}
    for name, job in JOBS.items():
        for table, question in job.make(recording, terms, made).items():
            made[f"{name}/{table}"] = engine.view(question)
            frame: Any = engine.session.sql(question)
            yield name, table, frame._jdf.queryExecution().executedPlan().toString()


def page_of_plans(recording: Recording) -> str:
    """Markdown."""
    parts = [_HEAD]
    job, seen = "", set[str]()
    for name, table, plan in plans(recording):
        if name != job:
            job = name
            parts += ["", f"## {name}", "", JOBS[name].question]
        parts += ["", f"### {name}/{table}", "", "```", _legible(plan, seen), "```"]
    return "\n".join(parts) + "\n"


def _legible(plan: str, seen: set[str]) -> str:
    """The tree without what says nothing to a reader, and each large part of it once."""
    plan = re.sub(r"#\d+L?", "", plan)
    plan = re.sub(r",? ?\[plan_id=\d+\]", "", plan)
    left_out = "Location|PushedFilters|DataFilters|ReadSchema|PartitionFilters"
    plan = re.sub(rf",? ?({left_out}): ?(\S*\[.*?\]|\S+)", "", plan)
    return "\n".join(_drawn(_tree(plan), 0, seen))


def _tree(plan: str) -> list[_Node]:
    """What Spark draws with branches, by how far each line stands to the right."""
    roots: list[_Node] = []
    path: list[tuple[int, _Node]] = []
    for line in plan.splitlines():
        text = line.lstrip(" :+-")
        if not text:
            continue
        node, depth = _Node(re.sub(r"^\*\(\d+\) ", "", text).rstrip()), len(line) - len(text)
        while path and path[-1][0] >= depth:
            path.pop()
        (path[-1][1].below if path else roots).append(node)
        path.append((depth, node))
    for root in roots:
        root.sum_up()
    return roots


def _drawn(nodes: list[_Node], depth: int, seen: set[str]) -> Iterator[str]:
    if depth > _DEEPEST:
        yield "  " * depth + "…"
        return
    for node in nodes:
        if node.text.startswith("== Initial Plan"):
            continue
        if node.text.startswith(_PASSING):
            yield from _drawn(node.below, depth, seen)
            continue
        line = "  " * depth + node.text
        line = line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
        if node.lines > _REPEATED and node.whole in seen:
            yield line
            yield "  " * (depth + 1) + "… as above"
            continue
        seen.add(node.whole)
        yield line
        yield from _drawn(node.below, depth + 1, seen)


if __name__ == "__main__":
    spark = SparkEngine(open_session())
    found = load(spark, sys.argv[1])
    spark.fit(found.size)
    sys.stdout.write(page_of_plans(found))
    spark.close()
