"""Every number of a node keeps to the conventions of Prometheus, and none is dear to ask for."""

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gossamer.api import OWN_ALARMS, Exposition
from gossamer.api.model.cluster import AlarmRequest
from gossamer.config import QueueConfig, config_from
from gossamer.mqtt.session.session import Session
from gossamer.node import Node
from gossamer.node.metrics import readings, take_census
from gossamer.node.metrics.family import TEXTS
from gossamer.queues import QueueMachine, QueueStats
from gossamer.queues.stats import GroupLag
from gossamer.queues.values import (
    Append,
    Define,
    Join,
    Lags,
    ListQueues,
    Tick,
    batch,
    decoder_of,
    encode,
)
from gossamer.raft import ReplicaStatus

# What a base unit is, and what of other units a name may not speak of.
FOREIGN_UNITS = re.compile(r"_(ms|milliseconds?|us|microseconds?|minutes?|hours?|kb|kib|mb|mib|percent)(_|$)")
COUNTED = ("messages", "rows", "changes", "topics", "filters", "frames", "packets", "events")


@pytest.fixture(scope="module")
def page():
    """The page of a node that was never started, with everything on."""

    async def read():
        node = Node(
            config_from({"tracing": {"enable": True}}), creation=1, cookie="of a node that never starts"
        )
        return (await Exposition(node.view).render()).decode(), list(node.view.metrics())

    return asyncio.run(read())


def test_the_page_is_read_by_prometheus_own_parser_and_names_each_family_once(page):
    text, metrics = page
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names))
    assert {metric.name.removesuffix("_total") for metric in metrics} <= set(names)
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"):
        assert name in names


def test_names_units_and_help_are_as_promtool_wants_them(page):
    """The rules of ``promtool check metrics``, and of Prometheus' page on naming."""
    _, metrics = page
    for metric in metrics:
        name = metric.name
        assert re.fullmatch(r"gossamer_[a-z0-9]+(_[a-z0-9]+)+", name), name
        assert (metric.kind == "counter") is name.endswith("_total"), f"{name}: counters alone end in _total"
        assert not FOREIGN_UNITS.search(name), f"{name}: seconds and bytes, nothing else"
        assert not re.search(r"_(count|sum|bucket)$", name), f"{name}: kept for histograms"
        if metric.kind == "histogram":
            assert name.endswith("_seconds"), name
        assert "gauge" not in name
        assert "counter" not in name
        assert re.fullmatch(r"[A-Z0-9/].{8,}\.", metric.family.documentation), f"{name}: help is a sentence"
        for label in metric.labels:
            assert re.fullmatch(r"[a-z]+", label), (name, label)
            assert label not in ("le", "quantile", "job", "instance"), (name, label)
            # Who has as many values as there are clients or topics makes a time series for each.
            assert label not in ("client", "topic", "filter"), (name, label)


def test_what_says_seconds_or_bytes_ends_so(page):
    _, metrics = page
    for metric in metrics:
        words = metric.name.removesuffix("_total").split("_")
        for unit in ("seconds", "bytes"):
            if unit in words and words[-1] != unit:
                # Links count by direction, and loop lag has a worst: names from before, kept.
                assert metric.name in (
                    "gossamer_link_bytes_out_total",
                    "gossamer_link_bytes_in_total",
                )


def test_what_others_ask_for_is_never_taken_away(page):
    """A name, its type and its labels are a promise: all of them are in ``kept_metrics.txt``."""
    _, metrics = page
    given = {metric.name: (metric.kind, *metric.labels) for metric in metrics}
    kept = {}
    for line in (Path(__file__).parent / "kept_metrics.txt").read_text().splitlines()[1:]:
        name, *rest = line.split()
        kept[name] = rest
    assert {name: list(given.get(name, ())) for name in kept} == kept
    assert set(given) <= set(kept), "write it down in kept_metrics.txt: from now on it stays"


def test_every_text_is_that_of_a_family_on_the_page(page):
    """A text without a reading would promise a number that is not there."""
    _, metrics = page
    assert {f"gossamer_{spec.partition('{')[0]}" for spec in TEXTS} - {
        metric.name for metric in metrics
    } == set()


def test_a_histogram_is_written_with_its_buckets(page):
    text, _ = page
    families = {family.name: family for family in text_string_to_metric_families(text)}
    pauses = families["gossamer_gc_pause_seconds"]
    assert pauses.type == "histogram"
    ends = {sample.labels.get("le") for sample in pauses.samples if sample.name.endswith("_bucket")}
    assert "+Inf" in ends
    assert {sample.name for sample in pauses.samples} == {
        f"gossamer_gc_pause_seconds_{part}" for part in ("bucket", "count", "sum")
    }


