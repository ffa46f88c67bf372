"""Completeness: was every published message delivered to everyone who was to get it, once and in time?

What *should* have happened is computed anew from the subscriptions that were valid at the moment, and not
from what the router says it did, so that a wrong route is found like a broken link. What did happen is what
nodes recorded when they wrote to their subscribers.

Verdicts, one per message and receiver (a client, or a share group as a whole):

=============  ==========================================================================================
delivered      once, within ``late_after`` of when it could be
late           once, but later than that
doubled        more than once
lost           never, though the subscription and the connection (or the session) stood; ``hop`` says where
queued         never yet: the client has not been back
misrouted      delivered to somebody who had no subscription that matches
undecidable    a recorder was not looking at the time: nothing can be said
=============  ==========================================================================================

Rules: 1. Whoever subscribes, unsubscribes, connects or leaves within ``settle`` of the publish may get the
message or not: if it came it is judged, if not it was not owed.  2. QoS 0 is owed to those who are
connected; higher ones also to persistent sessions.  3. A message acknowledged by a share group's member was
delivered to the group.  4. The verdict of a message that was lost, or that nobody seems to have published,
is undecidable where a hole of the recording may hide what became of it, or that somebody subscribed or
left (``_hidden``).  5. The numbers add up:
owed = delivered + late + doubled + lost + queued, and the undecidable beside them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gossamer.audit.schema as schema
from gossamer.spark.histories import MESSAGE_KEY, connections, each_message, receiver, subscriptions
from gossamer.spark.source import Recording
from gossamer.spark.topics import match

__all__ = ["VERDICTS", "Terms", "verdicts"]

DELIVERED, LATE, DOUBLED, LOST, QUEUED, MISROUTED, UNDECIDABLE = VERDICTS = (
    "delivered",
    "late",
    "doubled",
    "lost",
    "queued",
    "misrouted",
    "undecidable",
)

FROM_STORE = "retained"
"""Reason of a delivery that answers a subscription with what was stored, and no publish."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What counts as what; microseconds."""

    settle: int = 1_000_000
    late_after: int = 5_000_000


def verdicts(recording: Recording, terms: Terms = Terms()) -> Any:
    """One row per (message, receiver): origin, topic, publisher, times, verdict, hop."""
    from pyspark.sql import functions as f

    # After the span: what was published in it may arrive a little later. Before it: subscriptions only.
    events = recording.events.where(f.col("t") < recording.end + terms.late_after)
    within = f.col("t").between(recording.begin, recording.end - 1)
    published = _published(events.where(within))
    owed = _owed(published, events, recording, terms)
    came = _came(events.where(f.col("t") >= recording.begin))
    key = [*MESSAGE_KEY, "receiver"]
    both = owed.join(came, key, "full_outer")
    # Deliveries of messages from before the span are not this span's to judge.
    both = both.where(f.col("published_at").isNotNull() | f.col("copies").isNotNull())
    judged = _judge(both, terms)
    sound = judged.where(~f.col("verdict").isin(LOST, MISROUTED))
    doubtful = judged.where(f.col("verdict").isin(LOST, MISROUTED))
    explained = _explain(doubtful, events, recording, terms)
    return sound.unionByName(explained).drop("held_since")


def _published(events: Any) -> Any:
    from pyspark.sql import functions as f

    rows = events.where(f.col("event") == schema.PUBLISHED).select(
        "origin",
        "origin_creation",
        "message",
        "count",
        "size",
        "topic",
        "qos",
        f.col("client").alias("publisher"),
        f.col("t").alias("published_at"),
    )
    return each_message(rows).select(
        *MESSAGE_KEY, "origin", "topic", f.col("qos").alias("sent_qos"), "publisher", "published_at"
    )


