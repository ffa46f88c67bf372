"""What the cluster did to messages: routes that were wrong, splits and what they cost, sessions that moved.

Rules: 1. A forward is judged by the subscriptions that were valid at the node that received it, with the
same doubt around changes as in ``completeness``, and not where a hole may hide what made it right.  2. What a
split (``splits``) cost is what was published on either side while it stood, by verdict, and what its clients
missed.
"""

from __future__ import annotations

from typing import Any

import gossamer.audit.schema as schema
from gossamer.spark.completeness import VERDICTS, Terms
from gossamer.spark.histories import (
    FOREVER,
    MESSAGE_KEY,
    connections,
    each_message,
    of_sessions,
    subscriptions,
)
from gossamer.spark.holes import in_hole
from gossamer.spark.source import Recording
from gossamer.spark.splits import Change, Split, splits_of
from gossamer.spark.topics import match
from gossamer.spark.traffic import within

__all__ = ["OVERFLOWS", "partitions", "routes", "sessions", "splits"]

OVERFLOWS = ("queue_full", "node_queue_full", "slow_consumer", "slow_consumer_closed")
"""Reasons of drops that say: faster in than out."""


def routes(recording: Recording, terms: Terms = Terms(), *, stale_within: int = 60_000_000) -> Any:  # noqa: B008
    """Forwards that went wrong: (fault, node, peer, topic, messages, first, last).

    ``missing``: a peer had a subscriber, and got nothing. ``unneeded``: it had none, and got it.
    ``stale``: it had none any more, since less than ``stale_within``, or the forward went to a node that
    this one knew to be down. ``undecidable``: it seems wrong, but a recorder was not looking.
    """
    from pyspark.sql import functions as f

    events = recording.events.where(f.col("t") < recording.end)
    span = within(recording)
    key = list(MESSAGE_KEY)
    published = each_message(span.where(f.col("event") == schema.PUBLISHED)).select(
        *key, "topic", f.col("t").alias("published_at")
    )
    forwarded = each_message(span.where(f.col("event") == schema.FORWARDED)).select(
        *key, "peer", f.col("t").alias("forwarded_at")
    )
    places = _places(of_sessions(recording, until=recording.end))
    pairs = match(published.select("topic").distinct(), places.select("filter").distinct())
    wanted = pairs.join(places, "filter").select("topic", "node", "share", "begin", "end")
    sent = forwarded.join(published, key)
    settle = terms.settle
    at = f.col("forwarded_at")
    near = (
        sent.join(wanted, (sent.topic == wanted.topic) & (sent.peer == wanted.node), "left")
        .select(sent["*"], wanted.begin, wanted.end)
        .groupBy(*key, "peer", "topic", "forwarded_at")
        .agg(
            f.max((at >= f.col("begin") - settle) & (at < f.col("end") + settle)).alias("valid"),
            f.max(f.when(f.col("end") <= at, f.col("end"))).alias("ended"),
        )
    )
    downs = _downs(events)
    wrong = (
        near.join(f.broadcast(downs), (near.origin == downs.at_node) & (near.peer == downs.lost), "left")
        .groupBy(*key, near.peer, "topic", "forwarded_at", "valid", "ended")
        .agg(f.max((at >= f.col("down") + settle) & (at < f.col("up"))).alias("gone"))
        .withColumn(
            "fault",
            f.when(f.col("gone"), "stale")
            .when(f.coalesce("valid", f.lit(False)), None)
            .when(at - f.col("ended") < stale_within, "stale")
            .otherwise("unneeded"),
        )
        .where(f.col("fault").isNotNull())
        # Anybody may have subscribed there, or come there with a subscription, in any hole before.
        .withColumn("since", f.lit(0).cast("bigint"))
        .select("fault", "origin", "peer", "topic", f.col("forwarded_at").alias("moment"), "since")
    )
    moment = f.col("published_at")
    owed = (
        # One member of a share group gets it, wherever that is; completeness judges those.
        published.join(wanted.where(f.col("share").isNull()), "topic")
        .where(f.col("node") != f.col("origin"))
        .where((moment >= f.col("begin") + settle) & (moment < f.col("end") - settle))
        .groupBy(*key, "topic", "published_at", f.col("node").alias("peer"))
        .agg(f.min("begin").alias("since"))
    )
    missing = owed.join(forwarded.select(*key, "peer"), [*key, "peer"], "left_anti").select(
        f.lit("missing").alias("fault"),
        "origin",
        "peer",
        "topic",
        f.col("published_at").alias("moment"),
        "since",
    )
    until = f.col("moment") + terms.late_after
    hidden = in_hole(
        recording.holes,
        lambda node, begin, end: (
            ((node == f.col("origin")) & (begin <= until) & (end >= f.col("moment") - settle))
            | (
                ((node == f.col("peer")) | (f.col("fault") == "unneeded"))
                & (begin <= until)
                & (end >= f.col("since"))
            )
        ),
    )
    return (
        wrong.unionByName(missing)
        .withColumn("fault", f.when(hidden, "undecidable").otherwise(f.col("fault")))
        .groupBy("fault", f.col("origin").alias("node"), "peer", "topic")
        .agg(
            f.count("*").alias("messages"),
            f.timestamp_micros(f.min("moment")).alias("first"),
            f.timestamp_micros(f.max("moment")).alias("last"),
        )
    )


