"""Spark and DuckDB are asked the same, and give the same answers: of faults, of holes, and of anything."""

import os
import random
import shutil

import pytest

from gossamer.spark import load, verdicts
from gossamer.spark.analyses.traffic import PRECISION
from gossamer.spark.engine import on_duckdb
from gossamer.spark.jobs import JOBS
from gossamer.spark.report.report import UNITS
from gossamer.spark.run import run_jobs
from tests.spark.together import Jumble, write_holed, write_together
from tests.spark.world import World

SEED = int(os.environ.get("GOSSAMER_SEED", "4711"))


def write_gaps(root):
    """Worlds of which something is missing: in three all goes well, in two anything happens."""
    write_holed(root)
    pick = random.Random(SEED)
    for number in range(2):
        world = Jumble(pick.randrange(10**6), clients=5, name=f"j{number}").jumble(120)
        world.write(root, files=3, drop={(world.node(pick.randrange(1, 4)), pick.randrange(3))})


@pytest.mark.spark
@pytest.mark.parametrize(
    ("write", "jobs"), [(write_together, list(JOBS)), (write_gaps, ["completeness", "routes"])]
)
def test_both_engines_find_the_same_of_everything(spark, duck, tmp_path, write, jobs):
    """Every row of every verdict, and every number, sentence and sheet of every job."""
    write(tmp_path / "in")
    rows, told = [], []
    for engine in (spark, duck):
        out = tmp_path / engine.name
        outcome = run_jobs(load(engine, str(tmp_path / "in")), jobs, out=str(out)).as_json()
        del outcome["engine"], outcome["problems"]
        told.append(outcome)
        judged = f"read_parquet('{out}/completeness/verdicts/*.parquet')"
        rows.append(duck.rows(f"SELECT * FROM {judged} ORDER BY origin, message, receiver"))
    assert rows[0], f"seed {SEED}"
    assert rows[0] == rows[1], f"seed {SEED}"
    for name in jobs:
        assert told[0]["jobs"][name] == told[1]["jobs"][name], f"seed {SEED}"
    assert told[0] == told[1]


def test_names_are_data_whatever_they_hold(engine):
    """Quotes, backslashes and what looks like a question come back as they went in."""
    for text in ("it's", 'a "b"', "back\\slash", "'; DROP TABLE x --", "i -> transform(1)", "grüße", "\n"):
        (row,) = engine.rows(f"SELECT {engine.literal(text)} AS a")
        assert row["a"] == text


def test_a_percentile_of_a_few_thousand_values_is_one_of_them_at_its_rank(engine):
    """Delays have a long tail, where the next rank is much later."""
    values = [number**3 for number in range(5000)]
    random.Random(SEED).shuffle(values)
    rows = ", ".join(f"(CAST({value} AS BIGINT))" for value in values)
    for part in (50, 95, 99):
        asked = f"SELECT percentile_approx(a, {part / 100}, {PRECISION}) AS p FROM (VALUES {rows}) AS t(a)"
        assert engine.rows(asked) == [{"p": (50 * part - 1) ** 3}]


def test_every_number_that_is_shown_says_what_it_counts(duck, tmp_path):
    recording = load(duck, str(World(5).play(120).write(tmp_path / "in")))
    outcome = run_jobs(recording, list(JOBS), out=str(tmp_path / "out"))
    sheets = [sheet for findings in outcome.findings.values() for sheet in findings.sheets]
    assert len(sheets) >= 5
    for sheet in sheets:
        for column in sheet.rows[0]:
            values = {type(row[column]) for row in sheet.rows} - {type(None), str, bool, list}
            assert not values or column in UNITS, f"{sheet.title}: {column}"


def test_a_little_recording_is_read_once_and_a_large_one_as_it_is_asked_for(duck, tmp_path, monkeypatch):
    where = World(5).play(120).write(tmp_path / "in")
    little = load(duck, str(where))
    with monkeypatch.context() as patch:
        patch.setattr(on_duckdb, "_LITTLE", 0)
        large = load(duck, str(where))
    told = run_jobs(large, list(JOBS), out=str(tmp_path / "large")).as_json()
    shutil.rmtree(where)
    assert run_jobs(little, list(JOBS), out=str(tmp_path / "little")).as_json() == told


