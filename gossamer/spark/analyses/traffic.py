"""Delays of messages, their busiest sources, and those that leave their usual rate.

Three jobs over messages alone; whether each arrived is ``completeness``.

Rules: 1. A delay is the difference of two recorded times, clocks corrected by what the nodes knew; one that
is below zero tells of a clock, is counted as ``negative`` and kept in the percentiles as it is.  2. Messages
out of the store are left out of delays, and those that waited for their client, which connected meanwhile:
how late these came is ``completeness``, which counts from when it was back.  3. A usual rate is the
median of a subject's own windows, and how far it strays the median of the distances from it (MAD), since a
burst must not hide itself by moving an average.  4. A run of deliveries is a range of message numbers and may
span topics: their topics are looked up message by message.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses.completeness import FROM_STORE
from gossamer.spark.analyses.histories import MESSAGE_KEY, each_message, same
from gossamer.spark.source.source import Recording

_PERCENTILES = (50, 95, 99)
PRECISION = 10_000
"""Of approximate percentiles: one rank in so many, so that of fewer values they are exact in Spark, too."""


def latency(recording: Recording, *, levels: int = 2) -> str:
    """Percentiles of delay, microseconds, by hop, topic prefix, pair of nodes and hour.

    Hops: ``deliver`` (published to sent), ``link`` (forwarded to received), ``acknowledge`` (sent to
    acknowledged by the subscriber).
    """

    def of(kind: str, columns: str, where: str = "true") -> str:
        where = f"event = '{kind}' AND {recording.within} AND {where}"
        return each_message(f"recorder, t, {columns}", recording.events, where)

    published = of(schema.PUBLISHED, f"substring_index(topic, '/', {levels}) AS prefix")
    delivered = of(schema.DELIVERED, "client", f"coalesce(reason, '') <> '{FROM_STORE}'")
    meanwhile = "array_contains(transform(came, c -> c > began AND c <= began + delay), true)"
    percentiles = ", ".join(
        f"percentile_approx(delay, {part / 100}, {PRECISION}) AS p{part}_us" for part in _PERCENTILES
    )
    return f"""
        WITH published AS ({published}), delivered AS ({delivered}),
        forwarded AS ({of(schema.FORWARDED, "peer")}), received AS ({of(schema.RECEIVED, "peer")}),
        acknowledged AS ({of(schema.ACKNOWLEDGED, "client", "role = 'subscriber'")}), comings AS (
            SELECT client, collect_set(t) AS came FROM {recording.events}
            WHERE event = '{schema.CONNECTED}' GROUP BY client
        ), delays AS (
            SELECT 'deliver' AS hop, prefix, p.recorder AS from_node, d.recorder AS to_node, p.t AS began,
                d.t - p.t AS delay, d.client
            FROM published p JOIN delivered d ON {same("p", "d")}
            UNION ALL
            SELECT 'link', prefix, s.recorder, s.peer, s.t, r.t - s.t, NULL
            FROM forwarded s JOIN received r ON {same("s", "r")} AND s.peer = r.recorder
            LEFT JOIN published p ON {same("s", "p")}
            UNION ALL
            SELECT 'acknowledge', prefix, p.recorder, d.recorder, d.t, a.t - d.t, d.client
            FROM delivered d JOIN acknowledged a ON {same("d", "a")} AND d.client = a.client
            LEFT JOIN published p ON {same("d", "p")}
        )
        SELECT hop, prefix, from_node, to_node, date_trunc('hour', timestamp_micros(began)) AS hour,
            count(*) AS messages, {percentiles}, max(delay) AS worst_us,
            count(CASE WHEN delay < 0 THEN 1 END) AS negative
        FROM delays LEFT JOIN comings ON delays.client = comings.client WHERE NOT coalesce({meanwhile}, false)
        GROUP BY 1, 2, 3, 4, 5"""


def hotspots(recording: Recording, *, top: int = 100) -> dict[str, str]:
    """The ``top`` topics, publishers, subscribers, filters and pairs of nodes, each with its share of all.

    And of topics, how many deliveries a message became.
    """

    def ranked(kind: str, subject: str) -> str:
        return f"""
            WITH sums AS (
                SELECT subject, CAST(sum(count) AS BIGINT) AS messages, CAST(sum(size) AS BIGINT) AS bytes
                FROM (SELECT {subject} AS subject, count, size FROM {recording.events}
                    WHERE event = '{kind}' AND {recording.within})
                WHERE subject IS NOT NULL GROUP BY subject
            )
            SELECT subject, messages, bytes, messages / (SELECT sum(messages) FROM sums) AS share,
                -- How much busier than the average of all: 1 where all are alike.
                messages / (SELECT sum(messages) FROM sums) * (SELECT count(*) FROM sums) AS skew,
                (SELECT count(*) FROM sums) AS subjects
            FROM sums ORDER BY messages DESC, subject LIMIT {top}"""

    where = f"{recording.within} AND event ="
    published = each_message("topic", recording.events, f"{where} '{schema.PUBLISHED}'")
    delivered = each_message("client", recording.events, f"{where} '{schema.DELIVERED}'")
    fanout = f"""
        SELECT topic, count(*) AS messages, CAST(sum(copies) AS BIGINT) AS deliveries,
            sum(copies) / count(*) AS per_message, max(copies) AS widest
        FROM (
            SELECT p.topic, coalesce(d.copies, 0) AS copies FROM ({published}) p
            LEFT JOIN (SELECT {MESSAGE_KEY}, count(*) AS copies FROM ({delivered}) GROUP BY {MESSAGE_KEY}) d
                ON {same("p", "d")})
        GROUP BY topic ORDER BY deliveries DESC, topic LIMIT {top}"""
    return {
        "topics": ranked(schema.PUBLISHED, "topic"),
        "publishers": ranked(schema.PUBLISHED, "client"),
        "subscribers": ranked(schema.DELIVERED, "client"),
        "pairs": ranked(schema.FORWARDED, "recorder || ' to ' || peer"),
        "filters": ranked(schema.ROUTED, "explode(filters)"),
        "fanout": fanout,
    }


def anomalies(
    recording: Recording, *, window: int = 60_000_000, least: int = 100, distance: float = 8.0
) -> str:
    """Windows (microseconds) in which a topic or a publisher was far from its own usual rate.

    ``least``: messages by which it must differ. ``distance``: in deviations, MAD scaled to sigma. A subject
    that falls silent is found by its windows of nothing between its first and its last.
    """

    def counts(kind: str, column: str) -> str:
        return f"""
            SELECT '{kind}' AS kind, {column} AS subject, CAST(floor(t / {window}) AS BIGINT) AS slot,
                CAST(sum(count) AS BIGINT) AS messages
            FROM {recording.events}
            WHERE event = '{schema.PUBLISHED}' AND {recording.within} AND {column} IS NOT NULL
            GROUP BY 1, 2, 3"""

    # One part in a hundred of the usual rate is no anomaly, however steady a subject is.
    return f"""
        WITH counted AS ({counts("topic", "topic")} UNION ALL {counts("publisher", "client")}), lives AS (
            SELECT kind, subject, min(slot) AS first, max(slot) AS last
            FROM counted GROUP BY kind, subject HAVING max(slot) - min(slot) >= 4
        ), every_slot AS (
            SELECT kind, subject, explode(sequence(first, last)) AS slot FROM lives
        ), filled AS (
            SELECT e.kind, e.subject, e.slot, coalesce(c.messages, 0) AS messages FROM every_slot e
            LEFT JOIN counted c ON e.kind = c.kind AND e.subject = c.subject AND e.slot = c.slot
        ), usual AS (
            SELECT kind, subject, median(messages) AS usual FROM filled GROUP BY kind, subject
        ), apart AS (
            SELECT f.*, u.usual, f.messages - u.usual AS away
            FROM filled f JOIN usual u ON f.kind = u.kind AND f.subject = u.subject
        ), strayed AS (
            SELECT kind, subject, greatest(median(abs(away)) * 1.4826, max(usual) * 0.01, 1.0) AS deviation
            FROM apart GROUP BY kind, subject
        )
        SELECT a.kind, a.subject, timestamp_micros(a.slot * {window}) AS window_start, a.messages, a.usual,
            round(a.away / s.deviation, 1) AS deviations
        FROM apart a JOIN strayed s ON a.kind = s.kind AND a.subject = s.subject
        WHERE abs(a.away) >= {least} AND abs(a.away / s.deviation) >= {distance}"""
