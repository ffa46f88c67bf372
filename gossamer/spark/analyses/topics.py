"""Matching of filters and topics, as joins on equality.

A cross join of topics and filters is quadratic, and a Python function per pair slower still. Instead, as in
the router's own index, filters are grouped by *shape*: how many levels they have, at which of them stands a
``+``, and whether ``#`` ends them. There are few shapes. A topic is asked, per shape that fits its length,
under exactly one key: its own levels with ``+`` in the shape's places. So both steps are joins on equality,
and their size is topics times shapes.

Rules: MQTT 5.0 section 4.7. ``#`` also matches its parent level; a wildcard in front does not match a topic
that begins with ``$``.
"""

from __future__ import annotations


def match(topics: str, filters: str) -> str:
    """(topic, filter) for every pair that matches, of questions for distinct ``topic`` and ``filter``."""
    # Filters that end in # match topics of as many levels as they have before it, or more. A topic may
    # contain no wildcard, so a key that equals a filter is a match and not a coincidence.
    return f"""
        WITH given AS ({filters}), parted AS (
            SELECT split(filter, '/') AS parts, filter = '#' OR filter LIKE '%/#' AS open FROM given
        ), shapes AS (
            SELECT DISTINCT open, size(parts) - CASE WHEN open THEN 1 ELSE 0 END AS levels,
                filter(sequence(1, size(parts)), i -> element_at(parts, i) = '+') AS plus
            FROM parted
        ), asked AS (
            SELECT topic, split(topic, '/') AS parts FROM ({topics})
        ), laid AS (
            SELECT topic, parts, size(parts) AS levels, false AS open FROM asked
            UNION ALL
            SELECT topic, parts, explode(sequence(0, size(parts))), true FROM asked
        ), keyed AS (
            SELECT /*+ BROADCAST(s) */ l.topic, CASE WHEN l.levels = 0 THEN '#' ELSE
                array_join(transform(sequence(1, l.levels),
                    i -> CASE WHEN array_contains(s.plus, i) THEN '+' ELSE element_at(l.parts, i) END), '/')
                || CASE WHEN l.open THEN '/#' ELSE '' END END AS filter
            FROM laid l JOIN shapes s ON l.levels = s.levels AND l.open = s.open
            WHERE NOT (l.topic LIKE '$%' AND (array_contains(s.plus, 1) OR (l.open AND l.levels = 0)))
        )
        SELECT k.topic, k.filter FROM keyed k JOIN given g ON k.filter = g.filter"""
