"""What the cluster did to messages: routes that were wrong, splits and what they cost, sessions that moved.

Rules: 1. A forward is judged by the subscriptions that were valid at the node that received it, with the
same doubt around changes as in ``completeness``.  2. A split is one row per pair of nodes that lost each
other, from the first of them that noticed to the healing, or to the end of the recording.  3. What a split
cost is what was published on either side while it stood, by verdict.
"""

from __future__ import annotations

from typing import Any

import gossamer.audit.schema as schema
from gossamer.spark.completeness import Terms
from gossamer.spark.histories import FOREVER, MESSAGE_KEY, connections, each_message, subscriptions
from gossamer.spark.source import Recording
from gossamer.spark.topics import match
from gossamer.spark.traffic import within

__all__ = ["partitions", "routes", "sessions", "splits"]


def routes(recording: Recording, terms: Terms = Terms(), *, stale_within: int = 60_000_000) -> Any:  # noqa: B008
    """Forwards that went wrong: (fault, node, peer, topic, messages, first, last).

    ``missing``: a peer had a subscriber, and got nothing. ``unneeded``: it had none, and got it.
    ``stale``: it had none any more, since less than ``stale_within``, or the forward went to a node that
    this one knew to be down.
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
    places = _places(events)
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
        .select(
            "fault", f.col("origin").alias("node"), "peer", "topic", f.col("forwarded_at").alias("moment")
        )
    )
    moment = f.col("published_at")
    owed = (
        # One member of a share group gets it, wherever that is; completeness judges those.
        published.join(wanted.where(f.col("share").isNull()), "topic")
        .where(f.col("node") != f.col("origin"))
        .where((moment >= f.col("begin") + settle) & (moment < f.col("end") - settle))
        .select(*key, "topic", "published_at", f.col("node").alias("peer"))
        .distinct()
    )
    missing = owed.join(forwarded.select(*key, "peer"), [*key, "peer"], "left_anti").select(
        f.lit("missing").alias("fault"),
        f.col("origin").alias("node"),
        "peer",
        "topic",
        f.col("published_at").alias("moment"),
    )
    return (
        wrong.unionByName(missing)
        .groupBy("fault", "node", "peer", "topic")
        .agg(
            f.count("*").alias("messages"),
            f.timestamp_micros(f.min("moment")).alias("first"),
            f.timestamp_micros(f.max("moment")).alias("last"),
        )
    )


def _places(events: Any) -> Any:
    """(filter, share, node, begin, end): where subscribers are, as they come, go and move."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    held = subscriptions(events)
    stays = connections(events).select("client", "node", "persistent", "begin", "end")
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


def splits(recording: Recording) -> Any:
    """(one, other, begin, end, healed): pairs of nodes that lost each other and were both alive."""
    from pyspark.sql import functions as f

    events = recording.events
    found = events.where(f.col("event") == schema.PARTITION).select(
        f.least("recorder", "peer").alias("one"),
        f.greatest("recorder", "peer").alias("other"),
        f.col("t").alias("met"),
    )
    downs = _downs(events).select(
        f.least("at_node", "lost").alias("one"), f.greatest("at_node", "lost").alias("other"), "down"
    )
    healed = events.where(f.col("event") == schema.HEALED).select(f.col("t").alias("healed_at"))
    met = found.groupBy("one", "other", "met").agg(f.lit(1).alias("_")).drop("_")
    begun = (
        met.join(downs, ["one", "other"], "left")
        .groupBy("one", "other", "met")
        .agg(f.max(f.when(f.col("down") <= f.col("met"), f.col("down"))).alias("last_down"))
    )
    # Both report the split: the same loss, seen twice, some instants apart.
    pairs = (
        begun.withColumn("slot", f.floor(f.coalesce("last_down", "met") / 10_000_000))
        .groupBy("one", "other", "slot")
        .agg(f.min(f.coalesce("last_down", "met")).alias("begin"), f.max("met").alias("met"))
    )
    ends = (
        pairs.join(f.broadcast(healed.agg(f.collect_set("healed_at").alias("healings"))))
        .withColumn("end", f.expr("array_min(filter(healings, h -> h >= met))"))
        .drop("healings", "slot")
    )
    return ends.select(
        "one",
        "other",
        "begin",
        f.coalesce("end", f.lit(recording.last)).alias("end"),
        f.col("end").isNotNull().alias("healed"),
    )


def partitions(recording: Recording, judged: Any) -> Any:
    """What each split cost: (one, other, side, begin, end, minutes, clients, verdict, messages).

    ``judged`` is the table of ``completeness``. A side is the node at which the message was published.
    """
    from pyspark.sql import functions as f

    stood = splits(recording)
    sides = stood.select("*", f.explode(f.array("one", "other")).alias("side"))
    clients = _clients(sides, connections(recording.events))
    costs = (
        judged.select("origin", "published_at", "verdict")
        .join(f.broadcast(sides), f.col("origin") == f.col("side"))
        .where((f.col("published_at") >= f.col("begin")) & (f.col("published_at") < f.col("end")))
        .groupBy("one", "other", "side", "begin", "verdict")
        .agg(f.count("*").alias("messages"))
    )
    return (
        sides.join(clients, ["one", "other", "side", "begin"], "left")
        .join(costs, ["one", "other", "side", "begin"], "left")
        .select(
            "one",
            "other",
            "side",
            f.timestamp_micros("begin").alias("begin"),
            f.timestamp_micros("end").alias("end"),
            "healed",
            f.round((f.col("end") - f.col("begin")) / 60_000_000, 2).alias("minutes"),
            f.coalesce("clients", f.lit(0)).alias("clients"),
            "verdict",
            f.coalesce("messages", f.lit(0)).alias("messages"),
        )
    )


def _clients(sides: Any, stays: Any) -> Any:
    """How many clients were connected at a side while the split stood."""
    from pyspark.sql import functions as f

    stays = stays.select("client", "node", f.col("begin").alias("came"), f.col("end").alias("went"))
    return (
        stays.join(f.broadcast(sides), f.col("node") == f.col("side"))
        .where((f.col("came") < f.col("end")) & (f.col("went") > f.col("begin")))
        .groupBy("one", "other", "side", "begin")
        .agg(f.count_distinct("client").alias("clients"))
    )


def sessions(recording: Recording, *, flaps: int = 10) -> Any:
    """One row per client that moved, flapped or lost messages of its queue.

    (client, connects, worst_hour, flapping, takeovers, nodes, dropped, reasons); ``flapping``: ``flaps``
    connects or more within an hour.
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
        .agg(f.sum("count").alias("dropped"), f.sort_array(f.collect_set("reason")).alias("reasons"))
    )
    return (
        came.join(moved, "client", "full_outer")
        .join(dropped, "client", "full_outer")
        .fillna(0, ["connects", "worst_hour", "nodes", "takeovers", "dropped"])
        .withColumn("flapping", f.col("worst_hour") >= flaps)
        .where(f.col("flapping") | (f.col("takeovers") > 0) | (f.col("dropped") > 0))
    )
