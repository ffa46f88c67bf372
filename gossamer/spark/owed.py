"""Who was to get each message: certainly, or perhaps.

Every subscription is cut by what its client lived through (``histories.stretches``) and by the clock into
slots, so that a message meets its takers by equality of topic and slot and keeps those whose span holds it.

Rules: 1. Slots bound what a message is compared with: a client that comes and goes a hundred times a day is
met in the stretches of the quarter of an hour, and twice the time is twice the work.  2. A topic with most
of the messages would be one task's: its messages are spread over as many salts as they fill, and its takers
stand under each.  3. Nothing is multiplied with everything: all joins are on equality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gossamer.audit.schema as schema
from gossamer.spark.histories import FOREVER, MESSAGE_KEY, each_message, receiver, stretches, subscriptions
from gossamer.spark.topics import match

if TYPE_CHECKING:
    from gossamer.spark.completeness import Terms
    from gossamer.spark.source import Recording

__all__ = ["SALTED_FROM", "SLOT", "hot_topics", "owed", "published", "salted"]

SLOT = 15 * 60 * 1_000_000
"""Microseconds."""
SALTED_FROM = 100_000
"""Messages of one topic in one slot that one task may do by itself."""
_MOST_SALTS = 1024


def published(events: Any) -> Any:
    """(message, origin, origin_creation, topic, sent_qos, publisher, published_at), a row per message."""
    from pyspark.sql import functions as f

    rows = events.where(f.col("event") == schema.PUBLISHED).select(
        "origin",
        "origin_creation",
        "message",
        "count",
        "topic",
        f.col("qos").alias("sent_qos"),
        f.col("client").alias("publisher"),
        f.col("t").alias("published_at"),
    )
    return each_message(rows).drop("count")


def hot_topics(busy: Any, salted_from: int) -> Any:
    """(topic, slot, salts) of those whose messages (``n``) are more than one task's work."""
    from pyspark.sql import functions as f

    salts = f.least(f.ceil(f.col("n") / salted_from), f.lit(_MOST_SALTS)).cast("int")
    return busy.where(f.col("n") > salted_from).select("topic", "slot", salts.alias("salts"))


def salted(messages: Any, hot: Any) -> Any:
    """``messages`` with ``salt``: by its number, which of its topic's salts each is of; 0 if it has none."""
    from pyspark.sql import functions as f

    # Few by arithmetic: a hundredth of a thousandth of all messages at most.
    return messages.join(f.broadcast(hot), ["topic", "slot"], "left").withColumn(
        "salt", f.coalesce(f.pmod("message", "salts"), f.lit(0)).cast("int")
    )


def owed(
    messages: Any, few: Any, recording: Recording, terms: Terms, *, salted_from: int = SALTED_FROM
) -> Any:
    """A row per message, receiver and filter by which it takes it; see ``completeness`` for the columns."""
    from pyspark.sql import functions as f

    messages = messages.withColumn("slot", _slot(f.col("published_at")))
    busy = messages.groupBy("topic", "slot").agg(f.count("*").alias("n"))
    hot = hot_topics(busy, salted_from)
    takers = _takers(few, recording, terms)
    pairs = match(busy.select("topic").distinct(), takers.select("filter").distinct())
    met = (
        busy.select("topic", "slot")
        .join(pairs, "topic")
        .join(takers, ["filter", "slot"])
        .join(f.broadcast(hot), ["topic", "slot"], "left")
        .withColumn("salt", f.explode(f.sequence(f.lit(0), f.coalesce("salts", f.lit(1)) - 1)))
        .drop("salts", "filter")
    )
    at = f.col("published_at")
    online = (at >= f.col("sure_from")) & (at < f.col("sure_to"))
    # QoS 0 is for those who are there; the rest waits in a session that is kept.
    kept = (at >= f.col("kept_from")) & (at < f.col("kept_to")) & (f.least("sent_qos", "qos") > 0)
    certain = online | kept
    return (
        salted(messages, hot)
        .join(met, ["topic", "slot", "salt"])
        .where((at >= f.col("from")) & (at < f.col("to")))
        .where(~(f.col("no_local") & f.coalesce(f.col("publisher") == f.col("client"), f.lit(False))))
        .select(
            *MESSAGE_KEY,
            "receiver",
            "topic",
            "publisher",
            "published_at",
            certain.alias("certain"),
            ((at < f.col("stays_until")) | f.col("later").isNotNull()).alias("chance"),
            "held",
            f.when(f.col("online"), at).otherwise(f.col("later")).alias("can"),
            # Where the client was; of a group, any of its members' nodes.
            f.when(certain, f.col("node")).alias("node"),
        )
    )


def _slot(moment: Any) -> Any:
    from pyspark.sql import functions as f

    return f.floor(moment / SLOT)


def _takers(few: Any, recording: Recording, terms: Terms) -> Any:
    """Subscriptions, cut by their clients' stretches and by slots.

    (filter, slot, client, receiver, qos, no_local, held, online, node, later, from, to, sure_from, sure_to,
    kept_from, kept_to, stays_until): a message of [from, to) may be for it, one of [sure_from, sure_to) is
    since the client was connected, one of [kept_from, kept_to) since its session was kept. A connection
    that ends before ``stays_until`` with a session that is not kept takes the message with it.
    """
    from pyspark.sql import functions as f

    settle = terms.settle
    held = subscriptions(few).withColumn("receiver", receiver()).withColumnRenamed("begin", "held")
    lives = stretches(few)
    both = held.withColumnRenamed("end", "left").join(lives, "client", "left_outer")
    online = f.coalesce("online", f.lit(False))
    begin, end = f.coalesce("begin", f.lit(0)), f.coalesce("end", f.lit(FOREVER))
    standing_from, standing_to = f.col("held") + settle, f.col("left") - settle
    kept = f.coalesce("persistent", f.lit(False))
    spans = both.select(
        "filter",
        "client",
        "receiver",
        "qos",
        "no_local",
        "held",
        online.alias("online"),
        "node",
        "later",
        f.greatest(begin, f.col("held") - settle, f.lit(recording.begin)).alias("from"),
        f.least(end, f.col("left") + settle, f.lit(recording.end)).alias("to"),
        f.greatest(begin + settle, standing_from).alias("sure_from"),
        f.when(online, f.least(end - settle, standing_to)).otherwise(0).alias("sure_to"),
        f.when(kept, standing_from).otherwise(f.lit(FOREVER)).alias("kept_from"),
        standing_to.alias("kept_to"),
        f.when(online, end - settle + 1).otherwise(0).alias("stays_until"),
    ).where(f.col("from") < f.col("to"))
    return spans.withColumn("slot", f.explode(f.sequence(_slot(f.col("from")), _slot(f.col("to") - 1))))
