"""A broker on paper: a random history with faults that are known, as a recorder would have written it.

``World`` plays publishes, subscriptions and moves over a few nodes and notes, with every message, what became
of it at whom; the jobs read what it recorded and must come to the same.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from gossamer.audit import schema
from gossamer.audit.files import EventFile, table_of
from gossamer.routes import matches

START = 1_767_225_600_000_000
"""2026-01-01, microseconds."""
SECOND = 1_000_000
FILTERS = ("site/+/dev", "site/1/dev", "site/#", "#", "other/x", "+/2/+")
TOPICS = ("site/1/dev", "site/2/dev", "other/x", "lonely")


@dataclass
class Client:
    name: str
    node: str | None = None
    persistent: bool = False
    since: int = 0
    known: bool = False
    filters: dict = field(default_factory=dict)
    waiting: list = field(default_factory=list)


class World:
    """Emits rows as it goes; ``truth`` counts verdicts, ``lost_at`` the hops.

    Worlds of different ``name`` have nodes, clients and topics of their own, and may share a recording.
    """

    def __init__(self, seed, *, nodes=3, clients=8, faults=0.15, name=None):
        self.random = random.Random(seed)
        self.name = name
        self.nodes = [f"n{i}@{name or 'host'}" for i in range(1, nodes + 1)]
        self.rows = defaultdict(list)
        self.numbers = Counter()
        self.messages = Counter()
        self.now = START
        self.faults = faults
        self.truth = Counter()
        self.lost_at = Counter()
        own = f"{name}-" if name else ""
        self.clients = [Client(f"{own}c{i}", persistent=i % 3 == 0) for i in range(clients)]
        self.skew = {}
        self.unaware = set()
        """Nodes that do not know of their skew."""
        for node in self.nodes:
            self.emit(node, schema.OPENED)

    def node(self, number):
        return self.nodes[number - 1]

    @property
    def all_rows(self):
        return [row for rows in self.rows.values() for row in rows]

    @property
    def found(self):
        """``truth`` as verdicts are counted."""
        return {verdict: n for verdict, n in self.truth.items() if verdict != "published" and n}

    def own(self, path):
        """A topic or a filter, below the world's name."""
        return f"{self.name}/{path}" if self.name else path

    def emit(self, node, event, *, after=0, **columns):
        self.numbers[node] += 1
        skew = self.skew.get(node, 0)
        at = self.now + after + skew
        self.rows[node].append(
            {
                "seq": self.numbers[node],
                "event": event,
                "hlc": (at // 1000) << 16 | self.numbers[node] & 0xFFFF,
                "at": at,
                "offset_us": None if node in self.unaware else skew,
                "recorder": node,
                "creation": 1,
                "count": 1,
                **columns,
            }
        )

    def pass_time(self, seconds):
        self.now += int(seconds * SECOND)

    def come(self, client, node):
        client.node, client.since = node, self.now
        present, client.known = client.known, client.persistent
        self.emit(node, schema.CONNECTED, client=client.name, persistent=client.persistent, present=present)
        # What waited arrives now, in time for somebody who was away.
        for key in client.waiting:
            self.emit(node, schema.DELIVERED, after=1000, client=client.name, qos=1, **key)
            self.truth["delivered"] += 1
        client.waiting.clear()

    def take_over(self, client, node):
        """The client connects to another node, and its session goes there."""
        old, client.node = client.node, node
        persistent = {"client": client.name, "persistent": client.persistent}
        self.emit(node, schema.TAKEN_OVER, client=client.name, peer=old)
        self.emit(node, schema.CONNECTED, after=100, present=True, **persistent)
        for topic_filter in client.filters:
            moved = {"client": client.name, "filter": topic_filter, "qos": 1, "reason": "moved"}
            self.emit(node, schema.SUBSCRIBED, after=200, **moved)
        self.emit(old, schema.DISCONNECTED, after=2000, reason="taken over", **persistent)

    def go(self, client):
        self.emit(client.node, schema.DISCONNECTED, client=client.name, persistent=client.persistent)
        if not client.persistent:
            self.emit(client.node, schema.ENDED, client=client.name)
            client.filters.clear()
        client.node = None

    def subscribe(self, client, topic_filter):
        client.filters[topic_filter] = 1
        self.emit(
            client.node, schema.SUBSCRIBED, client=client.name, filter=topic_filter, qos=1, no_local=False
        )

    def unsubscribe(self, client, topic_filter):
        del client.filters[topic_filter]
        self.emit(client.node, schema.UNSUBSCRIBED, client=client.name, filter=topic_filter)

    def publish(self, client, topic, *, count=1):
        origin = client.node
        first = self.messages[origin] + 1
        self.messages[origin] += count
        run = {"origin": origin, "origin_creation": 1, "message": first, "count": count}
        self.emit(
            origin,
            schema.PUBLISHED,
            client=client.name,
            topic=topic,
            qos=1,
            size=10 * count,
            retain=False,
            **run,
        )
        self.truth["published"] += count
        takers = [c for c in self.clients if any(matches(f, topic) for f in c.filters)]
        by_node = defaultdict(list)
        for taker in takers:
            if taker.node is None:
                for k in range(count):
                    taker.waiting.append({**run, "message": first + k, "count": 1})
            else:
                by_node[taker.node].append(taker)
        for node, here in by_node.items():
            if node != origin:
                if self.fault():
                    self.lose(len(here) * count, f"{origin} to {node}: not forwarded")
                    continue
                self.emit(origin, schema.FORWARDED, after=100, peer=node, **run)
                if self.fault():
                    self.lose(len(here) * count, f"{origin} to {node}: lost on the link")
                    continue
                self.emit(node, schema.RECEIVED, after=900, peer=origin, topic=topic, **run)
            for taker in here:
                self.deliver(taker, node, run, count)
        if self.fault() and by_node:
            # To somebody who did not ask for it.
            stranger = next((c for c in self.clients if c.node and c not in takers), None)
            if stranger is not None:
                self.emit(stranger.node, schema.DELIVERED, after=2000, client=stranger.name, qos=1, **run)
                self.truth["misrouted"] += count

    def deliver(self, taker, node, run, count):
        what = self.random.choice(["lost", "dropped", "doubled", "late"]) if self.fault() else "delivered"
        note = {"client": taker.name, "qos": 1, **run}
        if what == "lost":
            self.lose(count, f"{node}: not delivered")
        elif what == "dropped":
            self.emit(node, schema.DROPPED, after=1500, client=taker.name, reason="queue_full", **run)
            self.lose(count, f"{node}: dropped, queue_full")
        else:
            self.emit(node, schema.DELIVERED, after=20 * SECOND if what == "late" else 1500, **note)
            if what == "doubled":
                self.emit(node, schema.DELIVERED, after=2500, **note)
            self.truth[what] += count

    def lose(self, count, hop):
        self.truth["lost"] += count
        self.lost_at[hop] += count

    def fault(self):
        return self.random.random() < self.faults

    def play(self, steps):
        """Steps far enough from each other that nothing is in doubt."""
        for client in self.clients:
            self.come(client, self.random.choice(self.nodes))
        for _ in range(steps):
            self.pass_time(30)
            client = self.random.choice(self.clients)
            if client.node is None:
                self.come(client, self.random.choice(self.nodes))
                continue
            move = self.random.random()
            if move < 0.1:
                self.go(client)
            elif move < 0.3:
                self.subscribe(client, self.own(self.random.choice(FILTERS)))
            elif move < 0.35 and client.filters:
                self.unsubscribe(client, self.random.choice(sorted(client.filters)))
            else:
                self.publish(
                    client, self.own(self.random.choice(TOPICS)), count=self.random.choice([1, 1, 5])
                )
        self.pass_time(60)
        # The queue of who is away at the end.
        self.truth["queued"] += sum(len(client.waiting) for client in self.clients)
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return self

    def write(self, root, *, files=2, drop=()):
        """As a recorder does: rows by their number, ``files`` files a node; ``drop`` some of them."""
        for node, rows in self.rows.items():
            size = -(-len(rows) // files)
            for part in range(files):
                chunk = rows[part * size : (part + 1) * size]
                if not chunk or (node, part) in drop:
                    continue
                first = chunk[0]["seq"] - (chunk[0]["count"] if chunk[0]["event"] == schema.GAP else 0)
                file = EventFile(root, node=node, creation=1, first=first, wall=chunk[0]["at"] / 1e6)
                file.add_table(columns_of(chunk))
                file.finish(closed=chunk[-1]["event"] == schema.CLOSED)
        return root


def columns_of(rows):
    """Rows, each with the columns that it has, as a table."""
    return table_of(
        {name: [row.get(name) for row in rows] for name in {name for row in rows for name in row}}
    )


def write_rows(root, node, rows, *, creation=1, closed=True, first=None):
    """One file of rows that are given as they are."""
    file = EventFile(
        root, node=node, creation=creation, first=first or rows[0]["seq"], wall=rows[0]["at"] / 1e6
    )
    file.add_table(columns_of(rows))
    return file.finish(closed=closed)
