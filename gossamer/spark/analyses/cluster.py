"""The cluster's effects on messages: routes that were wrong, splits and what they cost, sessions that moved.

Rules: 1. A forward is judged by the subscriptions that were valid at the node that received it, with the
same doubt around changes as in ``completeness``, and not where a hole may hide what made it right.  2. What a
split (``splits``) cost is what was published on either side while it stood, by verdict, and what its clients
missed.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses import VERDICTS, Terms
from gossamer.spark.analyses.histories import (
    FOREVER,
    MESSAGE_KEY,
    connections,
    each_message,
    of_sessions,
    same,
    subscriptions,
)
from gossamer.spark.analyses.splits import Change, Split, splits_of
from gossamer.spark.analyses.topics import match
from gossamer.spark.engine.engine import one_of
from gossamer.spark.source.source import Recording

OVERFLOWS = ("queue_full", "node_queue_full", "slow_consumer", "slow_consumer_closed")
"""Reasons of drops by overload."""


def routes(recording: Recording, terms: Terms = Terms(), *, stale_within: int = 60_000_000) -> str:  # noqa: B008
    """Forwards that went wrong: (fault, node, peer, topic, messages, first, last).

    ``missing``: a peer had a subscriber, and got nothing. ``unneeded``: it had none, and got it.
    ``stale``: it had none any more, since less than ``stale_within``, or the forward went to a node that
    this one knew to be down. ``undecidable``: it seems wrong, but a recorder was not looking.
    """
    settle = terms.settle
    places = _places(of_sessions(recording, until=recording.end))
    pairs = match("SELECT DISTINCT topic FROM published", "SELECT DISTINCT filter FROM places")
    one_message = same("p", "s")
    published = each_message(
        "topic, t", recording.events, f"event = '{schema.PUBLISHED}' AND {recording.within}"
    )
    forwarded = each_message(
        "peer, t", recording.events, f"event = '{schema.FORWARDED}' AND {recording.within}"
    )
    hidden = _hidden(recording, terms)
    # One member of a share group gets a message, wherever that is; completeness judges those.
    return f"""
        WITH published AS ({published}), forwarded AS ({forwarded}), places AS ({places}),
        pairs AS ({pairs}), wanted AS (
            SELECT p.topic, l.node, l.share, l.`begin`, l.`end`
            FROM pairs p JOIN places l ON p.filter = l.filter
        ), sent AS (
            SELECT s.message, s.origin, s.origin_creation, s.peer, s.t, p.topic
            FROM forwarded s JOIN published p ON {one_message}
        ), near AS (
            SELECT {MESSAGE_KEY}, peer, s.topic, t,
                coalesce(max(t >= w.`begin` - {settle} AND t < w.`end` + {settle}), false) AS valid,
                max(CASE WHEN w.`end` <= t THEN w.`end` END) AS ended
            FROM sent s LEFT JOIN wanted w ON s.topic = w.topic AND s.peer = w.node
            GROUP BY {MESSAGE_KEY}, peer, s.topic, t
        ), known AS (
            SELECT /*+ BROADCAST(d) */ {MESSAGE_KEY}, peer, topic, t, valid, ended,
                coalesce(max(t >= d.down + {settle} AND t < d.up), false) AS gone
            FROM near n LEFT JOIN ({_downs(recording)}) d ON n.origin = d.at_node AND n.peer = d.lost
            GROUP BY {MESSAGE_KEY}, peer, topic, t, valid, ended
        ), owed AS (
            SELECT p.message, p.origin, p.origin_creation, p.topic, p.t, w.node AS peer,
                min(w.`begin`) AS since
            FROM published p JOIN wanted w ON p.topic = w.topic
            WHERE w.share IS NULL AND w.node <> p.origin
                AND p.t >= w.`begin` + {settle} AND p.t < w.`end` - {settle}
            GROUP BY p.message, p.origin, p.origin_creation, p.topic, p.t, w.node
        ), faults AS (
            SELECT CASE WHEN gone OR t - ended < {stale_within} THEN 'stale' ELSE 'unneeded' END AS fault,
                origin, peer, topic, t AS moment, 0 AS since
            FROM known WHERE gone OR NOT valid
            UNION ALL
            SELECT 'missing', p.origin, p.peer, p.topic, p.t, p.since
            FROM owed p ANTI JOIN forwarded s ON {one_message} AND p.peer = s.peer
        ), judged AS (
            SELECT CASE WHEN {hidden} THEN 'undecidable' ELSE fault END AS fault, origin, peer, topic, moment
            FROM faults
        )
        SELECT fault, origin AS node, peer, topic, count(*) AS messages,
            timestamp_micros(min(moment)) AS first, timestamp_micros(max(moment)) AS last
        FROM judged GROUP BY fault, origin, peer, topic"""


def _hidden(recording: Recording, terms: Terms) -> str:
    """Return a condition: a hole may hide what would make a forward right."""
    # What seems unneeded may be right by who subscribed there, or came there subscribed, in any hole before.
    until = f"moment + {terms.late_after}"
    return recording.in_hole(
        f"""(h['node'] = origin AND h['begin'] <= {until} AND h['end'] >= moment - {terms.settle})
            OR ((h['node'] = peer OR fault = 'unneeded') AND h['begin'] <= {until} AND h['end'] >= since)""",
    )


def _places(few: str) -> str:
    """(filter, share, node, begin, end): where subscribers are, as they come, go and move."""
    # A session that is kept has its routes at the node it was last at, until it is somewhere else.
    return f"""
        SELECT * FROM (
            SELECT filter, share, node, greatest(`begin`, came) AS `begin`, least(`end`, went) AS `end`
            FROM ({subscriptions(few)}) s JOIN (
                SELECT client, node, `begin` AS came, CASE WHEN persistent THEN
                    coalesce(lead(`begin`) OVER (PARTITION BY client ORDER BY `begin`, `end`), {FOREVER})
                    ELSE `end` END AS went
                FROM ({connections(few)})
            ) c ON s.client = c.client)
        WHERE `begin` < `end`"""


def _downs(recording: Recording) -> str:
    """(at_node, lost, down, up): when a node held another for gone."""
    return f"""
        SELECT recorder AS at_node, peer AS lost, t AS down, up FROM (
            SELECT *, coalesce(lead(t) OVER (PARTITION BY recorder, peer ORDER BY t, hlc), {FOREVER}) AS up
            FROM {recording.events}
            WHERE t < {recording.end} AND {one_of(schema.NODE_DOWN, schema.NODE_UP)})
        WHERE event = '{schema.NODE_DOWN}'"""


def splits(recording: Recording) -> list[Split]:
    """The splits that were found, or stood, in the span."""
    kinds = one_of(
        *(schema.NODE_DOWN, schema.NODE_UP, schema.PARTITION, schema.HEALED, schema.OPENED, schema.CLOSED)
    )
    rows = recording.engine.rows(
        f"SELECT t, event, recorder, peer, reason, creation FROM {recording.events} WHERE {kinds}"
    )
    found = splits_of((Change(**row) for row in rows), last=recording.last)
    return [split for split in found if split.begin < recording.end and split.end > recording.begin]


def partitions(recording: Recording, judged: str) -> str:
    """The cost of each split, a row per side, with deliveries by verdict.

    (split, sides, side, begin, end, minutes, met, healed, clients, messages, delivered, late, …, missed):
    ``messages`` were published at the side while the split stood, and the verdicts are of these; ``missed``
    are deliveries lost that were for clients of the side. ``judged`` is the table of ``completeness``.
    """
    rows = [
        (
            *(number, " | ".join(map(", ".join, split.sides)), ", ".join(side), node),
            *(split.begin, split.end, split.met, split.healed),
        )
        for number, split in enumerate(splits(recording), 1)
        for side in split.sides
        for node in side
    ]
    nodes = recording.engine.table(
        "split BIGINT, sides STRING, side STRING, node STRING, `begin` BIGINT, `end` BIGINT, met BOOLEAN, "
        "healed BOOLEAN",
        rows,
    )
    verdicts = ", ".join(
        f"count(CASE WHEN verdict = '{verdict}' THEN 1 END) AS {verdict}" for verdict in VERDICTS
    )
    counted = ", ".join(
        f"coalesce({name}, 0) AS {name}" for name in ("clients", "messages", *VERDICTS, "missed")
    )

    def by_side(columns: str, rows: str, where: str) -> str:
        """Return a query: ``rows`` that match the condition at a side of a split while it lasted."""
        return f"""SELECT /*+ BROADCAST(n) */ n.split AS split, n.side AS side, {columns}
            FROM {nodes} n JOIN ({rows}) r ON n.node = r.node WHERE {where} GROUP BY n.split, n.side"""

    stood = "moment >= n.`begin` AND moment < n.`end`"
    sent = f"""SELECT recorder AS node, t AS moment, count AS run FROM {recording.events}
        WHERE event = '{schema.PUBLISHED}' AND {recording.within}"""
    fates = f"SELECT origin AS node, published_at AS moment, verdict FROM {judged}"
    missed = f"SELECT node, published_at AS moment FROM {judged} WHERE verdict = 'lost'"
    stays = f"""SELECT client, node, `begin` AS came, `end` AS went
        FROM ({connections(of_sessions(recording, until=recording.end))})"""
    there = "came < n.`end` AND went > n.`begin`"
    return f"""
        SELECT s.split, sides, s.side, timestamp_micros(`begin`) AS `begin`, timestamp_micros(`end`) AS `end`,
            round((`end` - `begin`) / 60000000, 2) AS minutes, met, healed, {counted}
        FROM (SELECT DISTINCT split, sides, side, `begin`, `end`, met, healed FROM {nodes}) s
        LEFT JOIN ({by_side("count(DISTINCT client) AS clients", stays, there)}) a
            ON s.split = a.split AND s.side = a.side
        LEFT JOIN ({by_side("CAST(sum(run) AS BIGINT) AS messages", sent, stood)}) b
            ON s.split = b.split AND s.side = b.side
        LEFT JOIN ({by_side(verdicts, fates, stood)}) c ON s.split = c.split AND s.side = c.side
        LEFT JOIN ({by_side("count(*) AS missed", missed, stood)}) d
            ON s.split = d.split AND s.side = d.side"""


def sessions(recording: Recording, *, flaps: int = 10) -> str:
    """One row per client that moved, flapped or lost messages of its queue.

    (client, connects, worst_hour, flapping, takeovers, nodes, dropped, overflows, reasons); ``flapping``:
    ``flaps`` connects or more within an hour; ``overflows``: of the dropped, those its full queue cost it.
    """
    overflows = ", ".join(f"'{reason}'" for reason in OVERFLOWS)
    dropped = f"event = '{schema.DROPPED}'"
    events = f"(SELECT * FROM {recording.events} WHERE {recording.within} AND client IS NOT NULL)"
    return f"""
        WITH came AS (
            SELECT client, CAST(floor(t / 3600000000) AS BIGINT) AS hour, count(*) AS n
            FROM {events} WHERE event = '{schema.CONNECTED}' GROUP BY 1, 2
        ), busy AS (
            SELECT client, CAST(sum(n) AS BIGINT) AS connects, max(n) AS worst_hour FROM came GROUP BY client
        ), noted AS (
            SELECT client, count(CASE WHEN event = '{schema.TAKEN_OVER}' THEN 1 END) AS takeovers,
                count(DISTINCT CASE WHEN event = '{schema.CONNECTED}' THEN recorder END) AS nodes,
                CAST(sum(CASE WHEN {dropped} THEN count ELSE 0 END) AS BIGINT) AS dropped,
                CAST(sum(CASE WHEN {dropped} AND reason IN ({overflows}) THEN count ELSE 0 END) AS BIGINT)
                    AS overflows,
                array_sort(collect_set(CASE WHEN {dropped} THEN reason END)) AS reasons
            FROM {events} WHERE {one_of(schema.CONNECTED, schema.TAKEN_OVER, schema.DROPPED)} GROUP BY client
        )
        SELECT t.client, coalesce(connects, 0) AS connects, coalesce(worst_hour, 0) AS worst_hour,
            coalesce(worst_hour, 0) >= {flaps} AS flapping, takeovers, nodes, dropped, overflows, reasons
        FROM noted t LEFT JOIN busy b ON t.client = b.client
        WHERE coalesce(worst_hour, 0) >= {flaps} OR takeovers > 0 OR dropped > 0"""
