"""What was true when: messages, subscriptions and connections as rows with a beginning and an end.

Rules: 1. Times are ``t`` of ``source``, microseconds; an interval holds its beginning and not its end, and
one that has not ended ends at ``FOREVER``.  2. A subscription lasts until it is replaced, ended by
UNSUBSCRIBE, or gone with its session; a move to another node does not end it.  3. A connection lasts until
the client disconnects or connects again: what the node it left says later does not end the new one.  4. A
run of messages is one row per message from here on.  5. What a session lives through is cut into stretches
in each of which it is connected, or away, all the time: what was true at a moment is then one row, found by
comparing numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gossamer.audit.schema as schema

if TYPE_CHECKING:
    from gossamer.spark.source import Recording

__all__ = [
    "FOREVER",
    "MESSAGE_KEY",
    "connections",
    "each_message",
    "of_sessions",
    "receiver",
    "standing",
    "stretches",
    "subscriptions",
]

FOREVER = 2**62

MESSAGE_KEY = ("message", "origin", "origin_creation")
"""What names a message. The number first: it tells most apart, and sorting looks at it first."""

_COLUMNS = (
    *("client", "filter", "share", "qos", "no_local", "present", "persistent", "recorder", "event"),
    *("reason", "peer", "t", "hlc"),
)
_OF_SESSIONS = (
    schema.CONNECTED,
    schema.DISCONNECTED,
    schema.SUBSCRIBED,
    schema.UNSUBSCRIBED,
    schema.ENDED,
    schema.TAKEN_OVER,
)


def of_sessions(recording: Recording, *, until: int) -> Any:
    """The events before ``until`` that ``subscriptions`` and ``connections`` need: few, kept in memory."""
    from pyspark.sql import functions as f

    def few(events: Any) -> Any:
        return events.where(f.col("event").isin(*_OF_SESSIONS)).select(*_COLUMNS)

    rows = few(recording.events).where(f.col("t") >= recording.earlier_until)
    if recording.earlier is not None:
        rows = rows.unionByName(few(recording.earlier))
    return rows.where(f.col("t") < until).persist()


def standing(few: Any) -> Any:
    """Of ``few``, what tells of the time after it: held subscriptions, and where each client was last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    keys = ["client", "filter", "share"]
    held = subscriptions(few).where(f.col("end") == FOREVER).select(*keys, f.col("begin").alias("t"))
    same = [few[key].eqNullSafe(held[key]) for key in (*keys, "t")]
    subscribed = few.where(f.col("event") == schema.SUBSCRIBED).join(held, same, "left_semi")
    latest = Window.partitionBy("client", "event").orderBy(f.desc("t"), f.desc("hlc"))
    kinds = (schema.CONNECTED, schema.DISCONNECTED, schema.ENDED)
    last = (
        few.where(f.col("event").isin(*kinds))
        .withColumn("place", f.row_number().over(latest))
        .where(f.col("place") == 1)
        .drop("place")
    )
    return subscribed.unionByName(last)


def each_message(events: Any) -> Any:
    """One row per message of rows that may stand for runs."""
    from pyspark.sql import functions as f

    last = f.col("message") + f.col("count") - 1
    return events.withColumn("message", f.explode(f.sequence("message", last)))


def receiver() -> Any:
    """Who is to get a message once: a client, or a share group as a whole."""
    from pyspark.sql import functions as f

    group = f.concat(f.lit("$share/"), "share", f.lit("/"), "filter")
    return f.when(f.col("share").isNotNull(), group).otherwise(f.col("client"))


def subscriptions(events: Any) -> Any:
    """(client, filter, share, qos, no_local, begin, end)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kinds = [schema.SUBSCRIBED, schema.UNSUBSCRIBED]
    keys = ["client", "filter", "share"]
    changes = events.where(f.col("event").isin(kinds)).select(
        *keys, "qos", f.coalesce("no_local", f.lit(False)).alias("no_local"), "event", "reason", "t", "hlc"
    )
    held = changes.select(*keys).distinct()
    # Whoever finds no session has lost what the last one held, whether its end was recorded or not.
    anew = (f.col("event") == schema.CONNECTED) & ~f.coalesce("present", f.lit(True))
    ended = (
        events.where((f.col("event") == schema.ENDED) | anew)
        .select("client", "t", "hlc")
        .join(held, "client")
        .select(
            *keys,
            f.lit(None).cast("tinyint").alias("qos"),
            f.lit(False).alias("no_local"),
            f.lit(schema.ENDED).alias("event"),
            "t",
            "hlc",
        )
    )
    following = Window.partitionBy(*keys).orderBy("t", "hlc")
    # What moves with its session, or stood when recording began, goes on as it was.
    goes_on = (
        f.col("reason").isin("moved", "standing")
        & (f.col("event") == schema.SUBSCRIBED)
        & f.coalesce(f.lag("event").over(following) == schema.SUBSCRIBED, f.lit(False))
    )
    return (
        changes.unionByName(ended, allowMissingColumns=True)
        .withColumn("goes_on", f.coalesce(goes_on, f.lit(False)))
        .where(~f.col("goes_on"))
        .withColumn("end", f.coalesce(f.lead("t").over(following), f.lit(FOREVER)))
        .where(f.col("event") == schema.SUBSCRIBED)
        .select(*keys, "qos", "no_local", f.col("t").alias("begin"), "end")
    )


def connections(events: Any) -> Any:
    """(client, node, persistent, begin, end)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    changes = events.where(f.col("event").isin(schema.CONNECTED, schema.DISCONNECTED)).select(
        "client", f.col("recorder").alias("node"), "persistent", "event", "t", "hlc"
    )
    order = Window.partitionBy("client").orderBy("t", "hlc")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    came = f.when(f.col("event") == schema.CONNECTED, f.col("node"))
    return (
        changes.withColumn("at_node", f.last(came, ignorenulls=True).over(before))
        .where((f.col("event") == schema.CONNECTED) | (f.col("node") == f.col("at_node")))
        .withColumn("end", f.coalesce(f.lead("t").over(order), f.lit(FOREVER)))
        .where(f.col("event") == schema.CONNECTED)
        .select("client", "node", "persistent", f.col("t").alias("begin"), "end")
    )


def stretches(events: Any) -> Any:
    """(client, online, node, persistent, later, begin, end): each client's life, from 0 to FOREVER.

    ``node`` and ``persistent`` are those of its latest connection by then, ``later`` is when it will connect
    next; null where there is none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("client").orderBy("begin")
    stays = connections(events).select(
        "*",
        f.lead("begin").over(order).alias("later"),
        (f.row_number().over(order) == 1).alias("first"),
    )
    here = ("node", "persistent", "later")
    there = f.struct(f.lit(True).alias("online"), *here, "begin", "end")
    away = f.struct(
        f.lit(False).alias("online"),
        *here,
        f.col("end").alias("begin"),
        f.coalesce("later", f.lit(FOREVER)).alias("end"),
    )
    before = f.struct(
        f.lit(False).alias("online"),
        f.lit(None).cast("string").alias("node"),
        f.lit(None).cast("boolean").alias("persistent"),
        f.col("begin").alias("later"),
        f.lit(0).cast("bigint").alias("begin"),
        f.when(f.col("first"), f.col("begin")).otherwise(f.lit(0)).alias("end"),
    )
    cut = stays.select("client", f.explode(f.array(there, away, before)).alias("stretch"))
    return cut.select("client", "stretch.*").where(f.col("begin") < f.col("end"))