def _places(few: Any) -> Any:
    """(filter, share, node, begin, end): where subscribers are, as they come, go and move."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    held = subscriptions(few)
    stays = connections(few).select("client", "node", "persistent", "begin", "end")
    # A session that is kept has its routes at the node it was last at, until it is somewhere else.
    after = Window.partitionBy("client").orderBy("begin")
    moved = f.coalesce(f.lead("begin").over(after), f.lit(FOREVER))
    homes = stays.withColumn("until", f.when(f.col("persistent"), moved).otherwise(f.col("end"))).select(
        "client", "node", f.col("begin").alias("came"), "until"
    )
    return (
        held.join(homes, "client")
        .withColumn("begin", f.greatest("begin", "came"))
        .withColumn("end", f.least("end", "until"))
        .where(f.col("begin") < f.col("end"))
        .select("filter", "share", "node", "begin", "end")
    )


def _downs(events: Any) -> Any:
    """(at_node, lost, down, up): when a node held another for gone."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    changes = events.where(f.col("event").isin(schema.NODE_DOWN, schema.NODE_UP))
    order = Window.partitionBy("recorder", "peer").orderBy("t", "hlc")
    return (
        changes.withColumn("up", f.coalesce(f.lead("t").over(order), f.lit(FOREVER)))
        .where(f.col("event") == schema.NODE_DOWN)
        .select(
            f.col("recorder").alias("at_node"), f.col("peer").alias("lost"), f.col("t").alias("down"), "up"
        )
    )


def splits(recording: Recording) -> list[Split]:
    """The splits that were found, or stood, in the span."""
    from pyspark.sql import functions as f

    kinds = (schema.NODE_DOWN, schema.NODE_UP, schema.PARTITION, schema.HEALED)
    rows = recording.events.where(f.col("event").isin(*kinds)).select("t", "event", "recorder", "peer")
    found = splits_of((Change(*row) for row in rows.collect()), last=recording.last)
    return [split for split in found if split.begin < recording.end and split.end > recording.begin]


_SIDE = (
    "split int, sides string, side string, node string, begin bigint, end bigint, met boolean, healed boolean"
)


