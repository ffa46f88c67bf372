"""Which filters match which topics, as joins on equality.

A cross join of topics and filters is quadratic, and a Python function per pair slower still. Instead, as in
the router's own index, filters are grouped by *shape*: how many levels they have, at which of them stands a
``+``, and whether ``#`` ends them. There are few shapes. A topic is asked, per shape that fits its length,
under exactly one key: its own levels with ``+`` in the shape's places. So both steps are joins on equality,
and their size is topics times shapes.

Rules: MQTT 5.0 section 4.7. ``#`` also matches its parent level; a wildcard in front does not match a topic
that begins with ``$``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["match"]


def match(topics: Any, filters: Any) -> Any:
    """(topic, filter) for every pair that matches, of DataFrames with distinct ``topic`` and ``filter``."""
    from pyspark.sql import functions as f

    parts = filters.select("filter", f.split("filter", "/").alias("parts"))
    parts = parts.withColumn("open", f.element_at("parts", -1) == "#")
    parts = parts.withColumn("levels", f.size("parts") - f.when(f.col("open"), 1).otherwise(0))
    shaped = parts.select(
        "filter",
        "open",
        "levels",
        f.expr("filter(sequence(1, size(parts)), i -> parts[i - 1] = '+')").alias("plus"),
    )
    shapes = shaped.select("open", "levels", "plus").distinct()

    split = topics.select(
        "topic", f.split("topic", "/").alias("parts"), f.col("topic").startswith("$").alias("hidden")
    )
    size = f.size("parts")
    # Filters that end in # match topics of as many levels as they have before it, or more.
    asked = split.select(
        "topic",
        "parts",
        "hidden",
        f.explode(
            f.concat(
                f.array(f.struct(size.alias("levels"), f.lit(False).alias("open"))),
                f.transform(
                    f.sequence(f.lit(0), size),
                    lambda n: f.struct(n.alias("levels"), f.lit(True).alias("open")),
                ),
            )
        ).alias("ask"),
    )
    keyed = (
        asked.select("topic", "parts", "hidden", "ask.levels", "ask.open")
        .join(f.broadcast(shapes), ["levels", "open"])
        .where(~(f.col("hidden") & (f.array_contains("plus", 1) | (f.col("open") & (f.col("levels") == 0)))))
        .select(
            "topic",
            f.expr(
                "concat_ws('/', concat("
                "transform(slice(parts, 1, levels),"
                " (part, i) -> CASE WHEN array_contains(plus, i + 1) THEN '+' ELSE part END),"
                " CASE WHEN open THEN array('#') ELSE CAST(array() AS array<string>) END))"
            ).alias("filter"),
        )
    )
    # A topic may contain no wildcard, so a key that equals a filter is a match and not a coincidence.
    return keyed.join(filters.select("filter"), "filter").select("topic", "filter")