def test_who_was_hit_worst_is_named(duck, tmp_path):
    """By receiver, by topic and by node, the same deliveries each time; twenty rows at most."""
    world = World(9, clients=30).play(400)
    recording = load(duck, str(world.write(tmp_path / "in")))
    told = run_jobs(recording, ["completeness"], out=str(tmp_path / "out")).findings["completeness"]
    hit = {next(iter(sheet.rows[0])): sheet.rows for sheet in told.sheets}
    assert list(hit) == ["hop", "receiver", "topic", "node"]
    for rows in hit.values():
        assert [row["lost"] for row in rows] == sorted((row["lost"] for row in rows), reverse=True)
        assert len(rows) <= 20
    for verdict in ("lost", "doubled", "late"):
        assert sum(row[verdict] for row in hit["topic"]) == told.numbers[verdict]
    # Twenty seconds after it could be delivered, whatever its receiver had been doing.
    assert {row["late_by_us"] for row in hit["topic"] if row["late"]} == {20_000_000}


def test_of_thirty_who_lost_the_twenty_that_lost_most_are_named_in_order(duck, tmp_path, monkeypatch):
    world = World(3, clients=31, faults=0)
    speaker, *listeners = world.clients
    for client in world.clients:
        client.persistent = False
        world.come(client, world.node(1))
    for number, client in enumerate(listeners, 1):
        world.subscribe(client, f"site/{number}")
    world.pass_time(30)
    with monkeypatch.context() as patch:
        patch.setattr(world, "deliver", lambda *_: None)
        for number in range(1, 31):
            world.publish(speaker, f"site/{number}", count=number)
    world.pass_time(30)
    for number in range(1, 31):
        world.publish(speaker, f"site/{number}")
    world.pass_time(60)
    recording = load(duck, str(world.write(tmp_path / "in")))
    told = run_jobs(recording, ["completeness"], out=str(tmp_path / "out")).findings["completeness"]
    assert told.numbers["lost"] == sum(range(31))
    (rows,) = [sheet.rows for sheet in told.sheets if "receiver" in sheet.rows[0]]
    assert [(row["receiver"], row["lost"]) for row in rows] == [
        (listeners[number - 1].name, number) for number in range(30, 10, -1)
    ]


@pytest.mark.parametrize("away", [9, 3600])
def test_a_client_that_was_away_makes_nothing_late(duck, tmp_path, away):
    """What waited for it and came as it did was deliverable since then, late by a millisecond, no delay."""
    world = World(3, clients=2, faults=0)
    one, two = world.clients
    one.persistent = two.persistent = True
    for client in (one, two):
        world.come(client, world.node(1))
    world.subscribe(two, "site/#")
    world.pass_time(30)
    world.publish(one, "site/1/dev")
    world.pass_time(30)
    world.go(two)
    world.pass_time(30)
    world.publish(one, "site/1/dev")
    sent = world.now
    world.pass_time(away)
    world.come(two, world.node(1))
    world.pass_time(60)
    recording = load(duck, str(world.write(tmp_path / "in")))
    _, row = duck.rows(f"SELECT * FROM ({verdicts(recording)}) ORDER BY published_at")
    assert (row["verdict"], row["late_by_us"]) == ("delivered", 1000)
    assert row["deliverable_at"] - sent == row["deliverable_at"] - row["published_at"] == away * 1_000_000
    told = run_jobs(recording, ["latency"], out=str(tmp_path / "out")).findings["latency"]
    (slow,) = [row for row in told.sheets[0].rows if row["hop"] == "deliver"]
    assert (slow["messages"], slow["worst_us"]) == (1, 1500)


def test_a_run_of_deliveries_that_spans_topics_is_booked_on_each(duck, tmp_path):
    """Messages 1 to 9 went to three topics, and to their taker in one run."""
    world = World(3, clients=2, faults=0)
    one, two = world.clients
    for client in (one, two):
        world.come(client, world.node(1))
    world.subscribe(two, "site/#")
    world.pass_time(30)
    run = {"origin": world.node(1), "origin_creation": 1}
    for first, topic in ((1, "site/a"), (3, "site/b"), (7, "site/c")):
        count = {1: 2, 3: 4, 7: 3}[first]
        sent = {"topic": topic, "message": first, "count": count, "client": one.name}
        world.emit(world.node(1), "published", qos=1, size=1, **sent, **run)
    world.emit(world.node(1), "delivered", after=10, client=two.name, qos=1, message=1, count=9, **run)
    world.pass_time(60)
    recording = load(duck, str(world.write(tmp_path / "in")))
    told = run_jobs(recording, ["hotspots"], out=str(tmp_path / "out")).findings["hotspots"]
    rows = told.sheets[0].rows
    assert {row["topic"]: (row["messages"], row["deliveries"]) for row in rows} == {
        "site/a": (2, 2),
        "site/b": (4, 4),
        "site/c": (3, 3),
    }
    assert {(row["per_message"], row["widest"]) for row in rows} == {(1.0, 1)}
