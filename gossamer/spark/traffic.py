"""How long messages take, who makes the most of them, and who leaves the usual rate.

Three jobs over messages alone; whether each arrived is ``completeness``.

Rules: 1. A delay is the difference of two recorded times, clocks corrected by what the nodes knew; one that
is below zero tells of a clock, is counted as ``negative`` and kept in the percentiles as it is.  2. Messages
out of the store, and those that waited for their client, are left out of delays.  3. A usual rate is the
median of a subject's own windows, and how far it strays the median of the distances from it (MAD), since a
burst must not hide itself by moving an average.
"""

from __future__ import annotations

from typing import Any

import gossamer.audit.schema as schema
from gossamer.spark.completeness import FROM_STORE
from gossamer.spark.histories import MESSAGE_KEY, each_message
from gossamer.spark.source import Recording

__all__ = ["anomalies", "hotspots", "latency", "prefix_of", "within"]

_PERCENTILES = (0.5, 0.95, 0.99)
_PRECISION = 1000
"""Of approximate percentiles: one part in so many."""


def within(recording: Recording) -> Any:
    """The events of the span."""
    from pyspark.sql import functions as f

    return recording.events.where(f.col("t").between(recording.begin, recording.end - 1))


def prefix_of(topic: Any, levels: int) -> Any:
    """The first ``levels`` levels of a topic."""
    from pyspark.sql import functions as f

    return f.substring_index(topic, "/", levels)


def latency(recording: Recording, *, levels: int = 2, waited: int = 60_000_000) -> Any:
    """Percentiles of delay, microseconds, by hop, topic prefix, pair of nodes and hour.

    Hops: ``deliver`` (published to sent), ``link`` (forwarded to received), ``acknowledge`` (sent to
    acknowledged by the subscriber). Delays over ``waited`` are those of clients that were away.
    """
    from pyspark.sql import functions as f

    events = within(recording)

    def of(kind: str, *columns: Any) -> Any:
        rows = events.where(f.col("event") == kind)
        return each_message(rows).select(*MESSAGE_KEY, f.col("t").alias(f"t_{kind}"), *columns)

    key = list(MESSAGE_KEY)
    published = of(schema.PUBLISHED, "topic", f.col("recorder").alias("from_node"))
    stored = f.coalesce(f.col("reason") == FROM_STORE, f.lit(False))
    delivered = of(schema.DELIVERED, "client", "reason", f.col("recorder").alias("to_node")).where(~stored)
    named = published.select(
        *key, prefix_of(f.col("topic"), levels).alias("prefix"), "from_node", "t_published"
    )
    shape = ["hop", "prefix", "from_node", "to_node", "began", "delay"]
    deliver = named.join(delivered, key).select(
        f.lit("deliver").alias("hop"),
        "prefix",
        "from_node",
        "to_node",
        f.col("t_published").alias("began"),
        (f.col("t_delivered") - f.col("t_published")).alias("delay"),
    )
    sent = of(schema.FORWARDED, f.col("recorder").alias("from_node"), f.col("peer").alias("to_node"))
    got = of(schema.RECEIVED, f.col("recorder").alias("to_node"))
    link = (
        sent.join(got, [*key, "to_node"])
        .join(named.select(*key, "prefix"), key, "left")
        .withColumn("hop", f.lit("link"))
        .withColumn("began", f.col("t_forwarded"))
        .withColumn("delay", f.col("t_received") - f.col("t_forwarded"))
        .select(*shape)
    )
    acknowledged = of(schema.ACKNOWLEDGED, "client", "role").where(f.col("role") == "subscriber")
    acknowledge = (
        delivered.join(acknowledged, [*key, "client"])
        .join(named.select(*key, "prefix", "from_node"), key, "left")
        .withColumn("hop", f.lit("acknowledge"))
        .withColumn("began", f.col("t_delivered"))
        .withColumn("delay", f.col("t_acknowledged") - f.col("t_delivered"))
        .select(*shape)
    )
    delays = deliver.select(*shape).unionByName(link).unionByName(acknowledge)
    return (
        delays.where(f.col("delay") <= waited)
        .withColumn("hour", f.date_trunc("hour", f.timestamp_micros("began")))
        .groupBy("hop", "prefix", "from_node", "to_node", "hour")
        .agg(
            f.count("*").alias("messages"),
            *(f.percentile_approx("delay", p, _PRECISION).alias(f"p{int(p * 100)}") for p in _PERCENTILES),
            f.max("delay").alias("worst"),
            f.count(f.when(f.col("delay") < 0, 1)).alias("negative"),
        )
    )


