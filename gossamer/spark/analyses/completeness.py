"""Completeness: was every published message delivered to all its receivers, once and in time?

What *should* have happened is computed from the subscriptions that were valid at the moment, and not
from what the router says it did, so that a wrong route is found like a broken link. What did happen is what
nodes recorded when they wrote to their subscribers.

Verdicts, one per message and receiver (a client, or a share group as a whole):

=============  ==========================================================================================
delivered      once, within ``late_after`` of ``deliverable_at``
late           once, but later than that
doubled        more than once
lost           never, though the subscription and the connection (or the session) stood; ``hop`` says where
queued         never yet: the client has not been back
misrouted      delivered to a client without a matching subscription
undecidable    a recorder was not looking at the time: nothing can be said
=============  ==========================================================================================

``deliverable_at`` is when the receiver could have had it: when it was published or, by a client that was
away, when it came back. ``late_by_us`` counts from there, so that the hours for which a client was away are
no delay of the cluster's.

Rules: 1. A client that subscribes, unsubscribes, connects or leaves within ``settle`` of the publish may get
the message or not: if it came it is judged, if not it was not owed.  2. QoS 0 is owed to clients that are
connected; higher ones also to persistent sessions.  3. A message acknowledged by a share group's member was
delivered to the group.  4. The verdict of a message that was lost, or has no recorded publish, is undecidable
where a hole of the recording may hide its delivery, or a change of a subscription (``explain``).  5. The
numbers add up:
owed = delivered + late + doubled + lost + queued, and the undecidable beside them.
"""

from __future__ import annotations

import gossamer.audit.schema as schema
from gossamer.spark.analyses import DELIVERED, DOUBLED, LATE, LOST, MISROUTED, QUEUED, Terms
from gossamer.spark.analyses.explain import explain
from gossamer.spark.analyses.histories import MESSAGE_KEY, RECEIVER, each_message, of_sessions
from gossamer.spark.analyses.owed import SALTED_FROM, owed, published
from gossamer.spark.source.source import Recording

BROADCAST_UP_TO = 1_000_000
"""Doubts whose messages are few enough to be known to every task."""

FROM_STORE = "retained"
"""Reason of a delivery that answers a subscription with what was stored, and no publish."""

COLUMNS = (
    f"{MESSAGE_KEY}, topic, publisher, receiver, node, published_at, deliverable_at, delivered_at, "
    "late_by_us, copies, verdict, hop"
)
"""Of the table. Times are microseconds since 1970."""


def verdicts(recording: Recording, terms: Terms = Terms(), *, salted_from: int = SALTED_FROM) -> str:  # noqa: B008 - a frozen value
    """One row per (message, receiver): ``COLUMNS``.

    ``salted_from``: messages of one topic in a quarter of an hour from which on several tasks share them.
    Counts what is in doubt at once, and is lazy about the rest.
    """
    engine = recording.engine
    # After the span: what was published in it may arrive a little later. Before it: subscriptions only.
    until = recording.end + terms.late_after
    few = of_sessions(recording, until=until)
    due = owed(published(recording), few, recording, terms, salted_from=salted_from)
    both = _together(due, _came(recording, until))
    judged = engine.keep(_judge(both, terms), large=True)
    doubtful = f"SELECT * FROM {judged} WHERE verdict IN ('{LOST}', '{MISROUTED}')"
    sound = f"SELECT {COLUMNS} FROM {judged} WHERE verdict NOT IN ('{LOST}', '{MISROUTED}')"
    count = engine.rows(f"SELECT count(*) AS n FROM ({doubtful})")[0]["n"]
    if not count:
        return sound
    flow = f"SELECT * FROM {recording.events} WHERE t < {until}"
    explained = explain(doubtful, flow, few, recording, terms, few_doubts=count <= BROADCAST_UP_TO)
    return f"{sound} UNION ALL SELECT {COLUMNS} FROM ({explained})"


def _together(due: str, came: str) -> str:
    """A row per message and receiver: what was owed, beside what came."""
    key = f"{MESSAGE_KEY}, receiver"
    # Distributed once, by hand: nearly every key has a row or two, so that adding up before the shuffle as
    # Spark would do sorts everything twice for nothing.
    return f"""
        SELECT {key}, max(topic) AS topic, max(publisher) AS publisher, max(published_at) AS published_at,
            max(certain) AS certain, max(chance) AS chance, min(held) AS held_since,
            min(deliverable_at) AS deliverable_at, coalesce(max(delivered_by), max(node)) AS node,
            count(delivered_at) AS copies, min(delivered_at) AS delivered_at
        FROM (
            SELECT /*+ REPARTITION({key}) */ * FROM (
                SELECT {key}, topic, publisher, published_at, certain, chance, held, deliverable_at, node,
                    NULL AS delivered_at, NULL AS delivered_by
                FROM ({due})
                UNION ALL
                SELECT {key}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, delivered_at, delivered_by
                FROM ({came})))
        GROUP BY {key}"""


def _came(recording: Recording, until: int) -> str:
    return each_message(
        f"{RECEIVER} AS receiver, t AS delivered_at, recorder AS delivered_by",
        recording.events,
        f"event = '{schema.DELIVERED}' AND coalesce(reason, '') <> '{FROM_STORE}' "
        f"AND t >= {recording.begin} AND t < {until}",
    )


def _judge(both: str, terms: Terms) -> str:
    return f"""
        SELECT *, CAST(NULL AS STRING) AS hop FROM (
            SELECT *, delivered_at - deliverable_at AS late_by_us, CASE
                WHEN published_at IS NULL THEN '{MISROUTED}'
                WHEN copies > 1 THEN '{DOUBLED}'
                WHEN copies = 1 AND delivered_at > deliverable_at + {terms.late_after} THEN '{LATE}'
                WHEN copies = 1 THEN '{DELIVERED}'
                WHEN NOT certain THEN NULL
                WHEN NOT chance THEN '{QUEUED}'
                ELSE '{LOST}' END AS verdict
            FROM (
                SELECT {MESSAGE_KEY}, receiver, topic, publisher, published_at, certain, chance, held_since,
                    -- A client that was away could have it from when it came back; till then, never.
                    CASE WHEN published_at IS NOT NULL AND (copies > 0 OR deliverable_at IS NOT NULL)
                        THEN greatest(published_at, deliverable_at) END AS deliverable_at,
                    node, copies, delivered_at
                FROM ({both})))
        WHERE verdict IS NOT NULL"""
