"""Places where messages were lost, and verdicts that a hole in the recording takes back.

Only what seems lost or misrouted comes here, which is little: everything else was judged by what is there.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses import LOST, MISROUTED, UNDECIDABLE, Terms
from gossamer.spark.analyses.histories import MESSAGE_KEY, each_message, same, stretches
from gossamer.spark.engine.engine import one_of
from gossamer.spark.source.source import Recording

_SAME = same("d", "w")


def explain(
    doubtful: str, events: str, few: str, recording: Recording, terms: Terms, *, few_doubts: bool
) -> str:
    """Say where a message was lost, and take back what a hole in the recording may hide."""
    flow = each_message(
        "event, recorder, peer, client, topic, reason, t",
        f"({events})",
        one_of(schema.FORWARDED, schema.RECEIVED, schema.DROPPED, schema.PUBLISHED),
    )
    until = f"greatest(moment, coalesce(deliverable_at, moment)) + {terms.late_after}"
    fresh = f"verdict = '{LOST}' AND deliverable_at + {terms.late_after} > {recording.last}"
    # A message whose publish lies outside the span, though known, is not this span's to judge.
    return f"""
        WITH doubts AS ({doubtful}), wanted AS (SELECT DISTINCT {MESSAGE_KEY} FROM doubts), flow AS (
            SELECT {"/*+ BROADCAST(w) */" if few_doubts else ""} d.* FROM ({flow}) d
            SEMI JOIN wanted w ON {_SAME}
        ), evidence AS ({_evidence()}), dated AS (
            SELECT d.message, d.origin, d.origin_creation, d.receiver, d.publisher, d.node,
                coalesce(d.topic, w.true_topic) AS topic,
                coalesce(d.published_at, w.true_time) AS published_at, d.delivered_at,
                d.deliverable_at, d.late_by_us, d.held_since, d.copies, d.verdict,
                w.known, w.sent, w.got, w.why,
                coalesce(d.published_at, w.true_time, d.delivered_at) AS moment
            FROM doubts d JOIN evidence w ON {_SAME} AND d.receiver = w.receiver
            WHERE d.verdict <> '{MISROUTED}' OR NOT w.known
                OR (w.true_time >= {recording.begin} AND w.true_time < {recording.end})
        ), placed AS (
            SELECT d.*, s.node AS stay_node, coalesce(s.came, 0) AS came,
                coalesce(s.persistent, true) AS kept,
                NOT coalesce(s.online, false) AS away, s.later, s.next_node
            FROM dated d LEFT JOIN ({stretches(few)}) s
                ON d.receiver = s.client AND d.moment >= s.`begin` AND d.moment < s.`end`
        ), timed AS (
            SELECT *, {until} AS until FROM placed
        ), hidden AS (
            SELECT *, {_hidden(recording, terms)} AS hidden FROM timed
        )
        SELECT {MESSAGE_KEY}, topic, publisher, receiver, node, published_at, deliverable_at, delivered_at,
            late_by_us, copies, CASE
                WHEN (verdict = '{MISROUTED}' AND NOT known) OR hidden OR ({fresh}) THEN '{UNDECIDABLE}'
                ELSE verdict END AS verdict, CASE
                WHEN verdict = '{MISROUTED}' AND NOT known THEN 'its publish was not recorded'
                WHEN hidden THEN 'the recording has a hole there'
                WHEN {fresh} THEN 'the recording ends too soon after it'
                WHEN verdict = '{MISROUTED}' THEN node || ': not subscribed'
                WHEN why IS NOT NULL THEN why
                WHEN (node = origin OR got) AND later <= until AND next_node <> node
                    THEN node || ' to ' || next_node || ': lost as the session moved'
                WHEN node = origin THEN origin || ': not delivered'
                WHEN NOT sent THEN origin || ' to ' || node || ': not forwarded'
                WHEN NOT got THEN origin || ' to ' || node || ': lost on the link'
                ELSE node || ': not delivered' END AS hop
        FROM hidden"""


def _evidence() -> str:
    """(message, receiver, known, true_topic, true_time, sent, got, why): evidence on each doubt."""
    published = f"w.event = '{schema.PUBLISHED}'"
    dropped_for = "(w.client = d.receiver OR (w.client IS NULL AND (w.peer = d.node OR w.peer IS NULL)))"
    return f"""
        SELECT d.message, d.origin, d.origin_creation, d.receiver,
            coalesce(max({published}), false) AS known,
            max(CASE WHEN {published} THEN w.topic END) AS true_topic,
            max(CASE WHEN {published} THEN w.t END) AS true_time,
            coalesce(max(w.event = '{schema.FORWARDED}' AND w.peer = d.node), false) AS sent,
            coalesce(max(w.event = '{schema.RECEIVED}' AND w.recorder = d.node), false) AS got,
            min(CASE WHEN w.event = '{schema.DROPPED}' AND {dropped_for}
                THEN w.recorder || ': dropped, ' || w.reason END) AS why
        FROM doubts d LEFT JOIN flow w ON {_SAME}
        GROUP BY d.message, d.origin, d.origin_creation, d.receiver"""


def _hidden(recording: Recording, terms: Terms) -> str:
    """Return a condition: a hole may hide what would change the verdict.

    At the origin, that it was dropped or forwarded. Where the receiver was: the delivery, and any change of
    its subscriptions since it came. Anywhere, while it was not known to be somewhere else: that it came
    there, and what it did. So a client that is connected at a node whose recording is whole is judged
    whatever is missing of others.
    """
    # What a session keeps may have been changed wherever the client was before.
    before = "CASE WHEN kept THEN least(coalesce(held_since, 0), came) ELSE came END"

    def met(low: str, high: str) -> str:
        return f"(h['begin'] <= {high} AND h['end'] >= {low})"

    return recording.in_hole(
        f"""(h['node'] = origin AND {met(f"moment - {terms.settle}", "until")})
            OR (h['node'] = coalesce(stay_node, node) AND {met(before, "until")})
            OR (kept AND {met(before, "came")}) OR (away AND {met(before, "until")})""",
    )
