"""Unknown offsets of nodes' clocks, estimated from messages that crossed their links.

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

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import Engine

MAX_OFFSET = 1_000_000
"""Microseconds a clock may be off and still be called right."""
_ONE_WAY = 60_000_000
_LOOKED_AT = 500_000
"""Messages of a recording that are looked at, about."""

Life = tuple[str, int]
"""A node's name and its creation."""


def delays_of_links(engine: Engine, events: str, *, known: int) -> dict[tuple[Life, Life], int]:
    """Return the shortest time from forward to receipt, per pair of creations, of a sample of messages.

    ``known``: approximate number of events.
    """
    every = max(1, known // (10 * _LOOKED_AT))
    rows = engine.rows(f"""
        SELECT s.recorder AS a, s.creation AS a_life, g.recorder AS b, g.creation AS b_life,
            min(g.t - s.t) AS delay
        FROM {events} s JOIN {events} g ON s.message = g.message AND s.origin = g.origin
            AND s.origin_creation = g.origin_creation AND s.peer = g.recorder
        WHERE s.event = '{schema.FORWARDED}' AND g.event = '{schema.RECEIVED}'
            AND pmod(s.message, {every}) = 0
        GROUP BY s.recorder, s.creation, g.recorder, g.creation""")
    return {((row["a"], row["a_life"]), (row["b"], row["b_life"])): row["delay"] for row in rows}


def offsets_of(delays: Mapping[tuple[Life, Life], int]) -> dict[Life, int]:
    """Return microseconds by which deviating clocks were ahead of the agreeing majority, per creation."""
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
    groups = _agreeing(ahead)
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


def _agreeing(ahead: Mapping[Life, Mapping[Life, int]]) -> list[set[Life]]:
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
            edge += [b for b, offset in ahead[a].items() if offset == 0]
        groups.append(group)
        left -= group
    return groups
