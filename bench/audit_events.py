"""Recordings of any size with known faults, for the benchmarks of the audit jobs.

    python bench/audit_events.py OUT [--events 10000000] [--seed 1]

A cluster of three nodes at 400 messages a second, whatever the size: a larger recording is a longer one.
Topics are ``site/{0..49}/dev/{0..49}/{temp,state}``, some far busier than others (Zipf, 1.1); 4,500 clients
subscribe to one topic each, 75 to many by a wildcard; every tenth of them comes and goes. Two in five
messages are QoS 1. Some deliveries are left out, doubled or late, and how many is returned. Everything is
made by numpy in columns, some seconds a million events.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gossamer.audit.schema as schema
from gossamer.audit.files import arrow_schema, partition_of

__all__ = ["generate"]

NODES = ("node1@10.0.0.1", "node2@10.0.0.2", "node3@10.0.0.3")
SITES, DEVICES, KINDS = 50, 50, ("temp", "state")
PUBLISHERS, PLAIN, WIDE = 1000, 4500, 75
RATE = 400
START = 1_767_225_600_000_000
SECOND = 1_000_000
AWAY = 20 * SECOND
EDGE = 3 * SECOND
CHUNK = 200_000
"""Messages made at once: bounds memory."""
PER_MESSAGE = 7.15
"""Events a message makes, on the average."""
FAULTS = 40e-6

TOPICS = [
    f"site/{site}/dev/{device}/{kind}" for site in range(SITES) for device in range(DEVICES) for kind in KINDS
]
CLIENTS = [f"pub-{i}" for i in range(PUBLISHERS)] + [f"sub-{i}" for i in range(PLAIN + WIDE)]
EVENTS = [event.name for event in schema.EVENTS]
ROLES = ["publisher", "subscriber"]

_DRAWN = ("kind", "at", "origin", "message", "topic", "client", "peer", "qos", "size", "role", "filter")


class World:
    """Who subscribes to what, and when they are there."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.filters = list(TOPICS)
        taken = [[] for _ in TOPICS]  # type: list[list[int]]
        self.filter_of = np.zeros(PLAIN + WIDE, dtype=np.int64)
        for client, topic in enumerate(rng.integers(len(TOPICS), size=PLAIN)):
            taken[topic].append(client)
            self.filter_of[client] = topic
        for client in range(PLAIN, PLAIN + WIDE):
            site, kind = int(rng.integers(SITES)), int(rng.integers(len(KINDS)))
            deep = client % 3 == 0
            self.filter_of[client] = len(self.filters)
            self.filters.append(f"site/{site}/#" if deep else f"site/{site}/dev/+/{KINDS[kind]}")
            for device in range(DEVICES):
                for k in range(len(KINDS)) if deep else (kind,):
                    taken[(site * DEVICES + device) * len(KINDS) + k].append(client)
        self.takers = np.array([c for clients in taken for c in clients], dtype=np.int64)
        self.width = np.array([len(clients) for clients in taken], dtype=np.int64)
        self.first = np.cumsum(self.width) - self.width
        weight = 1.0 / np.arange(1, len(TOPICS) + 1) ** 1.1
        self.share = rng.permutation(weight / weight.sum())
        count = PLAIN + WIDE
        self.flaky = np.arange(count) % 10 == 0
        self.period = rng.integers(600, 1800, size=count) * SECOND
        self.phase = rng.integers(AWAY, 600 * SECOND, size=count)

    def node_of(self, client: Any) -> Any:
        return client % len(NODES)

    def since_leaving(self, client: Any, at: Any) -> Any:
        """Microseconds since a flaky client last went, over and over."""
        return (at - START + self.phase[client]) % self.period[client]

    def away(self, client: Any, at: Any) -> Any:
        return self.flaky[client] & (self.since_leaving(client, at) < AWAY + SECOND // 20)

    def doubtful(self, client: Any, at: Any) -> Any:
        since = self.since_leaving(client, at)
        near = (since < AWAY + EDGE) | (since > self.period[client] - EDGE)
        return self.flaky[client] & near


def _rows(kind: str, at: Any, **columns: Any) -> dict[str, Any]:
    size = len(at)
    rows = {name: np.full(size, -1, dtype=np.int64) for name in _DRAWN}
    rows["kind"][:] = EVENTS.index(kind)
    rows["at"] = at
    for name, values in columns.items():
        rows[name] = np.broadcast_to(values, size).astype(np.int64)
    return rows


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.concatenate([part[name] for part in parts]) for name in _DRAWN}


