"""Jobs of queues: none is called lost or done twice that was not, and each that was is found."""

import os
import random
from collections import Counter

import pytest

from gossamer.queues import Outcome
from gossamer.queues.values import Replay
from gossamer.spark.analyses import Terms
from gossamer.spark.analyses.queues import jobs
from gossamer.spark.report.report import render, verdict_in_words
from gossamer.spark.run import broken_promises, run_jobs
from gossamer.spark.source.source import load
from tests.spark.queued import Queued
from tests.spark.world import World

SEED = int(os.environ.get("GOSSAMER_SEED", "4711"))
KINDS = (
    {},
    {"ordering": "key"},
    {"type": "stream", "visibility_timeout": 2},
    {"limits": {"max_depth": 8, "overflow": "drop_oldest"}, "retry": {"max_deliveries": 2}},
    {"type": "last_value", "dlq": {"enabled": False}},
    {"limits": {"message_ttl": 3}, "visibility_timeout": 1},
)


def judge(engine, root):
    recording = load(engine, str(root))
    return engine.rows(f"SELECT * FROM ({jobs(recording, Terms())})")


def test_whatever_a_sound_queue_does_nothing_is_lost_or_done_twice(engine, tmp_path):
    pick = random.Random(SEED)
    worlds = [
        Queued(pick.randrange(10**6), name=f"q{number}", **settings).play(250)
        for number, settings in enumerate(KINDS)
    ]
    for world in worlds:
        world.close().write(tmp_path)
    rows = judge(engine, tmp_path)
    for world in worlds:
        found = Counter(row["verdict"] for row in rows if row["queue"].startswith(world.queue))
        assert not found["lost"] + found["doubled"] + found["undecidable"], f"seed {SEED}: {world.queue}"
        assert found["done"] == world.done, f"seed {SEED}: {world.queue}"
        assert len(found) >= 3, world.queue
    assert {"dead", "discarded", "unsettled", "done"} <= {row["verdict"] for row in rows}


@pytest.fixture
def sound():
    """Ten jobs, done in order by one of two consumers."""
    world = Queued(1, name="jobs")
    world.join("a")
    world.join("b")
    for _ in range(10):
        world.append()
        world.settle(next(iter(world.held)))
    return world


def test_a_job_that_was_passed_over_is_lost(engine, tmp_path, sound):
    sound.close().without(lambda row: row["event"] in ("given", "settled") and row["queue_offset"] == 4)
    found = judge(engine, sound.write(tmp_path))
    assert {row["queue_offset"]: row["verdict"] for row in found} == {
        number: "lost" if number == 4 else "done" for number in range(10)
    }


def test_where_a_node_was_not_looking_it_may_have_been_given(engine, tmp_path, sound):
    sound.close().without(lambda row: row["event"] in ("given", "settled") and row["queue_offset"] == 4)
    found = judge(engine, sound.write(tmp_path, drop={(sound.node(3), 1)}))
    assert {row["verdict"] for row in found if row["queue_offset"] == 4} == {"undecidable"}
    assert not {row["verdict"] for row in found} & {"lost", "doubled"}


@pytest.mark.parametrize(
    ("event", "attempt"),
    [("settled", 1), ("given", 1), ("given", 2)],
    ids=["two accepted", "one attempt for two", "given again when it was done"],
)
def test_a_job_that_is_done_is_not_given_or_accepted_again(engine, tmp_path, sound, event, attempt):
    job = {"queue": "jobs", "consumer_group": "workers", "queue_offset": 4, "client": "client-b"}
    sound.emit(
        sound.node(2), event, attempt=attempt, **job, **({"reason": "ack"} if event == "settled" else {})
    )
    found = judge(engine, sound.close().write(tmp_path))
    assert Counter(row["verdict"] for row in found) == {"done": 9, "doubled": 1}


def test_what_was_given_again_and_done_by_the_second_was_done_once(engine, tmp_path):
    world = Queued(1, name="jobs", visibility_timeout=2)
    world.join("a", limit=1)
    world.append()
    late = dict(world.held)
    world.join("b", limit=1)
    world.tick(3)
    now = dict(world.held)
    world.held = late
    world.settle(("jobs", "workers", 0))
    world.held = now
    world.settle(("jobs", "workers", 0))
    (row,) = judge(engine, world.close().write(tmp_path))
    assert (row["verdict"], row["given"], row["attempts"], row["too_late"]) == ("done", 2, 2, 1)
    assert (row["client"], row["publisher"]) == ("client-b", "speaker")


@pytest.mark.parametrize("end", ["drop_group", "delete"])
def test_offsets_that_come_again_are_other_jobs(engine, tmp_path, sound, end):
    """A group that begins anew, or a queue of the same name, does all again; nothing of it is done twice."""
    if end == "delete":
        sound.delete()
        sound.pass_time(1)
        sound.group.define("jobs")
        sound.join("a")
        for _ in range(15):
            sound.append()
            sound.settle(next(iter(sound.held)))
    else:
        sound.group.define("jobs", type="stream")
        sound.drop_group()
        for _ in range(5):
            sound.append()
        sound.pass_time(1)
        sound.join("a", limit=100)
        for key in sorted(sound.held):
            sound.settle(key)
    found = judge(engine, sound.close().write(tmp_path))
    assert Counter(row["verdict"] for row in found) == {"done": 25 if end == "delete" else 15}


