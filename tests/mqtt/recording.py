"""What a broker tells of its messages, read back as rows: without a writer, files or a clock of its own."""

import asyncio
from collections import Counter

from gossamer.audit import KINDS, EventBuffer, FlowRecorder, schema
from gossamer.routes.topics import matches

__all__ = ["buffer_of", "each", "matching", "numbers_of", "record", "recorder_on", "take"]

NAMES = {number: name for name, number in KINDS.items()}
FIELDS = {event.name: event.columns for event in schema.EVENTS}


def recorder_on(
    buffer,
    fanout,
    node,
    *,
    creation=1,
    filters_of=lambda topic: ["#"],
    pseudonyms=False,
    sample=1.0,
    parents=None,
):
    """Have the broker of a fanout tell a buffer what it does."""
    recorder = FlowRecorder(
        buffer,
        node=node,
        creation=creation,
        fanout=fanout,
        key=b"k" * 16,
        pseudonyms=pseudonyms,
        filters_of=filters_of,
        soon=asyncio.get_running_loop().call_soon,
    )
    recorder.sample = sample
    recorder.parents = parents
    fanout.recorder = recorder
    return recorder


def matching(world):
    """The filters of a world with which a topic matches, by topic."""

    def of(topic):
        filters = getattr(world.router, "filters", {})
        return [name for name, held in filters.items() if held and matches(name, topic)]

    return of


def buffer_of(clock, limit=100_000):
    return EventBuffer(limit=limit, wall=clock.wall)


def take(buffer):
    """The rows since the last call, in order; one a client."""
    for number, kind, _, _, *values in buffer.take():
        name = NAMES[kind]
        row = {"seq": number, "event": name, "count": 1, **dict(zip(FIELDS[name], values, strict=True))}
        clients = row.get("client")
        for client in clients if isinstance(clients, tuple) else (clients,):
            yield {**row, "client": client}


def record(world, node="here", *, limit=100_000, **options):
    """Record what ``world`` does; a function that returns the rows since its last call."""
    buffer = buffer_of(world.clock, limit)
    recorder_on(buffer, world.broker.fanout, node, filters_of=matching(world), **options)
    return lambda *kinds: [row for row in take(buffer) if not kinds or row["event"] in kinds]


def numbers_of(row):
    """The numbers of the messages of a row."""
    return range(row["message"], row["message"] + row["count"])


def each(rows, *kinds):
    """How often each (event, origin, message, client or peer) is told."""
    told = Counter()
    for row in rows:
        if row["event"] in kinds:
            who = row["peer"] if row["event"] in ("forwarded", "received") else row["client"]
            told.update((row["event"], row["origin"], number, who) for number in numbers_of(row))
    return told
