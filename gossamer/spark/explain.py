"""Where a message was lost, and which verdicts a hole in the recording takes back.

Only what seems lost or misrouted comes here, which is little: everything else was judged by what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gossamer.audit.schema as schema
from gossamer.spark.histories import MESSAGE_KEY, connections, each_message
from gossamer.spark.holes import in_hole

if TYPE_CHECKING:
    from gossamer.spark.completeness import Terms
    from gossamer.spark.source import Recording

__all__ = ["explain"]

LOST, MISROUTED, UNDECIDABLE = "lost", "misrouted", "undecidable"


def explain(
    doubtful: Any, events: Any, few: Any, recording: Recording, terms: Terms, *, few_doubts: bool
) -> Any:
    """Say where a message was lost, and take back what a hole in the recording may hide."""
    from pyspark.sql import functions as f

    wanted = doubtful.select(*MESSAGE_KEY).distinct()
    trail = each_message(
        events.where(f.col("event").isin(schema.FORWARDED, schema.RECEIVED, schema.DROPPED, schema.PUBLISHED))
    ).join(f.broadcast(wanted) if few_doubts else wanted, list(MESSAGE_KEY), "left_semi")
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
    row = row.withColumn("moment", f.coalesce("published_at", "true_time", "delivered_at"))
    row = _with_stay(row, few)
    why = f.expr(
        "get(filter(drops, d -> d.client = receiver OR (d.client IS NULL AND d.peer = node)"
        " OR (d.client IS NULL AND d.peer IS NULL)), 0)"
    )
    here = f.col("node") == f.col("origin")
    there = here | f.array_contains("got_at", f.col("node"))
    until = f.greatest("moment", f.coalesce("can", f.col("moment"))) + terms.late_after
    moves = (f.col("next")["begin"] <= until) & (f.col("next")["node"] != f.col("node"))
    hop = (
        f.when(f.col("verdict") == MISROUTED, f.concat("node", f.lit(": not subscribed")))
        .when(why.isNotNull(), f.concat(why["recorder"], f.lit(": dropped, "), why["reason"]))
        .when(
            there & f.coalesce(moves, f.lit(False)),
            f.concat("node", f.lit(" to "), f.col("next")["node"], f.lit(": lost as the session moved")),
        )
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
    # A message whose publish lies outside the span, though known: not this span's to judge.
    row = row.where(
        (f.col("verdict") != MISROUTED)
        | f.col("known").isNull()
        | ~f.col("known")
        | f.col("true_time").between(recording.begin, recording.end - 1)
    )
    unknown = (f.col("verdict") == MISROUTED) & ~f.coalesce(f.col("known"), f.lit(False))
    row = row.withColumn("hop", hop)
    hidden = _hidden(recording, terms, until)
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


def _with_stay(row: Any, few: Any) -> Any:
    """Adds ``stay`` and ``next``: the receiver's last connection by the moment, the first after it."""
    from pyspark.sql import functions as f

    came = (
        connections(few)
        .groupBy(f.col("client").alias("receiver"))
        .agg(f.collect_list(f.struct("begin", "end", "node", "persistent")).alias("stays"))
    )
    return (
        row.join(came, "receiver", "left")
        .withColumn("stay", f.expr("array_max(filter(stays, s -> s.begin <= moment))"))
        .withColumn("next", f.expr("array_min(filter(stays, s -> s.begin > moment))"))
        .drop("stays")
    )


def _hidden(recording: Recording, terms: Terms, until: Any) -> Any:
    """Whether a hole may hide what would change the verdict.

    At the origin, that it was dropped or forwarded. Where the receiver was: the delivery, and any change of
    its subscriptions since it came. Anywhere, while it was not known to be somewhere else: that it came
    there, and what it did. So a client that is connected at a node whose recording is whole is judged
    whatever is missing of others.
    """
    from pyspark.sql import functions as f

    moment, stay = f.col("moment"), f.col("stay")
    known_from = f.coalesce("held_since", f.lit(0))
    came, kept = f.coalesce(stay["begin"], f.lit(0)), f.coalesce(stay["persistent"], f.lit(True))
    # What a session keeps may have been changed wherever the client was before.
    before = f.when(kept, f.least(known_from, came)).otherwise(came)
    away = stay.isNull() | (stay["end"] <= moment)

    def hides(node: Any, begin: Any, end: Any) -> Any:
        def met(low: Any, high: Any) -> Any:
            return (begin <= high) & (end >= low)

        return (
            ((node == f.col("origin")) & met(moment - terms.settle, until))
            | ((node == f.coalesce(stay["node"], f.col("node"))) & met(before, until))
            | (kept & met(before, came))
            | (away & met(before, until))
        )

    return in_hole(recording.holes, hides)