def _owed(published: Any, events: Any, recording: Recording, terms: Terms) -> Any:
    """Who was to get each message: certainly, or perhaps."""
    from pyspark.sql import functions as f

    held = subscriptions(events).withColumn("receiver", receiver())
    pairs = match(published.select("topic").distinct(), held.select("filter").distinct())
    takers = pairs.join(held, "filter").where(
        (f.col("end") > recording.begin - terms.settle) & (f.col("begin") < recording.end + terms.settle)
    )
    at, settle = f.col("published_at"), terms.settle
    reached = (
        published.join(takers, "topic")
        .where((at >= f.col("begin") - settle) & (at < f.col("end") + settle))
        .where(~(f.col("no_local") & (f.col("publisher") == f.col("client"))))
        .withColumn("held", f.col("begin"))
        .withColumn("standing", (at >= f.col("begin") + settle) & (at < f.col("end") - settle))
        .drop("begin", "end", "no_local", "filter")
    )
    there = connections(events)
    first = there.groupBy("client").agg(
        f.collect_list(f.struct("begin", "end", "node", "persistent")).alias("stays")
    )
    met = reached.join(first, "client", "left")
    # Of the connections of the client: the one it had, the one it had before, the first one after.
    had = f.expr("get(filter(stays, s -> s.begin <= published_at AND published_at < s.end), 0)")
    earlier = f.expr(
        "array_max(transform(filter(stays, s -> s.begin <= published_at),"
        " s -> struct(s.begin, s.node, s.persistent)))"
    )
    later = f.expr("array_min(transform(filter(stays, s -> s.begin > published_at), s -> s.begin))")
    met = met.withColumn("had", had).withColumn("earlier", earlier).withColumn("later", later).drop("stays")
    online = f.col("had").isNotNull() & (at >= f.col("had.begin") + settle) & (at < f.col("had.end") - settle)
    kept = (f.least("sent_qos", "qos") > 0) & f.coalesce(f.col("earlier.persistent"), f.lit(False))
    # A connection that ends with a session that is not kept takes the message with it.
    certain = f.col("standing") & (f.coalesce(online, f.lit(False)) | kept)
    can = f.when(f.col("had").isNotNull(), at).otherwise(f.col("later"))
    stays_on = f.col("had").isNotNull() & (f.col("had.end") >= at + settle)
    return (
        met.withColumn("certain", certain)
        .withColumn("can", can)
        .withColumn("chance", f.coalesce(stays_on, f.lit(False)) | f.col("later").isNotNull())
        .groupBy(*MESSAGE_KEY, "receiver")
        .agg(
            f.first("origin").alias("origin"),
            f.first("topic").alias("topic"),
            f.first("publisher").alias("publisher"),
            f.first("published_at").alias("published_at"),
            f.max("certain").alias("certain"),
            f.max("chance").alias("chance"),
            f.min("held").alias("held_since"),
            f.min("can").alias("can"),
            # Where the client was; of a group, any of its members' nodes.
            f.max(f.when(f.col("certain"), f.coalesce("had.node", "earlier.node"))).alias("node"),
        )
    )


def _came(events: Any) -> Any:
    from pyspark.sql import functions as f

    rows = events.where(
        (f.col("event") == schema.DELIVERED) & f.coalesce(f.col("reason") != FROM_STORE, f.lit(True))
    ).withColumn("receiver", receiver())
    return (
        each_message(rows)
        .groupBy(*MESSAGE_KEY, "receiver")
        .agg(
            f.count("*").alias("copies"),
            f.min("t").alias("delivered_at"),
            f.first("recorder").alias("delivered_by"),
            f.first("origin").alias("came_from"),
        )
    )


def _judge(both: Any, terms: Terms) -> Any:
    from pyspark.sql import functions as f

    copies = f.coalesce("copies", f.lit(0))
    # A client that was away could have it from when it came back.
    due = f.greatest("published_at", f.coalesce("can", f.col("published_at"))) + terms.late_after
    verdict = (
        f.when(f.col("published_at").isNull(), MISROUTED)
        .when(copies > 1, DOUBLED)
        .when((copies == 1) & (f.col("delivered_at") > due), LATE)
        .when(copies == 1, DELIVERED)
        .when(~f.col("certain"), None)
        .when(~f.col("chance"), QUEUED)
        .otherwise(LOST)
    )
    return (
        both.withColumn("verdict", verdict)
        .where(f.col("verdict").isNotNull())
        .select(
            *MESSAGE_KEY,
            f.coalesce("origin", "came_from").alias("origin"),
            "topic",
            "publisher",
            "receiver",
            f.coalesce("delivered_by", "node").alias("node"),
            "published_at",
            "delivered_at",
            "can",
            "held_since",
            copies.alias("copies"),
            "verdict",
            f.lit(None).cast("string").alias("hop"),
        )
    )