class NodeFiles:
    """What one node's recorder would write."""

    def __init__(self, root: Path, node: int) -> None:
        self._root, self._node, self._seq = root, node, 0
        self._schema = arrow_schema()

    def write(self, rows: dict[str, Any], filters: list[str], *, closed: bool = False) -> None:
        order = np.argsort(rows["at"], kind="stable")
        rows = {name: values[order] for name, values in rows.items()}
        count, first = len(order), self._seq + 1
        self._seq += count
        names, at = NODES[self._node], rows["at"]

        def text(of: list[str], index: Any) -> Any:
            return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), pa.array(of)).cast(
                pa.string()
            )

        routed = rows["filter"] >= 0
        listed = (rows["kind"] == EVENTS.index(schema.ROUTED)) & routed
        known: dict[str, Any] = {
            "seq": pa.array(np.arange(first, first + count)),
            "event": text(EVENTS, rows["kind"]),
            "hlc": pa.array((at // 1000) << 16),
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
            "offset_us": pa.array(np.zeros(count, dtype=np.int64)),
            "recorder": text([names], np.zeros(count, dtype=np.int64)),
            "creation": pa.array(np.ones(count, dtype=np.int64)),
            "origin": text(list(NODES), rows["origin"]),
            "origin_creation": pa.array(np.ones(count, dtype=np.int64), mask=rows["origin"] < 0),
            "message": pa.array(rows["message"], mask=rows["message"] < 0),
            "count": pa.array(np.ones(count, dtype=np.int32)),
            "topic": text(TOPICS, rows["topic"]),
            "qos": pa.array(rows["qos"].astype(np.int8), mask=rows["qos"] < 0),
            "size": pa.array(rows["size"], mask=rows["size"] < 0),
            "client": text(CLIENTS, rows["client"]),
            "peer": text(list(NODES), rows["peer"]),
            "filter": text(filters, np.where(listed, -1, rows["filter"])),
            "filters": pa.ListArray.from_arrays(
                pa.array(np.concatenate([[0], np.cumsum(listed)]).astype(np.int32)),
                text(filters, rows["filter"][listed]),
                mask=pa.array(~listed),
            ),
            "role": text(ROLES, rows["role"]),
            "persistent": pa.array(np.zeros(count, dtype=bool)),
            "present": pa.array(np.zeros(count, dtype=bool)),
        }
        table = pa.Table.from_arrays(
            [known.get(f.name, pa.nulls(count, f.type)) for f in self._schema], schema=self._schema
        )
        directory = partition_of(self._root, wall=float(at[0]) / 1e6, node=names)
        directory.mkdir(parents=True, exist_ok=True)
        footer = {
            schema.METADATA_KEY: schema.VERSION,
            "gossamer.audit.node": names,
            "gossamer.audit.creation": "1",
            "gossamer.audit.first": str(first),
            "gossamer.audit.last": str(self._seq),
            "gossamer.audit.begin": str(at.min()),
            "gossamer.audit.end": str(at.max()),
            "gossamer.audit.offset": "0",
            "gossamer.audit.gaps": json.dumps([]),
            "gossamer.audit.closed": "true" if closed else "false",
        }
        pq.write_table(
            table.replace_schema_metadata(footer),
            directory / f"1-{first:016d}.parquet",
            compression="zstd",
            row_group_size=250_000,
        )


def generate(root: Path, events: int, *, seed: int = 1) -> Counter[str]:
    """About ``events`` events below ``root``; how many deliveries are of which verdict."""
    rng = np.random.default_rng(seed)
    world = World(rng)
    files = [NodeFiles(root, node) for node in range(len(NODES))]
    truth: Counter[str] = Counter()
    total = max(1000, int(events / PER_MESSAGE))
    span = total * SECOND // RATE
    numbers = np.zeros(len(NODES), dtype=np.int64)
    begin = START + 10 * SECOND
    sessions = _sessions(world, START + span + 40 * SECOND)
    done = 0
    while done < total:
        count = min(CHUNK, total - done)
        end = begin + count * SECOND // RATE
        at = np.sort(rng.integers(begin, end, size=count))
        made = _messages(world, rng, at, numbers, truth, last=START + span)
        done += count
        part = {name: values[sessions["at"] < end] for name, values in sessions.items()}
        sessions = {name: values[sessions["at"] >= end] for name, values in sessions.items()}
        everything = _joined([made, part])
        where = _recorders(world, everything)
        everything["size"][everything["kind"] == EVENTS.index(schema.RECEIVED)] = -1
        for node in range(len(NODES)):
            here = {name: values[where == node] for name, values in everything.items()}
            if done == total:
                # A quiet half minute before it closes, so that the last messages can be judged.
                here = _joined([here, _rows(schema.CLOSED, np.array([end + 30 * SECOND]))])
            files[node].write(here, world.filters, closed=done == total)
        begin = end
    return truth


def _recorders(world: World, rows: dict[str, Any]) -> Any:
    """The node that wrote each row: where its client is, or where its message came to or from."""
    kind, client = rows["kind"], rows["client"]
    subscriber = np.maximum(client - PUBLISHERS, 0)
    at_origin = np.isin(
        kind, [EVENTS.index(k) for k in (schema.PUBLISHED, schema.ROUTED, schema.FORWARDED)]
    ) | ((kind == EVENTS.index(schema.ACKNOWLEDGED)) & (rows["role"] == 0))
    received = kind == EVENTS.index(schema.RECEIVED)
    return np.where(at_origin, rows["origin"], np.where(received, rows["size"], world.node_of(subscriber)))


def _sessions(world: World, end: int) -> dict[str, Any]:
    """Everybody comes at the start; the flaky ones go and come again, and have to subscribe anew."""
    everybody = np.arange(PLAIN + WIDE)
    parts = []

    def come(client: Any, at: Any) -> None:
        parts.append(_rows(schema.CONNECTED, at, client=client + PUBLISHERS))
        parts.append(
            _rows(
                schema.SUBSCRIBED,
                at + SECOND // 100,
                client=client + PUBLISHERS,
                filter=world.filter_of[client],
                qos=1,
            )
        )

    come(everybody, np.full(len(everybody), START + SECOND))
    flaky = everybody[world.flaky]
    gone = START - world.phase[flaky] + world.period[flaky]
    while len(flaky):
        there = gone + AWAY < end
        flaky, gone = flaky[there], gone[there]
        parts.append(_rows(schema.DISCONNECTED, gone, client=flaky + PUBLISHERS))
        come(flaky, gone + AWAY)
        gone = gone + world.period[flaky]
    return _joined(parts)


def _messages(
    world: World, rng: np.random.Generator, at: Any, numbers: Any, truth: Counter[str], *, last: int
) -> dict[str, Any]:
    count = len(at)
    publisher = rng.integers(PUBLISHERS, size=count)
    origin = world.node_of(publisher)
    topic = rng.choice(len(TOPICS), size=count, p=world.share)
    qos = (rng.random(count) < 0.4).astype(np.int64)
    message = np.zeros(count, dtype=np.int64)
    for node in range(len(NODES)):
        own = origin == node
        message[own] = numbers[node] + 1 + np.arange(own.sum())
        numbers[node] += own.sum()
    name = {"origin": origin, "message": message}
    parts = [
        _rows(
            schema.PUBLISHED, at, **name, topic=topic, qos=qos, client=publisher, size=rng.integers(20, 400)
        ),
        _rows(schema.ROUTED, at + 20, **name, topic=topic, filter=topic),
    ]
    # One row per message and subscriber.
    width = world.width[topic]
    of = np.repeat(np.arange(count), width)
    place = np.arange(len(of)) - np.repeat(np.cumsum(width) - width, width)
    taker = world.takers[world.first[topic[of]] + place]
    sure = ~world.doubtful(taker, at[of]) & (at[of] < last)
    there = ~world.away(taker, at[of])
    node = world.node_of(taker)
    remote = node != origin[of]
    links = np.unique((of * len(NODES) + node)[remote & there])
    sent, peer = links // len(NODES), links % len(NODES)
    way = {"origin": origin[sent], "message": message[sent]}
    parts.append(_rows(schema.FORWARDED, at[sent] + 60, **way, peer=peer))
    # ``size`` of these tells who received; it is taken away where rows are written.
    parts.append(
        _rows(schema.RECEIVED, at[sent] + 500, **way, topic=topic[sent], peer=origin[sent], size=peer)
    )
    fault = np.where(sure, rng.random(len(of)) / FAULTS, 9).astype(np.int64)
    truth["lost"] += int((there & (fault == 0)).sum())
    came = there & (fault != 0) | (there & ~sure)
    late, doubled = came & sure & (fault == 1), came & sure & (fault == 2)
    truth["late"] += int(late.sum())
    truth["doubled"] += int(doubled.sum())
    truth["delivered"] += int(came.sum() - late.sum() - doubled.sum())
    when = at[of] + 200 + rng.integers(900, size=len(of)) + 400 * remote + 20 * SECOND * late
    for chosen, after in ((came, 0), (doubled, 1000)):
        index = of[chosen]
        parts.append(
            _rows(
                schema.DELIVERED,
                when[chosen] + after,
                origin=origin[index],
                message=message[index],
                client=taker[chosen] + PUBLISHERS,
                qos=qos[index],
                size=100,
            )
        )
    acked = came & (qos[of] == 1)
    parts.append(
        _rows(
            schema.ACKNOWLEDGED,
            when[acked] + 1500,
            origin=origin[of[acked]],
            message=message[of[acked]],
            client=taker[acked] + PUBLISHERS,
            role=1,
        )
    )
    own = qos == 1
    parts.append(
        _rows(
            schema.ACKNOWLEDGED,
            at[own] + 2000,
            origin=origin[own],
            message=message[own],
            client=publisher[own],
            role=0,
        )
    )
    return _joined(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps(generate(options.out, options.events, seed=options.seed)))
