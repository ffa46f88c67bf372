"""A topic with most of the messages is shared by several tasks, and judged as if it were not."""

import re
from collections import Counter
from contextlib import contextmanager

import pytest

from gossamer.spark.analyses import Terms
from gossamer.spark.analyses.histories import of_sessions
from gossamer.spark.analyses.owed import SALTED_FROM, hot_topics, owed, published, salted
from gossamer.spark.source.source import load
from tests.spark.together import Lopsided

HOT = Lopsided.HOT
FEW = 10
"""Messages of a topic in a slot that are called too many here."""


@contextmanager
def adaptive(session, **settings):
    """Plans that follow what is found, as over anything large."""
    wanted = {"spark.sql.adaptive.enabled": "true", **settings}
    before = {key: session.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        session.conf.set(key, value)
    yield
    for key, value in before.items():
        session.conf.set(key, value)


def test_a_hot_topic_is_judged_the_same_and_every_fault_of_it_is_found(judged):
    world, found = judged.worlds["lopsided"], judged.rows("lopsided")
    assert Counter(row.verdict for row in found) == world.found
    assert Counter(row.hop for row in found if row.verdict == "lost") == world.lost_at
    spread = Counter(row.topic for row in found if row.verdict in ("lost", "doubled", "late"))
    assert spread[world.own(HOT)] > 20, "the faults are not where the salt is"


@pytest.mark.spark
def test_no_salt_has_more_than_a_task_may_do_and_every_message_has_one(spark):
    hot, cold = 1000, 9
    rows = [(HOT, 0, n) for n in range(hot)] + [("cold", 0, n) for n in range(cold)] + [(HOT, 1, 1)]
    messages = spark.table("topic STRING, slot BIGINT, message BIGINT", rows)
    busy = spark.view(f"SELECT topic, slot, count(*) AS n FROM {messages} GROUP BY topic, slot")
    spread = salted(messages, spark.view(hot_topics(busy, FEW)))
    counted = spark.rows(
        f"SELECT topic, slot, salt, count(*) AS n FROM ({spread}) GROUP BY topic, slot, salt"
    )
    assert sum(row["n"] for row in counted) == len(rows)
    assert {(row["topic"], row["slot"]) for row in counted if row["salt"]} == {(HOT, 0)}
    assert sorted(row["salt"] for row in counted if (row["topic"], row["slot"]) == (HOT, 0)) == list(
        range(100)
    )
    assert max(row["n"] for row in counted) == FEW


def plan_of(frame):
    """How it was carried out, by what was found on the way."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return plan.partition("== Initial Plan ==")[0].splitlines()


@pytest.mark.spark
def test_the_plan_has_the_salt_where_a_topic_is_hot_and_only_there(spark, tmp_path):
    """Messages meet their receivers by topic, slot and salt; with nothing hot, none is salted."""
    recording = load(spark, str(Lopsided(22, clients=4, faults=0).play(60).write(tmp_path)))
    few = of_sessions(recording, until=recording.end)

    def plan(salted_from):
        question = owed(published(recording), few, recording, Terms(), salted_from=salted_from)
        return plan_of(spark.session.sql(question))

    # As over a recording that is too large for one side to be known to every task.
    with adaptive(spark.session, **{"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        hot, cool = plan(FEW), plan(SALTED_FROM)
    for text in (hot, cool):
        assert any(re.search(r"SortMergeJoin \[topic#\d+, slot#\w+, salt#\w+\]", line) for line in text)
    # What salt each message is of, and under how many its receivers stand: by a join with the hot topics.
    asked = re.compile(r"Join \[topic#\d+, slot#\w+\], .*LeftOuter")
    assert sum(bool(asked.search(line)) for line in hot) == 2
    assert sum(bool(asked.search(line)) for line in cool) == 0
    spark.clear()