def _explain(doubtful: Any, events: Any, recording: Recording, terms: Terms) -> Any:
    """Say where a message was lost, and take back what a hole in the recording may hide."""
    from pyspark.sql import functions as f

    wanted = doubtful.select(*MESSAGE_KEY).distinct()
    trail = each_message(
        events.where(f.col("event").isin(schema.FORWARDED, schema.RECEIVED, schema.DROPPED, schema.PUBLISHED))
    ).join(f.broadcast(wanted), list(MESSAGE_KEY), "left_semi")
    is_a = f.col("event")
    told = trail.groupBy(*MESSAGE_KEY).agg(
        f.max(is_a == schema.PUBLISHED).alias("known"),
        f.collect_set(f.when(is_a == schema.FORWARDED, f.col("peer"))).alias("sent_to"),
        f.collect_set(f.when(is_a == schema.RECEIVED, f.col("recorder"))).alias("got_at"),
        f.collect_set(f.when(is_a == schema.DROPPED, f.struct("client", "peer", "recorder", "reason"))).alias(
            "drops"
        ),
        f.first(f.when(is_a == schema.PUBLISHED, f.col("topic")), ignorenulls=True).alias("true_topic"),
        f.first(f.when(is_a == schema.PUBLISHED, f.col("t")), ignorenulls=True).alias("true_time"),
    )
    row = doubtful.join(told, list(MESSAGE_KEY), "left")
    why = f.expr(
        "get(filter(drops, d -> d.client = receiver OR (d.client IS NULL AND d.peer = node)"
        " OR (d.client IS NULL AND d.peer IS NULL)), 0)"
    )
    here = f.col("node") == f.col("origin")
    hop = (
        f.when(f.col("verdict") == MISROUTED, f.concat("node", f.lit(": not subscribed")))
        .when(why.isNotNull(), f.concat(why["recorder"], f.lit(": dropped, "), why["reason"]))
        .when(here, f.concat("origin", f.lit(": not delivered")))
        .when(
            ~f.array_contains("sent_to", f.col("node")),
            f.concat("origin", f.lit(" to "), "node", f.lit(": not forwarded")),
        )
        .when(
            ~f.array_contains("got_at", f.col("node")),
            f.concat("origin", f.lit(" to "), "node", f.lit(": lost on the link")),
        )
        .otherwise(f.concat("node", f.lit(": not delivered")))
    )
    row = row.withColumn("hop", hop)
    # A message whose publish lies outside the span, though known: not this span's to judge.
    row = row.where(
        (f.col("verdict") != MISROUTED)
        | f.col("known").isNull()
        | ~f.col("known")
        | f.col("true_time").between(recording.begin, recording.end - 1)
    )
    unknown = (f.col("verdict") == MISROUTED) & ~f.coalesce(f.col("known"), f.lit(False))
    row = row.withColumn("moment", f.coalesce("published_at", "true_time", "delivered_at"))
    until = f.greatest("moment", f.coalesce("can", f.col("moment"))) + terms.late_after
    hidden = _hidden(recording, terms, until)
    row = _with_stay(row, events)
    fresh = (f.col("verdict") == LOST) & (
        f.greatest("published_at", f.coalesce("can", f.col("published_at"))) + terms.late_after
        > recording.last
    )
    final = (
        f.when(unknown, UNDECIDABLE)
        .when(hidden, UNDECIDABLE)
        .when(fresh, UNDECIDABLE)
        .otherwise(f.col("verdict"))
    )
    because = (
        f.when(unknown, f.lit("its publish was not recorded"))
        .when(hidden, f.lit("the recording has a hole there"))
        .when(fresh, f.lit("the recording ends too soon after it"))
        .otherwise(f.col("hop"))
    )
    return (
        row.withColumn("verdict", final)
        .withColumn("hop", because)
        .withColumn("topic", f.coalesce("topic", "true_topic"))
        .withColumn("published_at", f.coalesce("published_at", "true_time"))
        .select(*doubtful.columns)
    )


def _with_stay(row: Any, events: Any) -> Any:
    """Adds ``stay``: the last connection of the receiver that began before the moment."""
    from pyspark.sql import functions as f

    came = (
        connections(events)
        .groupBy(f.col("client").alias("receiver"))
        .agg(f.collect_list(f.struct("begin", "end", "node", "persistent")).alias("stays"))
    )
    last = f.expr("array_max(filter(stays, s -> s.begin <= moment))")
    return row.join(came, "receiver", "left").withColumn("stay", last).drop("stays")


def _hidden(recording: Recording, terms: Terms, until: Any) -> Any:
    """Whether a hole may hide what would change the verdict.

    At the origin, that it was dropped or forwarded. Where the receiver was: the delivery, and any change of
    its subscriptions since it came. Anywhere, while it was not known to be somewhere else: that it came
    there, and what it did. So a client that is connected at a node whose recording is whole is judged
    whatever is missing of others.
    """
    from pyspark.sql import functions as f

    holes = json.dumps([{"node": h.node, "begin": h.begin, "end": h.end} for h in recording.holes])
    every = f.from_json(f.lit(holes), "array<struct<node: string, begin: bigint, end: bigint>>")
    moment, stay = f.col("moment"), f.col("stay")
    known_from = f.coalesce("held_since", f.lit(0))
    came, kept = f.coalesce(stay["begin"], f.lit(0)), f.coalesce(stay["persistent"], f.lit(True))
    # What a session keeps may have been changed wherever the client was before.
    before = f.when(kept, f.least(known_from, came)).otherwise(came)
    away = stay.isNull() | (stay["end"] <= moment)

    def met(hole: Any, begin: Any, end: Any) -> Any:
        return (hole["begin"] <= end) & (hole["end"] >= begin)

    return f.coalesce(
        f.exists(
            every,
            lambda hole: (
                ((hole["node"] == f.col("origin")) & met(hole, moment - terms.settle, until))
                | ((hole["node"] == f.coalesce(stay["node"], f.col("node"))) & met(hole, before, until))
                | (kept & met(hole, before, came))
                | (away & met(hole, before, until))
            ),
        ),
        f.lit(False),
    )