async def test_replicas_are_counted_by_the_kind_of_their_group():
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")
    node.consensus.replicas["names"] = ReplicaStatus(
        term=3, last=10, committed=7, applied=5, elections=2, snapshot_bytes=100, behind={"node2@b": 4}
    )
    node.consensus.syncs.begin(10.0)
    node.consensus.syncs.end(10.25)
    page = (await Exposition(node.view).render()).decode()
    for line in (
        'gossamer_raft_uncommitted_entries{group="names"} 3.0',
        'gossamer_raft_unapplied_entries{group="names"} 2.0',
        'gossamer_raft_behind_entries{group="names",peer="node2@b"} 4.0',
        'gossamer_raft_elections_total{group="names"} 2.0',
        'gossamer_raft_snapshot_bytes{group="names"} 100.0',
        "gossamer_raft_sync_seconds_sum 0.25",
        "gossamer_raft_sync_seconds_count 1.0",
    ):
        assert line in page.splitlines()


async def test_a_queue_is_counted_at_the_node_that_leads_its_group_alone(monkeypatch):
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")
    config = QueueConfig(topics=("a",)).model_dump_json().encode()
    machine = QueueMachine(lambda index, given: None)
    machine.apply(1, batch(b"w", 1, [Define("jobs", config), Append("jobs", "k", b"12345", b"", 0)]))
    joins = [Join("jobs", group, group, "c", "n", 1, True) for group in ("a", "b")]
    machine.apply(2, batch(b"w", 2, [*joins, Append("jobs", "k", bytes(300_000), b"", 0)]))
    machine.apply(3, encode(Tick(1500)))
    asked = []

    async def queues_in(group):
        asked.append(group)
        return decoder_of(list[QueueStats])(machine.read(encode(ListQueues())))

    async def lags_in(group, limit):
        return decoder_of(list[GroupLag])(machine.read(encode(Lags(limit))))

    monkeypatch.setattr(readings, "queues_in", queues_in)
    monkeypatch.setattr(readings, "lags_in", lags_in)
    assert b"gossamer_queue_depth{" not in await Exposition(node.view).render()
    node.consensus.leading = frozenset({"names", "queues/default"})
    page = (await Exposition(node.view).render()).decode().splitlines()
    assert 'gossamer_queue_depth{queue="jobs"} 1.0' in page
    assert 'gossamer_queue_bytes{queue="jobs"} 70.0' in page
    assert 'gossamer_queue_appended_total{queue="jobs"} 1.0' in page
    assert 'gossamer_queue_refused_total{queue="jobs"} 1.0' in page
    assert 'gossamer_queue_group_lag{group="a",queue="jobs"} 1.0' in page
    assert 'gossamer_queue_group_oldest_seconds{group="a",queue="jobs"} 1.5' in page
    assert asked == ["default"]
    # So many time series, whatever there is.
    monkeypatch.setattr(readings, "MOST_QUEUES", 1)
    assert (await Exposition(node.view).render()).count(b"gossamer_queue_group_lag{") == 1


async def test_a_scrape_does_not_wait_for_a_quorum(monkeypatch):
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")
    node.consensus.leading = frozenset({"queues/default"})
    monkeypatch.setattr(readings, "QUEUES_TIMEOUT", 0.01)
    monkeypatch.setattr(readings, "queues_in", lambda group: asyncio.sleep(3600))
    async with asyncio.timeout(20):
        assert (await take_census(node)).queues == []


async def test_a_disc_that_is_slow_for_a_while_is_an_alarm():
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")
    now = node.clock.monotonic()

    def alarms():
        return [one for one in node.view.healing.alarms() if one.name == "disc_slow"]

    node.consensus.syncs.begin(now - 20)
    assert alarms() == []
    node.consensus.syncs.begin(now - 40)
    [alarm] = alarms()
    assert alarm.since == pytest.approx(node.clock.wall() - 40, abs=5)
    assert "40 s" in alarm.text
    node.consensus.syncs.end(now)
    assert len(alarms()) == 1
    for _ in range(80):
        node.consensus.syncs.begin(now)
        node.consensus.syncs.end(now)
    assert alarms() == []


async def test_sessions_are_counted_a_slice_in_a_turn(monkeypatch):
    monkeypatch.setattr(readings, "SLICE", 10)
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")
    fanout = node.broker.fanout
    for number in range(95):
        session = Session(f"c{number}", fanout=fanout)
        session.subscriptions["a"] = session.subscriptions["b"] = None
        # Nobody is there to send it to.
        session.enqueue(b"2\x04\0\1a", b"x")
        node.broker.sessions[session.client_id] = session
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = await take_census(node)
    beside.cancel()
    assert (found.offline, found.subscriptions, found.queued, found.inflight) == (95, 190, 95, 0)
    assert turns >= 9


async def test_alarms_that_others_raised_are_counted_beside_the_nodes_own():
    node = Node(config_from({}), creation=1, cookie="of a node that never starts")

    async def told():
        page = (await Exposition(node.view).render()).decode()
        families = {family.name: family for family in text_string_to_metric_families(page)}
        return {s.labels["alarm"]: s.value for s in families["gossamer_alarm_active"].samples}

    own = dict.fromkeys(OWN_ALARMS, 0)
    assert await told() == own
    node.view.healing.order_alarm(AlarmRequest(name="audit_lost", text="3 lost"))
    node.view.healing.order_alarm(AlarmRequest(name="audit_doubled"))
    assert await told() == own | {"audit_lost": 1, "audit_doubled": 1}
    node.view.healing.order_alarm(AlarmRequest(name="audit_lost", active=False))
    assert (await told())["audit_lost"] == 0
