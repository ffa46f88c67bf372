"""Queues: was every job done, and none twice without having been given again?

A *job* is a message in a queue for one consumer group. What should have happened is computed from what
publishers' nodes have told of their messages and consumers' nodes of theirs; what the leader of a queue tells
is why a message left it unsettled.

===========  ============================================================================================
done         one ``ack`` of a consumer was accepted
dead         it became a dead letter, or would have if these were kept
discarded    it left the queue by a limit, its age, a later one of its key, or because somebody said so
unsettled    it was given, and by the end of the recording nobody has said what became of it
waiting      it was not given yet, nor was any behind it, or it waits behind one of its key
doubled      two were accepted, it was given again after one, or to two consumers as one attempt
lost         it was passed over: those behind it were given, it never was, and it did not leave the queue
undecidable  as lost, where a hole may hide what became of it, or no quorum has answered who settled it
===========  ============================================================================================

Rules: 1. A job is owed to a consumer group from the first offset on that the group was given; a dead letter
that was given back, to the one that could not do it.  2. One that
was given again, with a higher attempt, was not done twice: it is said that this may happen.  3. Offsets of a
queue that was deleted begin anew, and those of a consumer group that was dropped come again: rows behind such
an end, up to its offset, are of the next *life*.  4. What a leader tells twice, or two do, counts once.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses import DOUBLED, LOST, UNDECIDABLE, Terms
from gossamer.spark.engine.engine import one_of
from gossamer.spark.source.source import MARGIN, Recording

DONE, DEAD, DISCARDED, UNSETTLED, WAITING = "done", "dead", "discarded", "unsettled", "waiting"
VERDICTS_ON_JOBS = (DONE, DEAD, DISCARDED, UNSETTLED, WAITING, DOUBLED, LOST, UNDECIDABLE)

_MESSAGE = "queue, life, queue_offset"
_JOB = f"{_MESSAGE}, consumer_group, group_life"
_SWEEPS = "('purged', 'deleted')"


def jobs(recording: Recording, terms: Terms) -> str:
    """One row per job: (queue, consumer_group, queue_offset, topic, publisher, client, node, appended_at,
    given_at, settled_at, given, attempts, too_late, verdict).

    ``given``: how often; ``attempts``: the last one's number; ``too_late``: settlements that came after it
    was another's. ``client`` and ``node`` are of who had it last. Times are microseconds since 1970.
    """
    parts = ", ".join(
        f"{name} AS ({question})"
        for name, question in (
            *(("noted", _noted(recording)), ("ends", _ENDS), ("placed", _PLACED)),
            *(("messages", _MESSAGES), ("of_groups", _GROUPS), ("came", _CAME), ("owed", _OWED)),
            *(("swept", _SWEPT), ("gone", _GONE), ("judged", _judged(recording, terms))),
        )
    )
    hidden = recording.in_hole(f"h['end'] >= appended_at - {terms.settle}")
    return f"""
        WITH {parts}
        SELECT queue, consumer_group, queue_offset, topic, publisher, client, node, appended_at, given_at,
            settled_at, given, attempts, too_late, CASE
                WHEN verdict IS NOT NULL THEN verdict
                WHEN topic <> '' AND behind = 1 THEN '{WAITING}'
                WHEN {hidden} THEN '{UNDECIDABLE}'
                ELSE '{LOST}' END AS verdict
        FROM (
            -- With ordering by key, one that is not settled holds up those of its key.
            SELECT *, max(CASE WHEN verdict = '{UNSETTLED}' THEN 1 END) OVER (
                PARTITION BY queue, life, consumer_group, group_life, topic ORDER BY queue_offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS behind
            FROM judged)
        WHERE coalesce(appended_at, first_at) >= {recording.begin}
            AND coalesce(appended_at, first_at) < {recording.end}"""


def _noted(recording: Recording) -> str:
    kinds = one_of(schema.APPENDED, schema.GIVEN, schema.SETTLED, schema.BURIED, schema.DISCARDED)
    return f"""
        SELECT event, queue, consumer_group, queue_offset, attempt, reason, entry, client, topic, recorder,
            creation, seq, t
        FROM {recording.events} WHERE {kinds}"""


_ENDS = """
    SELECT queue, consumer_group, queue_offset AS upto, min(t) AS ended FROM noted
    WHERE event = 'discarded' AND reason IN ('deleted', 'group_dropped')
    GROUP BY queue, consumer_group, queue_offset, entry"""

_PLACED = """
    SELECT /*+ BROADCAST(e) */ n.event, n.queue, n.consumer_group, n.queue_offset, n.attempt, n.reason,
        n.client, n.topic, n.recorder, n.t,
        count(CASE WHEN e.consumer_group IS NULL THEN e.ended END) AS life,
        count(CASE WHEN e.consumer_group = n.consumer_group THEN e.ended END) AS group_life
    FROM noted n LEFT JOIN ends e ON n.queue = e.queue AND n.queue_offset <= e.upto AND n.t > e.ended
    GROUP BY n.event, n.queue, n.consumer_group, n.queue_offset, n.attempt, n.reason, n.client, n.topic,
        n.recorder, n.t, n.creation, n.seq"""

_MESSAGES = f"""
    SELECT {_MESSAGE}, min(t) AS appended_at, max(topic) AS topic, max(client) AS publisher,
        max(consumer_group) AS only_for FROM placed
    WHERE event = 'appended' GROUP BY {_MESSAGE}"""

_GROUPS = """
    SELECT queue, life, consumer_group, group_life,
        min(CASE WHEN event = 'given' THEN queue_offset END) AS lowest,
        max(CASE WHEN event = 'given' THEN queue_offset END) AS highest,
        max(CASE WHEN reason = 'group_dropped' THEN queue_offset END) AS dropped
    FROM placed WHERE event = 'given' OR reason = 'group_dropped'
    GROUP BY queue, life, consumer_group, group_life"""

_OWED = """
    SELECT m.queue, m.life, m.queue_offset, g.consumer_group, g.group_life, appended_at, topic, publisher,
        highest, dropped
    FROM messages m LEFT JOIN of_groups g ON m.queue = g.queue AND m.life = g.life
    WHERE g.consumer_group IS NULL OR (coalesce(only_for, g.consumer_group) = g.consumer_group
        AND m.queue_offset >= g.lowest AND (dropped IS NULL OR m.queue_offset <= dropped))"""

_CAME = f"""
    SELECT {_JOB}, min(t) AS first_at,
        count(CASE WHEN event = 'given' THEN 1 END) AS given,
        count(DISTINCT CASE WHEN event = 'given' THEN attempt END) AS kinds,
        max(CASE WHEN event = 'given' THEN attempt END) AS attempts,
        min(CASE WHEN event = 'given' THEN t END) AS given_at,
        max(CASE WHEN event = 'given' AND nth = 1 THEN client END) AS client,
        max(CASE WHEN event = 'given' AND nth = 1 THEN recorder END) AS node,
        count(CASE WHEN reason = 'ack' THEN 1 END) AS acks,
        min(CASE WHEN reason = 'ack' THEN attempt END) AS acked,
        min(CASE WHEN reason = 'ack' THEN t END) AS settled_at,
        count(CASE WHEN reason = 'late' THEN 1 END) AS too_late,
        count(CASE WHEN reason = 'unknown' THEN 1 END) AS unknown,
        max(CASE WHEN event IN ('buried', 'discarded') OR reason = 'reject' THEN 1 ELSE 0 END) AS dead
    FROM (
        SELECT *, row_number() OVER (PARTITION BY {_JOB}, event ORDER BY attempt DESC, t DESC, client) AS nth
        FROM placed WHERE event IN ('given', 'settled', 'buried') OR reason = 'not_kept')
    GROUP BY {_JOB}"""

_SWEPT = f"""
    SELECT queue, life, max(queue_offset) AS upto FROM placed
    WHERE event = 'discarded' AND reason IN {_SWEEPS} GROUP BY queue, life"""

_GONE = f"""
    SELECT DISTINCT {_MESSAGE} FROM placed
    WHERE event = 'discarded' AND consumer_group IS NULL AND reason NOT IN {_SWEEPS}"""


def _judged(recording: Recording, terms: Terms) -> str:
    """All jobs; the verdict is null where one was passed over."""
    last = min(recording.last, recording.end + MARGIN) - terms.late_after
    # Distributed once, as in ``completeness``: what was owed beside what came.
    return f"""
        SELECT b.*, CASE
            WHEN acks > 1 OR attempts > acked OR given > kinds THEN '{DOUBLED}'
            WHEN acks = 1 THEN '{DONE}'
            WHEN dead = 1 THEN '{DEAD}'
            WHEN x.queue IS NOT NULL OR b.queue_offset <= upto OR b.queue_offset <= dropped
                THEN '{DISCARDED}'
            WHEN unknown > 0 THEN '{UNDECIDABLE}'
            WHEN given > 0 OR appended_at IS NULL THEN '{UNSETTLED}'
            WHEN consumer_group IS NULL OR b.queue_offset > highest OR appended_at >= {last}
                THEN '{WAITING}'
            END AS verdict
        FROM (
            SELECT {_JOB}, max(appended_at) AS appended_at, max(topic) AS topic, max(publisher) AS publisher,
                max(highest) AS highest, max(dropped) AS dropped, max(first_at) AS first_at,
                max(given) AS given, max(kinds) AS kinds, max(attempts) AS attempts,
                max(given_at) AS given_at, max(client) AS client, max(node) AS node, max(acks) AS acks,
                max(acked) AS acked, max(settled_at) AS settled_at, max(too_late) AS too_late,
                max(unknown) AS unknown, max(dead) AS dead
            FROM (
                SELECT {_JOB}, appended_at, topic, publisher, highest, dropped, NULL AS first_at, 0 AS given,
                    0 AS kinds, 0 AS attempts, NULL AS given_at, NULL AS client, NULL AS node, 0 AS acks,
                    NULL AS acked, NULL AS settled_at, 0 AS too_late, 0 AS unknown, 0 AS dead
                FROM owed
                UNION ALL
                SELECT {_JOB}, NULL, NULL, NULL, NULL, NULL, first_at, given, kinds, attempts, given_at,
                    client, node, acks, acked, settled_at, too_late, unknown, dead
                FROM came)
            GROUP BY {_JOB}) b
        LEFT JOIN swept s ON b.queue = s.queue AND b.life = s.life
        LEFT JOIN gone x ON b.queue = x.queue AND b.life = x.life AND b.queue_offset = x.queue_offset"""
