"""Completeness finds exactly the faults that are in a history, says where, and its numbers add up."""

import random
from collections import Counter

import pytest

import gossamer.audit.schema as schema
from gossamer.spark.cluster import routes
from gossamer.spark.completeness import Terms, verdicts
from gossamer.spark.source import load
from gossamer.spark.traffic import latency
from tests.spark import auditor
from tests.spark.world import FILTERS, SECOND, START, TOPICS, World

pytestmark = pytest.mark.spark


def counts(recording, terms=None):
    found = verdicts(recording, terms or Terms()).collect()
    return Counter(row.verdict for row in found), Counter(row.hop for row in found if row.verdict == "lost")


def test_every_fault_is_found_and_nothing_else(spark, tmp_path):
    world = World(1).play(400)
    found, hops = counts(load(spark, str(world.write(tmp_path))))
    truth = {k: v for k, v in world.truth.items() if k != "published" and v}
    assert dict(found) == truth
    assert set(truth) == {"delivered", "late", "doubled", "lost", "misrouted", "queued"}
    assert hops == world.lost_at


class Jumble(World):
    """Anything at any time: changes fall together with publishes, deliveries come from nowhere."""

    def jumble(self, steps):
        pick = self.random.choice
        for client in self.clients:
            self.come(client, pick(self.nodes))
        for _ in range(steps):
            self.now += self.random.randrange(1, 3 * SECOND)
            client = pick(self.clients)
            move = self.random.random()
            if client.node is None:
                client.node = pick(self.nodes)
                present = client.persistent and self.random.random() < 0.8
                self.emit(
                    client.node,
                    schema.CONNECTED,
                    client=client.name,
                    persistent=client.persistent,
                    present=present,
                )
                if not present:
                    client.filters.clear()
            elif move < 0.1:
                self.go(client)
            elif move < 0.15:
                # Taken over by another node, whose news come before the old one's.
                old, client.node = client.node, pick(self.nodes)
                self.emit(client.node, schema.CONNECTED, client=client.name, persistent=client.persistent)
                self.emit(old, schema.DISCONNECTED, after=5, client=client.name, persistent=client.persistent)
            elif move < 0.35:
                self.subscribe(client, pick(FILTERS))
            elif move < 0.45 and client.filters:
                self.unsubscribe(client, pick(sorted(client.filters)))
            else:
                self.scatter(client, pick(TOPICS))
        self.now += 20 * SECOND
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return [row for rows in self.rows.values() for row in rows]

    def scatter(self, client, topic):
        count = self.random.choice([1, 1, 3])
        self.messages[client.node] += count
        first = self.messages[client.node] - count + 1
        run = {"origin": client.node, "origin_creation": 1, "message": first, "count": count}
        qos = self.random.choice([0, 1])
        self.emit(client.node, schema.PUBLISHED, client=client.name, topic=topic, qos=qos, size=count, **run)
        for taker in self.clients:
            for _ in range(self.random.choice([0, 0, 1, 1, 1, 2])):
                after = self.random.choice([1000, SECOND, 8 * SECOND])
                self.emit(
                    taker.node or self.nodes[0], schema.DELIVERED, after=after, client=taker.name, **run
                )


@pytest.mark.parametrize("seed", [random.Random(11).randrange(10**6) for _ in range(2)])
def test_it_agrees_with_a_brute_force_auditor_whatever_happened(spark, tmp_path, seed):
    world = Jumble(seed, clients=5)
    rows = world.jumble(120)
    found, _ = counts(load(spark, str(world.write(tmp_path))), Terms(settle=SECOND, late_after=5 * SECOND))
    expected = auditor.judge(rows, settle=SECOND, late_after=5 * SECOND)
    assert dict(found) == expected, f"seed {seed}"


def test_what_a_hole_may_hide_is_undecidable_and_the_rest_is_judged(spark, tmp_path):
    """The second of three files of a node is gone: nothing that could have happened there is called lost."""
    world = World(3, faults=0).play(300)
    world.write(tmp_path, files=3, drop={("n2@host", 1)})
    recording = load(spark, str(tmp_path))
    assert {hole.node for hole in recording.holes} == {"n2@host"}
    (hole,) = recording.holes
    found = verdicts(recording).collect()
    kinds = Counter(row.verdict for row in found)
    assert kinds["lost"] == kinds["misrouted"] == kinds["doubled"] == 0
    assert kinds["undecidable"] > 0
    assert kinds["delivered"] > 0
    # Whoever is connected to a node whose recording is whole, before and after, is judged.
    early = [row for row in found if row.published_at and row.published_at < hole.begin - 10 * SECOND]
    assert {row.verdict for row in early if "n2@host" not in (row.node, row.origin)} == {"delivered"}
    assert START < hole.begin < hole.end


def test_no_plan_multiplies_tables_or_calls_python(spark, tmp_path):
    recording = load(spark, str(World(1, faults=0).play(30).write(tmp_path)))
    for frame in (verdicts(recording), routes(recording), latency(recording)):
        plan = frame._jdf.queryExecution().toString()
        for word in ("CartesianProduct", "BroadcastNestedLoopJoin", "EvalPython"):
            assert word not in plan