def partitions(recording: Recording, judged: Any) -> Any:
    """What each split cost, a row per side, with deliveries by verdict.

    (split, sides, side, begin, end, minutes, met, healed, clients, messages, delivered, late, …, missed):
    ``messages`` were published at the side while the split stood, and the verdicts are of these; ``missed``
    are deliveries lost that were for clients of the side. ``judged`` is the table of ``completeness``.
    """
    from pyspark.sql import functions as f

    rows = [
        (number, " | ".join(map(", ".join, split.sides)), ", ".join(side), node, *_of(split))
        for number, split in enumerate(splits(recording), 1)
        for side in split.sides
        for node in side
    ]
    nodes = recording.events.sparkSession.createDataFrame(rows, _SIDE)
    few = of_sessions(recording, until=recording.end)
    key = ["split", "side"]
    stood = (f.col("at") >= f.col("begin")) & (f.col("at") < f.col("end"))
    places = f.broadcast(nodes.select(*key, "node", "begin", "end"))
    sent = (
        within(recording)
        .where(f.col("event") == schema.PUBLISHED)
        .select(f.col("recorder").alias("node"), f.col("t").alias("at"), "count")
        .join(places, "node")
        .where(stood)
        .groupBy(*key)
        .agg(f.sum("count").alias("messages"))
    )
    fates = judged.select(
        f.col("origin"), f.col("node").alias("was_at"), f.col("published_at").alias("at"), "verdict"
    )
    kinds = [f.count(f.when(f.col("verdict") == verdict, 1)).alias(verdict) for verdict in VERDICTS]
    from_here = fates.join(places, fates.origin == f.col("node")).where(stood).groupBy(*key).agg(*kinds)
    for_here = (
        fates.where(f.col("verdict") == "lost")
        .join(places, f.col("was_at") == f.col("node"))
        .where(stood)
        .groupBy(*key)
        .agg(f.count("*").alias("missed"))
    )
    stays = connections(few).select(
        "client", "node", f.col("begin").alias("came"), f.col("end").alias("went")
    )
    clients = (
        stays.join(places, "node")
        .where((f.col("came") < f.col("end")) & (f.col("went") > f.col("begin")))
        .groupBy(*key)
        .agg(f.count_distinct("client").alias("clients"))
    )
    numbers = ["clients", "messages", *VERDICTS, "missed"]
    table = nodes.drop("node").distinct()
    for part in (clients, sent, from_here, for_here):
        table = table.join(part, key, "left")
    return table.fillna(0, numbers).select(
        "split",
        "sides",
        "side",
        f.timestamp_micros("begin").alias("begin"),
        f.timestamp_micros("end").alias("end"),
        f.round((f.col("end") - f.col("begin")) / 60_000_000, 2).alias("minutes"),
        "met",
        "healed",
        *numbers,
    )


def _of(split: Split) -> tuple[int, int, bool, bool]:
    return split.begin, split.end, split.met, split.healed


def sessions(recording: Recording, *, flaps: int = 10) -> Any:
    """One row per client that moved, flapped or lost messages of its queue.

    (client, connects, worst_hour, flapping, takeovers, nodes, dropped, overflows, reasons); ``flapping``:
    ``flaps`` connects or more within an hour; ``overflows``: of the dropped, those its full queue cost it.
    """
    from pyspark.sql import functions as f

    events = within(recording)
    hour = f.floor(f.col("t") / 3_600_000_000)
    came = (
        events.where(f.col("event") == schema.CONNECTED)
        .groupBy("client", hour.alias("hour"))
        .agg(f.count("*").alias("n"), f.collect_set("recorder").alias("at"))
        .groupBy("client")
        .agg(
            f.sum("n").alias("connects"),
            f.max("n").alias("worst_hour"),
            f.size(f.array_distinct(f.flatten(f.collect_list("at")))).alias("nodes"),
        )
    )
    moved = (
        events.where(f.col("event") == schema.TAKEN_OVER)
        .groupBy("client")
        .agg(f.count("*").alias("takeovers"))
    )
    dropped = (
        events.where((f.col("event") == schema.DROPPED) & f.col("client").isNotNull())
        .groupBy("client")
        .agg(
            f.sum("count").alias("dropped"),
            f.sum(f.when(f.col("reason").isin(*OVERFLOWS), f.col("count"))).alias("overflows"),
            f.sort_array(f.collect_set("reason")).alias("reasons"),
        )
    )
    return (
        came.join(moved, "client", "full_outer")
        .join(dropped, "client", "full_outer")
        .fillna(0, ["connects", "worst_hour", "nodes", "takeovers", "dropped", "overflows"])
        .withColumn("flapping", f.col("worst_hour") >= flaps)
        .where(f.col("flapping") | (f.col("takeovers") > 0) | (f.col("dropped") > 0))
    )
