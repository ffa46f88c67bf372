"""What the nodes of a cluster record of its queues, and what the audit finds in it, whatever dies."""

import asyncio

import pytest

from gossamer.audit import EventBuffer, QueueEvents, schema
from gossamer.audit.event_buffer import KINDS
from gossamer.config import QueueConfig
from gossamer.queues import create
from tests.spark.world import write_rows

from .clusters import nodes, restart, until
from .recording import Recording
from .test_queues import consumer, declared, leader_of, settled

JOBS = {
    "discs": True,
    "queues": [{"name": "jobs", "retry": {"initial_backoff": "1s"}, "visibility_timeout": "5s"}],
}
NAMES = {number: name for name, number in KINDS.items()}
FIELDS = {event.name: event.columns for event in schema.EVENTS}


class Records:
    """What the nodes of a cluster record of queues; each life of a node by itself."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.buffers = []
        for number in cluster.nodes:
            self.record(number)

    def record(self, number):
        node = self.cluster.nodes[number]
        buffer = EventBuffer(limit=100_000, wall=node.clock.wall)
        buffer.note(KINDS[schema.OPENED], None)
        node.queues.recorder = QueueEvents(buffer, lambda client: client)
        self.buffers.append((node, len(self.buffers) + 1, buffer))

    def rows(self):
        """All rows by node and life."""
        for node, creation, buffer in self.buffers:
            buffer.note(KINDS[schema.CLOSED])
            yield (
                node.name,
                creation,
                [
                    {
                        "seq": seq,
                        "event": NAMES[kind],
                        "hlc": hlc,
                        "at": at,
                        "recorder": node.name,
                        "creation": creation,
                        "count": 1,
                        **dict(zip(FIELDS[NAMES[kind]], values, strict=True)),
                    }
                    for seq, kind, hlc, at, *values in buffer.take()
                ],
            )

    def judge(self, root):
        """Verdicts on all jobs, and all rows."""
        pytest.importorskip("duckdb")
        pytest.importorskip("pyarrow")
        from gossamer.spark import DuckEngine, load
        from gossamer.spark.analyses import Terms
        from gossamer.spark.analyses.queues import jobs

        told = []
        for name, creation, rows in self.rows():
            told += rows
            write_rows(root, name, rows, creation=creation)
        engine = DuckEngine(memory="1g")
        found = engine.rows(f"SELECT * FROM ({jobs(load(engine, str(root)), Terms())})")
        engine.close()
        return found, told


@nodes(3, seeds=2, **JOBS)
async def test_the_audit_finds_each_job_done_once_though_the_leader_died(sim, cluster, tmp_path):
    await declared(cluster, "jobs")
    records = Records(cluster)
    dying = leader_of(cluster)
    for number in (1, 2, 3):
        await consumer(cluster, number, f"w{number}")
    speakers = [await cluster.client(n) for n in cluster.nodes if n != dying]
    sent = 0

    async def speak(client):
        nonlocal sent
        for _ in range(60):
            await client.publish("$queue/jobs/k", b"x", qos=1, timeout=30)
            sent += 1
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(speak(client)) for client in speakers]
    await asyncio.sleep(0.6)
    cluster.crash(dying)
    await asyncio.gather(*tasks)
    await restart(cluster, dying)
    records.record(dying)
    await asyncio.sleep(10)
    found, told = records.judge(tmp_path)
    assert sent == sum(1 for row in told if row["event"] == "appended") == 120
    verdicts = {row["verdict"] for row in found}
    # What no quorum has answered, since it was on its way to the leader that died, cannot be told.
    assert verdicts <= {"done", "undecidable"}, verdicts
    assert sum(row["verdict"] == "done" for row in found) >= 100
    assert {row["publisher"] for row in found} >= {client.client_id for client in speakers}


@nodes(3, seeds=2, **JOBS)
async def test_each_event_is_told_once_by_the_node_that_it_belongs_to(sim, cluster, tmp_path):
    await declared(cluster, "jobs")
    leader = leader_of(cluster)
    here, there = [n for n in (1, 2, 3) if n != leader]
    records = Records(cluster)
    name = {number: node.name for number, node in cluster.nodes.items()}
    lead = cluster.nodes[leader]
    small = QueueConfig.model_validate({"limits": {"max_depth": 1, "overflow": "drop_oldest"}})
    await lead.runtime.run(create, "small", small)
    worker = await consumer(cluster, here, "worker", settle="explicit")
    speaker = await cluster.client(there, "speaker")
    for payload in (b"done", b"later", b"never"):
        await speaker.publish("$queue/jobs/k", payload, qos=1)
    await until(lambda: len(worker.messages) == 3)
    done, later, never = worker.messages
    assert await settled(worker, "jobs", "$ack", [done]) == 0
    assert await settled(worker, "jobs", "$nack", [later]) == 0
    assert await settled(worker, "jobs", "$reject", [never], reason="no such part") == 0
    assert await settled(worker, "jobs", "$ack", [done]) == 0x83
    await until(lambda: len(worker.messages) == 4)
    await declared(cluster, "small")
    for _ in range(2):
        await speaker.publish("$queue/small/", b"", qos=1)
    found, told = records.judge(tmp_path)
    events = sorted(
        (row["event"], row["recorder"], row["queue_offset"], row.get("attempt"), row.get("reason"))
        for row in told
        if row.get("queue") == "jobs"
    )
    assert events == [
        *(("appended", name[there], offset, None, None) for offset in range(3)),
        ("buried", name[leader], 2, 1, "no such part"),
        ("given", name[here], 0, 1, None),
        ("given", name[here], 1, 1, None),
        ("given", name[here], 1, 2, None),
        ("given", name[here], 2, 1, None),
        ("settled", name[here], 0, 1, "ack"),
        ("settled", name[here], 1, 1, "nack"),
        ("settled", name[here], 2, 1, "reject"),
    ]
    (dropped,) = [row for row in told if row["event"] == "discarded"]
    assert (dropped["queue"], dropped["reason"], dropped["recorder"]) == ("small", "limit", name[leader])
    assert sorted((row["queue"], row["queue_offset"], row["verdict"]) for row in found) == [
        ("jobs", 0, "done"),
        ("jobs", 1, "unsettled"),
        ("jobs", 2, "dead"),
        ("jobs.dlq", 0, "waiting"),
        ("small", 0, "discarded"),
        ("small", 1, "waiting"),
    ]
    (of_dead_letter,) = [row for row in told if row.get("queue") == "jobs.dlq"]
    assert (of_dead_letter["reason"], of_dead_letter["recorder"]) == ("dead_letter", name[leader])


@nodes(3, seeds=1, discs=True, queues=[{"name": "jobs", "topics": ["shop/#"]}])
async def test_what_a_queue_captures_has_the_identifier_of_its_message_and_nothing_is_told_when_off(
    sim, cluster
):
    await declared(cluster, "jobs")
    records = Records(cluster)
    recording = Recording(cluster.nodes[1])
    speaker = await cluster.client(1, "speaker")
    await speaker.publish("shop/orders", b"x", qos=1)
    (published,) = recording.told("published")
    rows = [row for _, _, rows in records.rows() for row in rows if row["event"] == "appended"]
    assert [(row["message"], row["origin"], row["topic"], row["client"]) for row in rows] == [
        (published["message"], published["origin"], "shop/orders", "speaker")
    ]
    for node in cluster.nodes.values():
        node.queues.recorder = None
    await speaker.publish("shop/orders", b"x", qos=1)
    assert [row for _, _, rows in records.rows() for row in rows if "queue" in row] == []
