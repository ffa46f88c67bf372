"""Receivers of each message: certain ones, and possible ones.

Every subscription is cut by its client's connections (``histories.stretches``) and by the clock into slots,
so that a message joins its receivers on topic and slot and keeps those whose span contains it.

Rules: 1. Slots bound the rows that a message is compared with: a client that reconnects a hundred times a day
has the stretches of the quarter of an hour, and twice the time is twice the work.  2. A topic with most of
the messages would be one task's: its messages are spread over as many salts as they fill, and its receivers
are repeated for each.  3. No cross joins: all joins are on equality.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses import Terms
from gossamer.spark.analyses.histories import FOREVER, RECEIVER, each_message, stretches, subscriptions
from gossamer.spark.analyses.topics import match
from gossamer.spark.source.source import Recording

SLOT = 15 * 60 * 1_000_000
"""Microseconds."""
SALTED_FROM = 100_000
"""Messages of one topic in one slot that are one task's work."""
_MOST_SALTS = 1024


def published(recording: Recording) -> str:
    """A row per message: its key, (topic, sent_qos, publisher, published_at, slot)."""
    columns = f"topic, qos AS sent_qos, client AS publisher, t AS published_at, {_slot('t')} AS slot"
    return each_message(columns, recording.events, f"event = '{schema.PUBLISHED}' AND {recording.within}")


def hot_topics(busy: str, salted_from: int) -> str:
    """(topic, slot, salts) of those of ``busy`` whose messages (``n``) are more than one task's work."""
    salts = f"CAST(least(ceil(n / {salted_from}), {_MOST_SALTS}) AS BIGINT) AS salts"
    return f"SELECT topic, slot, {salts} FROM {busy} WHERE n > {salted_from}"


def salted(messages: str, hot: str) -> str:
    """``messages`` with ``salt``: by its number, which of its topic's salts each is of; 0 if it has none."""
    # The hot ones are few by arithmetic: a hundredth of a thousandth of all messages at most.
    return f"""
        SELECT /*+ BROADCAST(h) */ m.*, coalesce(pmod(m.message, h.salts), 0) AS salt
        FROM {messages} m LEFT JOIN {hot} h ON m.topic = h.topic AND m.slot = h.slot"""


def owed(
    messages: str, few: str, recording: Recording, terms: Terms, *, salted_from: int = SALTED_FROM
) -> str:
    """A row per message, receiver and filter by which it takes it; see ``completeness`` for the columns.

    ``messages`` is what ``published`` asks for.
    """
    pairs = match("SELECT DISTINCT topic FROM busy", "SELECT DISTINCT filter FROM receivers")
    # QoS 0 is for connected clients; the rest waits in a session that is kept.
    certain = """((published_at >= sure_from AND published_at < sure_to)
        OR (published_at >= kept_from AND published_at < kept_to AND least(sent_qos, qos) > 0))"""
    return f"""
        WITH messages AS ({messages}), busy AS (
            SELECT topic, slot, count(*) AS n FROM messages GROUP BY topic, slot
        ), hot AS ({hot_topics("busy", salted_from)}), receivers AS ({_receivers(few, recording, terms)}),
        pairs AS ({pairs}), salts AS (
            SELECT /*+ BROADCAST(h) */ b.topic, b.slot,
                explode(sequence(CAST(0 AS BIGINT), coalesce(h.salts, 1) - 1)) AS salt
            FROM busy b LEFT JOIN hot h ON b.topic = h.topic AND b.slot = h.slot
        ), met AS (
            SELECT s.topic, s.salt, k.* FROM salts s JOIN pairs p ON s.topic = p.topic
            JOIN receivers k ON k.filter = p.filter AND k.slot = s.slot
        )
        SELECT message, origin, origin_creation, receiver, m.topic, publisher, published_at,
            {certain} AS certain, published_at < stays_until OR later IS NOT NULL AS chance, held,
            CASE WHEN online THEN published_at ELSE later END AS deliverable_at,
            -- Where the client was; of a group, any of its members' nodes.
            CASE WHEN {certain} THEN node END AS node
        FROM ({salted("messages", "hot")}) m
        JOIN met k ON m.topic = k.topic AND m.slot = k.slot AND m.salt = k.salt
        WHERE published_at >= `from` AND published_at < `to`
            AND NOT (no_local AND coalesce(publisher = client, false))"""


def _slot(moment: str) -> str:
    return f"CAST(floor(({moment}) / {SLOT}) AS BIGINT)"


def _receivers(few: str, recording: Recording, terms: Terms) -> str:
    """Subscriptions, cut by their clients' stretches and by slots.

    (filter, slot, client, receiver, qos, no_local, held, online, node, later, from, to, sure_from, sure_to,
    kept_from, kept_to, stays_until): a message of [from, to) may be for it, one of [sure_from, sure_to) is
    since the client was connected, one of [kept_from, kept_to) since its session was kept. A connection
    that ends before ``stays_until`` with a session that is not kept takes the message with it.
    """
    settle = terms.settle
    return f"""
        SELECT *, explode(sequence({_slot("`from`")}, {_slot("`to` - 1")})) AS slot FROM (
            SELECT filter, client, receiver, qos, no_local, held, online, node, later,
                greatest(`begin`, held - {settle}, {recording.begin}) AS `from`,
                least(`end`, gone + {settle}, {recording.end}) AS `to`,
                greatest(`begin`, held) + {settle} AS sure_from,
                CASE WHEN online THEN least(`end`, gone) - {settle} ELSE 0 END AS sure_to,
                CASE WHEN persistent THEN held + {settle} ELSE {FOREVER} END AS kept_from,
                gone - {settle} AS kept_to,
                CASE WHEN online THEN `end` - {settle - 1} ELSE 0 END AS stays_until
            FROM (
                SELECT h.filter, h.client, h.qos, h.no_local, h.`begin` AS held, h.`end` AS gone,
                    s.node, s.later,
                    h.receiver, coalesce(s.online, false) AS online,
                    coalesce(s.persistent, false) AS persistent,
                    coalesce(s.`begin`, 0) AS `begin`, coalesce(s.`end`, {FOREVER}) AS `end`
                FROM (SELECT *, {RECEIVER} AS receiver FROM ({subscriptions(few)})) h
                LEFT JOIN ({stretches(few)}) s ON h.client = s.client))
        WHERE `from` < `to`"""
