"""Worlds that share one recording: a run costs Spark the same few seconds, however little is in it.

Each has nodes, clients and topics of its own, so that each is judged as if it were alone. A hole may hide
what any client did, so those that have one are a recording of their own, in which nothing else is wrong.
"""

import random
from types import SimpleNamespace

import gossamer.audit.schema as schema
from tests.spark.world import FILTERS, SECOND, TOPICS, World, write_rows

SEEDS = random.Random(11)


class Together:
    """``worlds`` by their names, and the verdicts of one run over all of them."""

    def __init__(self, worlds, recording, verdicts):
        self.worlds = worlds
        self.recording = recording
        self._verdicts = [SimpleNamespace(**row) for row in verdicts]

    def rows(self, name):
        """The verdicts on what was published in the world called ``name``."""
        return [row for row in self._verdicts if row.origin.endswith(f"@{name}")]


def write_together(root):
    """The recording, and the worlds in it."""
    worlds = [
        World(1, name="every").play(400),
        Jumble(SEEDS.randrange(10**6), clients=5, name="jumble").jumble(120),
        Jumble(SEEDS.randrange(10**6), clients=5, name="muddle").jumble(120),
        Lopsided(21, clients=6, name="lopsided").play(150),
        Takeover(5, clients=2, faults=0, name="takeover").move(),
        sampled(World(6, name="sample").play(150), 2),
    ]
    for world in worlds:
        world.write(root)
    late = World(12, clients=6, name="late").play(120)
    write_late(root, late)
    return {world.name: world for world in (*worlds, late)}


def write_holed(root):
    """Three worlds in which all goes well and a recorder of each was not looking, in ways of their own."""
    cut = World(3, faults=0, name="cut").play(300)
    cut.write(root, files=3, drop={(cut.node(2), 1)})
    gap = World(3, faults=0, name="gap").play(80)
    rows = gap.rows[gap.node(2)]
    some = slice(len(rows) // 4, len(rows) // 4 + 40)
    dropped = {**rows[some][-1], "event": schema.GAP, "count": 39, "reason": "overflow"}
    common = ("seq", "event", "hlc", "at", "offset_us", "recorder", "creation", "count", "reason")
    rows[some] = [{name: dropped[name] for name in common}]
    gap.write(root)
    missing = World(13, faults=0, name="missing").play(120)
    missing.write(root, drop={(missing.node(3), part) for part in range(2)})
    return {world.name: world for world in (cut, gap, missing)}


def sampled(world, every):
    """What recorders keep that sample one message of ``every``: rows of one message each."""
    for node, rows in world.rows.items():
        kept = []
        for row in rows:
            if row.get("message") is None:
                kept.append(row)
            else:
                numbers = range(row["message"], row["message"] + row["count"])
                kept += [{**row, "message": n, "count": 1} for n in numbers if n % every == 0]
        for seq, row in enumerate(kept, 1):
            row["seq"] = seq
        kept[0]["detail"] = f'{{"share": {1 / every}}}'
        world.rows[node] = kept
    return world


def write_late(root, world):
    """What came late stands hours behind its time, in another file, and the two overlap."""
    for node, rows in world.rows.items():
        half = len(rows) // 2
        write_rows(root, node, rows[:half][::-1], first=1, closed=False)
        write_rows(root, node, rows[half - 10 :][::-1], first=rows[half - 10]["seq"])


class Lopsided(World):
    """Most of what is published goes to one topic, in runs; all faults happen to it too."""

    HOT = "site/1/dev"

    def publish(self, client, topic, *, count=1):
        hot = self.random.random() < 0.7
        super().publish(client, self.own(self.HOT) if hot else topic, count=4 * count if hot else count)


class Takeover(World):
    """Four messages that are on their way as their taker moves; the last is lost in it."""

    def move(self):
        one, two = self.clients
        one.persistent = two.persistent = True
        for client, number in ((one, 1), (two, 2)):
            self.come(client, self.node(number))
        self.subscribe(two, self.own("site/#"))
        for _ in range(3):
            self.pass_time(30)
            # Delivered at the new node, after the session has moved.
            message = self.publish_and_move(one, two, self.node(3))
            self.emit(self.node(3), schema.DELIVERED, after=SECOND, client=two.name, qos=1, **message)
            self.pass_time(30)
            self.take_over(two, self.node(2))
        self.pass_time(30)
        self.publish_and_move(one, two, self.node(3))
        self.pass_time(60)
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return self

    def publish_and_move(self, publisher, taker, node):
        """A message that has reached the node that the taker is about to leave."""
        origin, old, topic = publisher.node, taker.node, self.own("site/1/dev")
        self.messages[origin] += 1
        run = {"origin": origin, "origin_creation": 1, "message": self.messages[origin]}
        self.emit(origin, schema.PUBLISHED, client=publisher.name, topic=topic, qos=1, size=1, **run)
        self.emit(origin, schema.FORWARDED, peer=old, **run)
        self.emit(old, schema.RECEIVED, after=500, peer=origin, topic=topic, **run)
        self.now += 1000
        self.take_over(taker, node)
        return run


class Jumble(World):
    """Anything at any time: changes fall together with publishes, deliveries come from nowhere."""

    def __init__(self, seed, **more):
        super().__init__(seed, **more)
        self.seed = seed

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
                wanted = self.own(pick(FILTERS))
                self.share(client, wanted, share=pick([None, None, "g"]), no_local=pick([False, True]))
            elif move < 0.45 and client.filters:
                self.leave(client, *pick(sorted(client.filters, key=str)))
            else:
                self.scatter(client, self.own(pick(TOPICS)))
        self.now += 20 * SECOND
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return self

    def share(self, client, topic_filter, *, share, no_local):
        client.filters[topic_filter, share] = 1
        held = {"client": client.name, "filter": topic_filter, "share": share}
        self.emit(client.node, schema.SUBSCRIBED, qos=1, no_local=no_local and not share, **held)

    def leave(self, client, topic_filter, share):
        del client.filters[topic_filter, share]
        self.emit(client.node, schema.UNSUBSCRIBED, client=client.name, filter=topic_filter, share=share)

    def scatter(self, client, topic):
        pick = self.random.choice
        count = pick([1, 1, 3])
        self.messages[client.node] += count
        first = self.messages[client.node] - count + 1
        run = {"origin": client.node, "origin_creation": 1, "message": first, "count": count}
        qos = pick([0, 1])
        self.emit(client.node, schema.PUBLISHED, client=client.name, topic=topic, qos=qos, size=count, **run)
        for taker in self.clients:
            for _ in range(pick([0, 0, 1, 1, 1, 2])):
                after = pick([1000, SECOND, 8 * SECOND])
                group = pick([{}, {}, {"share": "g", "filter": self.own(pick(FILTERS))}])
                node = taker.node or self.nodes[0]
                self.emit(node, schema.DELIVERED, after=after, client=taker.name, **group, **run)
