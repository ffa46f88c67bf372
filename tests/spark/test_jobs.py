"""Every job over one history in which each finds what was put there, and the page that tells of it."""

import json
from pathlib import Path

import pytest

import gossamer.audit.schema as schema
from gossamer.spark.findings import Sheet
from gossamer.spark.jobs import JOBS
from gossamer.spark.report.report import render, verdict_in_words
from gossamer.spark.run import broken_promises, run_jobs
from gossamer.spark.source.source import load
from tests.spark.plans import FORBIDDEN, plans
from tests.spark.world import World

A, B, C = "n1@host", "n2@host", "n3@host"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A quiet half hour with a burst; then wrong forwards of each kind, a split, a client that flaps."""
    world = World(7, nodes=3, clients=3, faults=0)
    one, two, three = world.clients
    for client, node in ((one, A), (two, B), (three, C)):
        world.come(client, node)
    world.subscribe(two, "site/#")
    world.subscribe(three, "other/x")
    for minute in range(30):
        world.pass_time(60)
        world.publish(one, "site/1/dev", count=200 if minute != 20 else 9000)
    world.pass_time(60)
    # B subscribes to nothing like it; then C had until a moment ago; then C should have got it.
    forward(world, "nobody/asked", B)
    world.unsubscribe(three, "other/x")
    world.pass_time(5)
    forward(world, "other/x", C)
    world.pass_time(5)
    world.subscribe(three, "other/x")
    world.pass_time(60)
    forward(world, "other/x", None)
    world.pass_time(60)
    # A and B lose each other for two minutes, in which something for B is lost.
    for here, there in ((A, B), (B, A)):
        world.emit(here, schema.NODE_DOWN, peer=there, reason="noconnection")
    world.pass_time(60)
    world.faults = 1.0
    world.random.random = lambda: 0.0
    world.publish(one, "site/1/dev")
    world.faults = 0
    world.pass_time(60)
    for here, there in ((A, B), (B, A)):
        world.emit(here, schema.NODE_UP, peer=there)
        world.emit(here, schema.PARTITION, peer=there, reason="running_partitioned_network")
    world.pass_time(5)
    world.emit(A, schema.HEALED)
    for _ in range(12):
        world.pass_time(10)
        world.go(two)
        world.pass_time(10)
        world.come(two, B)
    world.emit(C, schema.TAKEN_OVER, client=three.name, peer=A)
    lost = {"origin": A, "origin_creation": 1, "message": 1_000_000, "count": 5}
    world.emit(B, schema.DROPPED, client=two.name, reason="queue_full", **lost)
    # Forwarded to a node that was known to be gone, though it had a subscriber.
    world.emit(A, schema.NODE_DOWN, peer=C, reason="noconnection")
    world.pass_time(30)
    forward(world, "other/x", C)
    world.emit(A, schema.NODE_UP, peer=C)
    world.pass_time(120)
    for node in world.nodes:
        world.emit(node, schema.CLOSED)
    return world.write(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def outcome(engine, recorded, tmp_path_factory):
    """What all jobs find, and where."""
    out = tmp_path_factory.mktemp("out")
    return run_jobs(load(engine, str(recorded)), list(JOBS), out=str(out)), out


def forward(world, topic, peer):
    world.messages[A] += 1
    run = {"origin": A, "origin_creation": 1, "message": world.messages[A], "count": 1}
    world.emit(A, schema.PUBLISHED, client="c0", topic=topic, qos=1, size=1, **run)
    if peer is not None:
        world.emit(A, schema.FORWARDED, after=100, peer=peer, **run)
        world.emit(peer, schema.RECEIVED, after=500, peer=A, topic=topic, **run)
    world.pass_time(1)


def numbers(outcome, job):
    return outcome[0].findings[job].numbers


def test_what_was_lost_is_counted_once_for_each_receiver(outcome):
    found = numbers(outcome, "completeness")
    assert found["owed"] == 30 * 200 - 200 + 9000 + 3
    # The one that was not forwarded, the one of the split, and the one that nobody delivered.
    assert found["lost"] == 3
    assert found["delivered"] == found["owed"] - 3


def test_wrong_forwards_are_told_apart(outcome):
    found = numbers(outcome, "routes")
    # The one that went missing in the split was not forwarded either.
    assert found == {"unneeded": 1, "stale": 2, "missing": 2}


def test_a_split_is_found_with_its_length_and_its_loss(outcome):
    assert numbers(outcome, "partitions") == {"splits": 1, "lost_in_splits": 1}
    sentence, _ = outcome[0].findings["partitions"].sentences
    assert "n1@host and n2@host lost each other for 2.1 minutes" in sentence
    one, other = outcome[0].findings["partitions"].sheets[0].rows
    assert (one["side"], one["clients"], one["messages"], one["lost"], one["missed"]) == (A, 1, 1, 1, 0)
    assert (other["side"], other["clients"], other["messages"], other["lost"], other["missed"]) == (
        B,
        1,
        0,
        0,
        1,
    )
    assert one["healed"]


def test_the_burst_and_only_the_burst_left_the_usual_rate(outcome):
    rows = [row for row in outcome[0].findings["anomalies"].sheets[0].rows if row["messages"] > row["usual"]]
    assert {(row["kind"], row["subject"], row["messages"]) for row in rows} == {
        ("topic", "site/1/dev", 9000),
        ("publisher", "c0", 9000),
    }


def test_clients_that_flap_or_move_are_named(outcome):
    rows = {row["client"]: row for row in outcome[0].findings["sessions"].sheets[0].rows}
    assert rows["c1"]["flapping"]
    assert rows["c2"]["takeovers"] == 1
    assert numbers(outcome, "sessions") == {"flapping": 1, "takeovers": 1, "dropped": 5, "overflows": 5}
    assert rows["c1"]["reasons"] == ["queue_full"]


def test_delays_are_those_that_were_recorded(outcome):
    rows = {row["hop"]: row for row in outcome[0].findings["latency"].sheets[0].rows}
    assert rows["deliver"]["p50_us"] == 1500
    assert rows["link"]["p50_us"] in (400, 800)
    assert numbers(outcome, "latency")["negative"] == 0


def test_the_busiest_topic_leads_with_its_share(outcome):
    rows = outcome[0].findings["hotspots"].sheets[0].rows
    assert rows[0]["topic"] == "site/1/dev"
    assert rows[0]["messages"] == 30 * 200 - 200 + 9000 + 1
    # Those that were delivered, and one that went to a stranger.
    assert rows[0]["deliveries"] == 30 * 200 - 200 + 9000 + 1


def test_summaries_are_json_beside_the_tables(outcome):
    _, out = outcome
    for name in JOBS:
        summary = json.loads((out / name / "summary.json").read_text())
        assert list(summary["jobs"]) == [name]
        assert summary["nodes"] == [A, B, C]
        assert list(out.joinpath(name).rglob("*.parquet"))


@pytest.mark.spark
def test_no_plan_multiplies_tables_or_calls_python(recorded, spark):
    recording = load(spark, str(recorded))
    seen = {}
    for job, table, plan in plans(recording):
        seen.setdefault(job, []).append(table)
        for word in FORBIDDEN:
            assert word not in plan, f"{job}/{table}"
    assert list(seen) == list(JOBS)


def test_the_page_of_plans_in_the_documentation_is_of_these_jobs():
    """Made anew by ``python -m tests.spark.plans DIR`` when a job gets another table."""
    text = (Path(__file__).parents[2] / "docs/design/audit-plans.md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(JOBS)
    for word in FORBIDDEN:
        assert word not in text


def test_the_page_stands_alone_and_says_what_broke(outcome):
    found = outcome[0]
    broken = broken_promises(found, ["lost", "doubled"])
    assert broken == {"lost": 3}
    page = render(found, broken)
    assert "Promises were broken: 3 lost" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert page.count("<svg") >= 4
    assert "the recording is whole" in page
    assert len(page) < 500_000
    assert verdict_in_words(found, {}) != verdict_in_words(found, broken)


def test_a_topic_cannot_inject_anything_into_the_page(outcome):
    found = outcome[0]
    findings = found.findings["hotspots"]
    evil = "<script>alert(1)</script>$\\frac{"
    chart = type(findings.charts[0])("bars", "t", "messages", (evil,), {"messages": (1.0,)})
    hotspots = type(findings)({}, (evil,), (chart,), (Sheet(evil, ({"topic": evil},)),))
    page = render(type(found)(**{**fields_of(found), "findings": {"hotspots": hotspots}}), {})
    assert "<script" not in page


def fields_of(value):
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