def test_what_a_leader_tells_again_when_it_applies_an_entry_again_counts_once(engine, tmp_path):
    world = Queued(1, name="jobs", retry={"max_deliveries": 1})
    world.join("a")
    world.append()
    (key,) = world.held
    world.settle(key, Outcome.REJECT)
    again = [row for row in world.rows[world.leader] if row["event"] in ("buried", "appended")]
    world.pass_time(60)
    for row in again:
        own = ("event", "seq", "hlc", "at", "offset_us", "recorder", "creation", "count")
        world.emit(world.node(2), row["event"], **{k: v for k, v in row.items() if k not in own})
    found = judge(engine, world.close().write(tmp_path))
    assert sorted((row["queue"], row["verdict"]) for row in found) == [
        ("jobs", "dead"),
        ("jobs.dlq", "waiting"),
    ]


def test_a_dead_letter_that_is_given_back_is_owed_to_the_group_that_could_not_do_it(engine, tmp_path):
    world = Queued(1, name="jobs", retry={"max_deliveries": 1})
    world.join("a", limit=100)
    world.join("b", "audit", limit=100)
    for _ in range(3):
        world.append()
    for key in sorted(world.held):
        world.settle(key, Outcome.REJECT if key == ("jobs", "workers", 1) else Outcome.ACK)
    world.ask(Replay("jobs", None, None))
    world.append()
    for key in sorted(world.held):
        world.settle(key)
    found = judge(engine, world.close().write(tmp_path))
    assert Counter((row["queue"], row["verdict"]) for row in found) == {
        ("jobs", "done"): 8,
        ("jobs", "dead"): 1,
        ("jobs.dlq", "discarded"): 1,
    }


def test_the_report_says_what_became_of_jobs_and_whose_were_lost(engine, tmp_path, sound):
    sound.close().without(lambda row: row["event"] in ("given", "settled") and row["queue_offset"] == 4)
    recording = load(engine, str(sound.write(tmp_path / "in")))
    outcome = run_jobs(recording, ["queues"], out=str(tmp_path / "out"))
    told = outcome.findings["queues"]
    assert {name: number for name, number in told.numbers.items() if number} == {
        "jobs": 10,
        "done": 9,
        "lost_jobs": 1,
    }
    by_group, wrong = told.sheets
    assert (by_group.rows[0]["queue"], by_group.rows[0]["done"], by_group.rows[0]["lost"]) == ("jobs", 9, 1)
    assert [(row["queue_offset"], row["verdict"]) for row in wrong.rows] == [(4, "lost")]
    broken = broken_promises(outcome, ["lost", "lost_jobs"])
    assert broken == {"lost_jobs": 1}
    assert "Of jobs in queues 1 were lost, 0 done twice." in verdict_in_words(outcome, broken)
    assert "Jobs that were lost or done twice" in render(outcome, broken)


def test_a_recording_without_queues_says_so_and_nothing_else_of_it_is_changed(duck, tmp_path):
    recording = load(duck, str(World(5).play(60).write(tmp_path / "in")))
    outcome = run_jobs(recording, ["completeness", "queues"], out=str(tmp_path / "out"))
    assert outcome.findings["queues"].sentences == ("No queue was used.",)
    assert not any(outcome.findings["queues"].numbers.values())
    alone = run_jobs(recording, ["completeness"], out=str(tmp_path / "alone"))
    assert outcome.findings["completeness"] == alone.findings["completeness"]
    assert verdict_in_words(outcome, {}) == verdict_in_words(alone, {})


@pytest.mark.spark
def test_both_engines_find_the_same_of_every_job(spark, duck, tmp_path):
    """Every row, number, sentence and sheet, of queues that lost and doubled something."""
    pick = random.Random(SEED + 1)
    for number, settings in enumerate(KINDS):
        world = Queued(pick.randrange(10**6), name=f"q{number}", **settings).play(150)
        gone = pick.randrange(10)
        world.close().without(lambda row, gone=gone: row["event"] == "given" and row["queue_offset"] == gone)
        world.write(tmp_path / "in")
    told, rows = [], []
    for engine in (spark, duck):
        out = tmp_path / engine.name
        recording = load(engine, str(tmp_path / "in"))
        told.append(run_jobs(recording, ["queues"], out=str(out)).as_json()["jobs"])
        table = f"read_parquet('{out}/queues/jobs/*.parquet')"
        rows.append(sorted(map(str, duck.rows(f"SELECT * FROM {table}"))))
    assert rows[0], f"seed {SEED}"
    assert rows[0] == rows[1], f"seed {SEED}"
    assert told[0] == told[1], f"seed {SEED}"