def hotspots(recording: Recording, *, top: int = 100) -> dict[str, Any]:
    """The ``top`` topics, publishers, subscribers, filters and pairs of nodes, each with its share of all."""
    from pyspark.sql import functions as f

    events = within(recording)
    published = events.where(f.col("event") == schema.PUBLISHED)
    delivered = events.where(f.col("event") == schema.DELIVERED)
    tables = {
        "topics": _ranked(published, "topic", top),
        "publishers": _ranked(published, "client", top),
        "subscribers": _ranked(delivered, "client", top),
        "pairs": _ranked(
            events.where(f.col("event") == schema.FORWARDED).withColumn(
                "pair", f.concat_ws(" to ", "recorder", "peer")
            ),
            "pair",
            top,
        ),
        "filters": _ranked(
            events.where(f.col("event") == schema.ROUTED).withColumn("filter", f.explode("filters")),
            "filter",
            top,
        ),
    }
    key = ["origin", "origin_creation", "message"]
    # Runs stay runs here: a fan-out is a mean over a topic, and both sides count messages.
    wide = (
        delivered.groupBy("origin", "origin_creation", "message", "count")
        .agg(f.count("*").alias("copies"))
        .join(published.select(*key, "topic"), key)
        .groupBy("topic")
        .agg(
            f.sum("count").alias("messages"),
            f.sum(f.col("copies") * f.col("count")).alias("deliveries"),
            f.max("copies").alias("widest"),
        )
    )
    tables["fanout"] = wide.orderBy(f.desc("deliveries"), "topic").limit(top)
    return tables


def _ranked(rows: Any, subject: str, top: int) -> Any:
    from pyspark.sql import functions as f

    sums = (
        rows.where(f.col(subject).isNotNull())
        .groupBy(subject)
        .agg(f.sum("count").alias("messages"), f.sum("size").alias("bytes"))
    )
    # One row, asked by itself: a join with it would be one of everything with everything.
    total = sums.agg(f.sum("messages")).scalar()
    subjects = sums.agg(f.count("*")).scalar()
    share = f.col("messages") / total
    return (
        sums.orderBy(f.desc("messages"), subject)
        .limit(top)
        .select(
            f.col(subject).alias("subject"),
            "messages",
            "bytes",
            share.alias("share"),
            # How much busier than the average of all: 1 where all are alike.
            (share * subjects).alias("skew"),
            subjects.alias("subjects"),
        )
    )


def anomalies(
    recording: Recording, *, window: str = "1 minute", least: int = 100, distance: float = 8.0
) -> Any:
    """Windows in which a topic or a publisher was far from its own usual rate.

    ``least``: messages by which it must differ. ``distance``: in deviations, MAD scaled to sigma. A subject
    that falls silent is found by its windows of nothing between its first and its last.
    """
    from pyspark.sql import functions as f

    published = within(recording).where(f.col("event") == schema.PUBLISHED)
    width = f.expr(f"unix_micros(timestamp'1970-01-01 00:00:00' + interval {window})")

    def counts(kind: str, column: str) -> Any:
        return (
            published.where(f.col(column).isNotNull())
            .groupBy(f.col(column).alias("subject"), f.floor(f.col("t") / width).alias("slot"))
            .agg(f.sum("count").alias("messages"))
            .withColumn("kind", f.lit(kind))
        )

    counted = counts("topic", "topic").unionByName(counts("publisher", "client"))
    subject = ["kind", "subject"]
    lives = counted.groupBy(*subject).agg(
        f.min("slot").alias("first"),
        f.max("slot").alias("last"),
        f.collect_list("messages").alias("seen"),
    )
    lives = lives.withColumn("windows", f.col("last") - f.col("first") + 1).where(f.col("windows") >= 5)
    whole = lives.withColumn(
        "all",
        f.concat(
            "seen", f.array_repeat(f.lit(0).cast("bigint"), (f.col("windows") - f.size("seen")).cast("int"))
        ),
    )
    whole = whole.withColumn("usual", _median("all"))
    whole = whole.withColumn("apart", f.transform("all", lambda n: f.abs(n - f.col("usual"))))
    # One part in a hundred of the usual rate is no anomaly, however steady a subject is.
    usual = whole.withColumn(
        "deviation", f.greatest(_median("apart") * 1.4826, f.col("usual") * 0.01, f.lit(1.0))
    ).select(*subject, "usual", "deviation", "first", "last")
    every = usual.withColumn("slot", f.explode(f.sequence("first", "last")))
    rows = (
        every.join(counted, [*subject, "slot"], "left")
        .withColumn("messages", f.coalesce("messages", f.lit(0)))
        .withColumn("away", f.col("messages") - f.col("usual"))
        .withColumn("deviations", f.col("away") / f.col("deviation"))
    )
    return rows.where((f.abs("away") >= least) & (f.abs("deviations") >= distance)).select(
        *subject,
        f.timestamp_micros((f.col("slot") * width).cast("bigint")).alias("window"),
        "messages",
        "usual",
        f.round("deviations", 1).alias("deviations"),
    )


def _median(array: str) -> Any:
    """Of an array of numbers, the mean of the two in the middle where there are two."""
    from pyspark.sql import functions as f

    return f.expr(
        f"(array_sort({array})[cast((size({array}) - 1) / 2 as int)]"
        f" + array_sort({array})[cast(size({array}) / 2 as int)]) / 2.0"
    )
