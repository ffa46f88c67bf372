"""Histories: messages, subscriptions and connections as rows with a beginning and an end.

Functions take the names of views and give questions (``engine``).

Rules: 1. Times are ``t`` of ``source``, microseconds; an interval holds its beginning and not its end, and
one that has not ended ends at ``FOREVER``.  2. A subscription lasts until it is replaced, ended by
UNSUBSCRIBE, or gone with its session; a move to another node does not end it.  3. A connection lasts until
the client disconnects or connects again: what the node it left says later does not end the new one.  4. A
run of messages is one row per message from here on.  5. What a session lives through is cut into stretches
in each of which it is connected, or away, all the time: what was true at a moment is then one row, found by
comparing numbers.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import one_of
from gossamer.spark.source.source import Recording

FOREVER = 2**62

MESSAGE_KEY = "message, origin, origin_creation"
"""The name of a message. The number first: it tells most apart, and sorting looks at it first."""

RECEIVER = "CASE WHEN share IS NOT NULL THEN '$share/' || share || '/' || filter ELSE client END"
"""The receiver that is to get a message once: a client, or a share group as a whole."""

_COLUMNS = "client, filter, share, qos, no_local, present, persistent, recorder, event, reason, peer, t, hlc"
_OF_SESSIONS = one_of(
    schema.CONNECTED,
    schema.DISCONNECTED,
    schema.SUBSCRIBED,
    schema.UNSUBSCRIBED,
    schema.ENDED,
    schema.TAKEN_OVER,
)
_ORDER = "ORDER BY t, hlc, event"
"""Of what one client lived through; the last so that every engine takes the same where two are equal."""


def of_sessions(recording: Recording, *, until: int) -> str:
    """The events before ``until`` that ``subscriptions`` and ``connections`` need: few, and kept."""

    def few(events: str) -> str:
        return f"SELECT {_COLUMNS} FROM {events} WHERE t < {until} AND {_OF_SESSIONS}"

    question = f"{few(recording.events)} AND t >= {recording.earlier_until}"
    if recording.earlier is not None:
        question += f" UNION ALL {few(recording.earlier)}"
    return recording.engine.keep(question)


def standing(few: str) -> str:
    """Return a query: the state after ``few``: held subscriptions, and the last node of each client."""
    columns = ", ".join(f"e.{name}" for name in _COLUMNS.split(", "))
    last = one_of(schema.CONNECTED, schema.DISCONNECTED, schema.ENDED)
    return f"""
        SELECT {columns} FROM {few} e SEMI JOIN (
            SELECT client, filter, coalesce(share, '') AS share, `begin` FROM ({subscriptions(few)})
            WHERE `end` = {FOREVER}
        ) h ON e.client = h.client AND e.filter = h.filter AND coalesce(e.share, '') = h.share
            AND e.t = h.`begin`
        WHERE e.event = '{schema.SUBSCRIBED}'
        UNION ALL
        SELECT {_COLUMNS} FROM (
            SELECT *, row_number() OVER (PARTITION BY client, event ORDER BY t DESC, hlc DESC) AS place
            FROM {few} WHERE {last})
        WHERE place = 1"""


def same(a: str, b: str) -> str:
    """A condition: rows ``a`` and ``b`` are of one message."""
    return " AND ".join(f"{a}.{name} = {b}.{name}" for name in MESSAGE_KEY.split(", "))


def each_message(columns: str, events: str, where: str) -> str:
    """One row per message of rows that may stand for runs: what names it, and ``columns``."""
    run = "explode(sequence(message, message + count - 1)) AS message"
    return f"SELECT {run}, origin, origin_creation, {columns} FROM {events} WHERE {where}"


def subscriptions(few: str) -> str:
    """(client, filter, share, qos, no_local, begin, end)."""
    changed = one_of(schema.SUBSCRIBED, schema.UNSUBSCRIBED)
    following = f"PARTITION BY client, filter, share {_ORDER}"
    # A client that finds no session has lost its last one's state, whether its end was recorded or not. What
    # moves with its session, or stood when recording began, goes on as it was.
    return f"""
        WITH changes AS (
            SELECT client, filter, share, qos, coalesce(no_local, false) AS no_local, event, reason, t, hlc
            FROM {few} WHERE {changed}
            UNION ALL
            SELECT h.client, h.filter, h.share, NULL, false, '{schema.ENDED}', NULL, e.t, e.hlc FROM {few} e
            JOIN (SELECT DISTINCT client, filter, share FROM {few} WHERE {changed}) h ON e.client = h.client
            WHERE e.event = '{schema.ENDED}'
                OR (e.event = '{schema.CONNECTED}' AND NOT coalesce(e.present, true))
        ), marked AS (
            SELECT *, coalesce(
                reason IN ('moved', 'standing') AND event = '{schema.SUBSCRIBED}'
                AND lag(event) OVER ({following}) = '{schema.SUBSCRIBED}', false) AS goes_on
            FROM changes
        )
        SELECT client, filter, share, qos, no_local, t AS `begin`, `end` FROM (
            SELECT *, coalesce(lead(t) OVER ({following}), {FOREVER}) AS `end` FROM marked WHERE NOT goes_on)
        WHERE event = '{schema.SUBSCRIBED}'"""


def connections(few: str) -> str:
    """(client, node, persistent, begin, end)."""
    changed = one_of(schema.CONNECTED, schema.DISCONNECTED)
    came = f"event = '{schema.CONNECTED}'"
    return f"""
        SELECT client, node, persistent, t AS `begin`, `end` FROM (
            SELECT *, coalesce(lead(t) OVER (PARTITION BY client {_ORDER}), {FOREVER}) AS `end` FROM (
                SELECT *, max(CASE WHEN {came} THEN node END) OVER (PARTITION BY client, nth) AS at_node
                FROM (
                    SELECT client, recorder AS node, persistent, event, t, hlc,
                        count(CASE WHEN {came} THEN 1 END) OVER (
                            PARTITION BY client {_ORDER} ROWS UNBOUNDED PRECEDING) AS nth
                    FROM {few} WHERE {changed}))
            WHERE {came} OR node = at_node)
        WHERE {came}"""


def stretches(few: str) -> str:
    """(client, online, node, persistent, came, later, next_node, begin, end): spans of each client that cover
    0 to FOREVER. ``node``, ``persistent`` and ``came`` are of its latest connection so far; ``later`` is the
    time of its next one, and ``next_node`` the node; null where there is none.
    """
    order = "PARTITION BY client ORDER BY `begin`, `end`"
    return f"""
        WITH stays AS (
            SELECT *, lead(`begin`) OVER ({order}) AS later, lead(node) OVER ({order}) AS next_node,
                row_number() OVER ({order}) AS nth
            FROM ({connections(few)})
        )
        SELECT * FROM (
            SELECT client, true AS online, node, persistent, `begin` AS came, later, next_node, `begin`, `end`
            FROM stays
            UNION ALL
            SELECT client, false, node, persistent, `begin`, later, next_node, `end`,
                coalesce(later, {FOREVER})
            FROM stays
            UNION ALL
            SELECT client, false, NULL, NULL, NULL, `begin`, node, 0, `begin` FROM stays WHERE nth = 1)
        WHERE `begin` < `end`"""
