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
left (``explain``).  5. The numbers add up:
owed = delivered + late + doubled + lost + queued, and the undecidable beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gossamer.audit.schema as schema
from gossamer.spark.explain import explain
from gossamer.spark.histories import MESSAGE_KEY, each_message, of_sessions, receiver
from gossamer.spark.owed import SALTED_FROM, owed, published
from gossamer.spark.source import Recording

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

BROADCAST_UP_TO = 1_000_000
"""Doubts whose messages are few enough to be known to every task."""

FROM_STORE = "retained"
"""Reason of a delivery that answers a subscription with what was stored, and no publish."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What counts as what; microseconds."""

    settle: int = 1_000_000
    late_after: int = 5_000_000


def verdicts(recording: Recording, terms: Terms = Terms(), *, salted_from: int = SALTED_FROM) -> Any:
    """One row per (message, receiver): origin, topic, publisher, times, verdict, hop.

    ``salted_from``: messages of one topic in a quarter of an hour from which on several tasks share them.
    Counts what is in doubt at once, and is lazy about the rest.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    # After the span: what was published in it may arrive a little later. Before it: subscriptions only.
    events = recording.events.where(f.col("t") < recording.end + terms.late_after)
    few = of_sessions(recording, until=recording.end + terms.late_after)
    messages = published(events.where(f.col("t").between(recording.begin, recording.end - 1)))
    due = owed(messages, few, recording, terms, salted_from=salted_from)
    both = _together(due, _came(events.where(f.col("t") >= recording.begin)))
    judged = _judge(both, terms).persist(StorageLevel.DISK_ONLY)
    doubtful = judged.where(f.col("verdict").isin(LOST, MISROUTED))
    sound = judged.where(~f.col("verdict").isin(LOST, MISROUTED)).drop("held_since")
    count = doubtful.count()
    if not count:
        return sound
    explained = explain(doubtful, events, few, recording, terms, few_doubts=count <= BROADCAST_UP_TO)
    return sound.unionByName(explained.drop("held_since"))


def _together(due: Any, came: Any) -> Any:
    """A row per message and receiver: what was owed, beside what came."""
    from pyspark.sql import functions as f

    key = [*MESSAGE_KEY, "receiver"]
    rows = due.unionByName(came, allowMissingColumns=True)
    # Distributed once, by hand: nearly every key has a row or two, so that adding up before the shuffle as
    # Spark would do sorts everything twice for nothing.
    return (
        rows.repartition(*key)
        .groupBy(*key)
        .agg(
            f.max("topic").alias("topic"),
            f.max("publisher").alias("publisher"),
            f.max("published_at").alias("published_at"),
            f.max("certain").alias("certain"),
            f.max("chance").alias("chance"),
            f.min("held").alias("held_since"),
            f.min("can").alias("can"),
            f.max("node").alias("node"),
            f.count("delivered_at").alias("copies"),
            f.min("delivered_at").alias("delivered_at"),
            f.max("delivered_by").alias("delivered_by"),
        )
    )


def _came(events: Any) -> Any:
    from pyspark.sql import functions as f

    rows = (
        events.where(
            (f.col("event") == schema.DELIVERED) & f.coalesce(f.col("reason") != FROM_STORE, f.lit(True))
        )
        .withColumn("receiver", receiver())
        .select(
            *MESSAGE_KEY,
            "count",
            "receiver",
            f.col("t").alias("delivered_at"),
            f.col("recorder").alias("delivered_by"),
        )
    )
    return each_message(rows).drop("count")


def _judge(both: Any, terms: Terms) -> Any:
    from pyspark.sql import functions as f

    copies = f.col("copies")
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
            "topic",
            "publisher",
            "receiver",
            f.coalesce("delivered_by", "node").alias("node"),
            "published_at",
            "delivered_at",
            "can",
            "held_since",
            "copies",
            "verdict",
            f.lit(None).cast("string").alias("hop"),
        )
    )
