"""Completeness finds exactly the faults that are in a history, says where, and its numbers add up."""

import random
from collections import Counter

import pytest

import gossamer.audit.schema as schema
from gossamer.spark.completeness import Terms, verdicts
from gossamer.spark.owed import SALTED_FROM
from gossamer.spark.source import load
from tests.spark import auditor
from tests.spark.world import FILTERS, SECOND, START, TOPICS, World

pytestmark = pytest.mark.spark


def counts(recording, terms=None, **options):
    found = verdicts(recording, terms or Terms(), **options).collect()
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
                self.subscribe(
                    client, pick(FILTERS), share=pick([None, None, "g"]), no_local=pick([False, True])
                )
            elif move < 0.45 and client.filters:
                self.unsubscribe(client, *pick(sorted(client.filters, key=str)))
            else:
                self.scatter(client, pick(TOPICS))
        self.now += 20 * SECOND
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return [row for rows in self.rows.values() for row in rows]

    def subscribe(self, client, topic_filter, *, share, no_local):
        client.filters[topic_filter, share] = 1
        held = {"client": client.name, "filter": topic_filter, "share": share}
        self.emit(client.node, schema.SUBSCRIBED, qos=1, no_local=no_local and not share, **held)

    def unsubscribe(self, client, topic_filter, share):
        del client.filters[topic_filter, share]
        self.emit(client.node, schema.UNSUBSCRIBED, client=client.name, filter=topic_filter, share=share)

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
                group = self.random.choice([{}, {}, {"share": "g", "filter": self.random.choice(FILTERS)}])
                node = taker.node or self.nodes[0]
                self.emit(node, schema.DELIVERED, after=after, client=taker.name, **group, **run)


SEEDS = random.Random(11)


@pytest.mark.parametrize(
    ("seed", "salted_from"), [(SEEDS.randrange(10**6), SALTED_FROM), (SEEDS.randrange(10**6), 1)]
)
def test_it_agrees_with_a_brute_force_auditor_whatever_happened(spark, tmp_path, seed, salted_from):
    """Also where every topic that has two messages is salted."""
    world = Jumble(seed, clients=5)
    rows = world.jumble(120)
    terms = Terms(settle=SECOND, late_after=5 * SECOND)
    found, _ = counts(load(spark, str(world.write(tmp_path))), terms, salted_from=salted_from)
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


def test_a_gap_that_the_recorder_tells_of_is_a_hole_too(spark, tmp_path):
    """What the tape had no place for is missing, and its place in time and its number are known."""
    world = World(3, faults=0).play(80)
    rows = world.rows["n2@host"]
    cut = slice(len(rows) // 4, len(rows) // 4 + 40)
    gap = {**rows[cut][-1], "event": schema.GAP, "count": 39, "reason": "overflow"}
    common = ("seq", "event", "hlc", "at", "offset_us", "recorder", "creation", "count", "reason")
    rows[cut] = [{name: gap[name] for name in common}]
    recording = load(spark, str(world.write(tmp_path)))
    assert len(recording.holes) == 1, recording.holes
    (hole,) = recording.holes
    assert hole.why == "the recorder dropped 39 events"
    found, _ = counts(recording)
    assert found["undecidable"]
    assert not found["lost"]
    assert not found["misrouted"]


def test_a_takeover_in_flight_is_no_loss_and_what_it_loses_is_said_to_be_lost_in_it(spark, tmp_path):
    world = World(5, clients=2, faults=0)
    one, two = world.clients
    one.persistent = two.persistent = True
    for client, node in ((one, "n1@host"), (two, "n2@host")):
        world.come(client, node)
    world.subscribe(two, "site/#")
    for _ in range(3):
        world.pass_time(30)
        # Delivered at the new node, after the session has moved.
        message = publish_and_move(world, one, two, "n3@host")
        world.emit("n3@host", schema.DELIVERED, after=SECOND, client=two.name, qos=1, **message)
        world.pass_time(30)
        world.take_over(two, "n2@host")
    world.pass_time(30)
    publish_and_move(world, one, two, "n3@host")
    world.pass_time(60)
    for node in world.nodes:
        world.emit(node, schema.CLOSED)
    found, hops = counts(load(spark, str(world.write(tmp_path))))
    assert dict(found) == {"delivered": 3, "lost": 1}
    assert dict(hops) == {"n2@host to n3@host: lost as the session moved": 1}


def publish_and_move(world, publisher, taker, node):
    """A message that has reached the node that the taker is about to leave."""
    world.messages[publisher.node] += 1
    run = {"origin": publisher.node, "origin_creation": 1, "message": world.messages[publisher.node]}
    old = taker.node
    world.emit(
        publisher.node, schema.PUBLISHED, client=publisher.name, topic="site/1/dev", qos=1, size=1, **run
    )
    world.emit(publisher.node, schema.FORWARDED, peer=old, **run)
    world.emit(old, schema.RECEIVED, after=500, peer=publisher.node, topic="site/1/dev", **run)
    world.now += 1000
    world.take_over(taker, node)
    return run


def kept_of(rows, every):
    """What a recorder keeps that samples one message of ``every``: rows of one message each."""
    kept = []
    for row in rows:
        if row.get("message") is None:
            kept.append(row)
        else:
            numbers = range(row["message"], row["message"] + row["count"])
            kept += [{**row, "message": n, "count": 1} for n in numbers if n % every == 0]
    for seq, row in enumerate(kept, 1):
        row["seq"] = seq
    return kept


def test_a_sample_is_judged_like_the_whole(spark, tmp_path):
    world = World(6).play(150)
    for node, rows in world.rows.items():
        world.rows[node] = kept_of(rows, 2)
        world.rows[node][0]["detail"] = '{"share": 0.5}'
    rows = [row for rows in world.rows.values() for row in rows]
    recording = load(spark, str(world.write(tmp_path)))
    assert recording.share == 0.5
    found, _ = counts(recording)
    assert dict(found) == auditor.judge(rows, settle=SECOND, late_after=5 * SECOND)
    assert found["lost"]
