"""How far a node's clock was off that did not know it, told by what crossed its links.

A message that leaves A at one time and is received by B at another took as long as the link takes, and the
difference of their clocks. The quickest each way takes about the same, so that half the difference of the two
is how far B is ahead of A: what NTP does with four stamps.

Rules: 1. ``offset_us`` of a row is believed; only what is left of an offset after it is looked for.  2. The
largest group of nodes that agree is right; among equals the one whose first name sorts first.  3. Where
messages went one way only, nothing below a minute is called an offset, since a link may be slow; but nothing
arrives before it leaves.  4. One offset a life of a node: a clock that is set right in the middle shows as
delays below zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gossamer.audit.schema as schema

__all__ = ["MAX_OFFSET", "delays_of_links", "offsets_of"]

MAX_OFFSET = 1_000_000
"""Microseconds a clock may be off and still be called right."""
_ONE_WAY = 60_000_000
_LOOKED_AT = 500_000
"""Messages of a recording that are looked at, about."""

Life = tuple[str, int]
"""A node's name and its creation."""


def delays_of_links(events: Any, *, known: int) -> dict[tuple[Life, Life], int]:
    """The shortest time from being forwarded to being received, per pair of lives; of a sample of messages.

    ``known``: how many events there are, about.
    """
    from pyspark.sql import functions as f

    every = max(1, known // (10 * _LOOKED_AT))
    key = ["origin", "origin_creation", "message"]
    some = events.where(f.pmod("message", f.lit(every)) == 0)
    sent = some.where(f.col("event") == schema.FORWARDED).select(
        *key,
        f.col("recorder").alias("a"),
        f.col("creation").alias("a_life"),
        f.col("peer").alias("b"),
        f.col("t").alias("left_at"),
    )
    got = some.where(f.col("event") == schema.RECEIVED).select(
        *key, f.col("recorder").alias("b"), f.col("creation").alias("b_life"), f.col("t").alias("came_at")
    )
    rows = (
        sent.join(got, [*key, "b"])
        .groupBy("a", "a_life", "b", "b_life")
        .agg(f.min(f.col("came_at") - f.col("left_at")).alias("delay"))
        .collect()
    )
    return {((row.a, row.a_life), (row.b, row.b_life)): row.delay for row in rows}


def offsets_of(delays: Mapping[tuple[Life, Life], int]) -> dict[Life, int]:
    """Microseconds by which clocks were ahead of those that agree, of the lives that were not among them."""
    ahead: dict[Life, dict[Life, int]] = {}
    for (a, b), there in delays.items():
        back = delays.get((b, a))
        if back is not None:
            offset = (there - back) // 2
        elif there < 0 or there > _ONE_WAY:
            offset = there
        else:
            offset = 0
        if abs(offset) <= MAX_OFFSET:
            offset = 0
        ahead.setdefault(a, {})[b] = offset
        ahead.setdefault(b, {})[a] = -offset
    if not any(offset for peers in ahead.values() for offset in peers.values()):
        return {}
    groups = _reached(ahead, lambda offset: offset == 0)
    right = min(groups, key=lambda group: (-len(group), min(group)))
    found = dict.fromkeys(right, 0)
    # From those that are right outwards, so that a node no right one ever met is judged by one that was.
    edge = list(right)
    while edge:
        a = edge.pop()
        for b, offset in sorted(ahead[a].items()):
            if b not in found:
                found[b] = found[a] + offset
                edge.append(b)
    return {life: offset for life, offset in found.items() if abs(offset) > MAX_OFFSET}


def _reached(ahead: Mapping[Life, Mapping[Life, int]], same: Any) -> list[set[Life]]:
    """The nodes in groups of those that agree, directly or by way of others."""
    groups: list[set[Life]] = []
    left = set(ahead)
    while left:
        group, edge = set(), [min(left)]
        while edge:
            a = edge.pop()
            if a in group:
                continue
            group.add(a)
            edge += [b for b, offset in ahead[a].items() if same(offset)]
        groups.append(group)
        left -= group
    return groups
