"""Schema of recordings, from the flow recorder to the audit jobs: events, columns, versions. Plain values.

One row is one event at one node. A message has an identifier from the moment a node takes it from a client
to its last acknowledgement, on every node: the origin (a node's name), the origin's creation and a number.
Messages that travel together (a run: one publisher, one topic, one read of the socket) are one row with
``count`` above 1 and stand for the numbers ``message`` to ``message + count - 1``.

Rules: 1. A version only ever adds columns that may be null and kinds of events; readers take what they know
and leave the rest. A change that breaks this is a new major version, in another directory.  2. ``seq`` is
contiguous per node and creation, so that whoever reads can tell what is missing; what a recorder had to drop
is a ``gap`` that takes as many numbers as it lost.  3. No payload is ever stored: its length, and a hash
under a key that stays on the node.  4. A time is two numbers: the hybrid logical clock orders events across
nodes, the wall clock says when it was for people; ``offset_us`` is what the node believed its wall clock to
be ahead of the others.

This module imports nothing, so that a job on a cluster without a broker can import it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAJOR: Final = 1
MINOR: Final = 2
VERSION: Final = f"{MAJOR}.{MINOR}"

METADATA_KEY: Final = b"gossamer.audit.version"
"""Key of a Parquet file's metadata under which it says its version."""

PARTITION_KEYS: Final = ("day", "hour", "node")
"""Directories below the recorder's: ``day=2026-01-31/hour=07/node=node1%40127.0.0.1``, times in UTC."""


class Column(NamedTuple):
    """One column: its name, its type in Spark's words, and what stands in it."""

    name: str
    type: str
    meaning: str
    required: bool = False


class Event(NamedTuple):
    """One kind of event: when it is written, and which columns it fills beside those every event has."""

    name: str
    meaning: str
    columns: tuple[str, ...]


COLUMNS: Final = (
    Column("seq", "bigint", "number of the event at its recorder, contiguous per node and creation", True),
    Column("event", "string", "kind of event", True),
    Column("hlc", "bigint", "hybrid logical clock: milliseconds since 1970 above 16 bits of counter", True),
    Column("at", "timestamp", "the node's wall clock, microseconds, UTC", True),
    Column("offset_us", "bigint", "how far that clock is believed to be ahead; null: unknown"),
    Column("recorder", "string", "the node that wrote the event", True),
    Column("creation", "bigint", "which life of that node", True),
    Column("origin", "string", "the node that took the message from its publisher"),
    Column("origin_creation", "bigint", "which life of the origin"),
    Column("message", "bigint", "number of the (first) message at its origin"),
    Column("count", "int", "how many messages with numbers from there on; for a gap: events lost", True),
    Column("topic", "string", "topic name"),
    Column("qos", "tinyint", "of the message; for a subscription: the maximum granted"),
    Column("retain", "boolean", "the message is marked as retained"),
    Column("size", "bigint", "bytes of payload, all messages of the row together"),
    Column("payload_hash", "bigint", "BLAKE2b of the payload under the node's key, 64 bits; null for runs"),
    Column("client", "string", "client identifier, or its pseudonym"),
    Column("peer", "string", "the other node"),
    Column("filter", "string", "topic filter, without a share prefix"),
    Column("share", "string", "share group of a subscription or a delivery; null: not shared"),
    Column("no_local", "boolean", "the subscription does not take its own client's messages"),
    Column("filters", "array<string>", "the filters that matched"),
    Column("nodes", "array<string>", "the nodes that a message goes to"),
    Column("persistent", "boolean", "the client's session outlives its connection"),
    Column("present", "boolean", "a session was there for the client that connected"),
    Column("role", "string", "who acknowledged to whom: publisher (to it) or subscriber (from it)"),
    Column("reason", "string", "why; a reason code's name or one of gossamer's own"),
    Column("detail", "string", "JSON object; differs by event"),
    Column("queue", "string", "name of a queue"),
    Column("consumer_group", "string", "consumer group of a queue; null: all of them"),
    Column("queue_offset", "bigint", "offset of a message in its queue"),
    Column("attempt", "int", "how often a consumer group was given the message, with this"),
    Column("entry", "bigint", "index of the entry in the log of the queue's replication group"),
)

PUBLISHED: Final = "published"
ROUTED: Final = "routed"
FORWARDED: Final = "forwarded"
RECEIVED: Final = "received"
DELIVERED: Final = "delivered"
ACKNOWLEDGED: Final = "acknowledged"
DROPPED: Final = "dropped"
RETAINED: Final = "retained"
CONNECTED: Final = "connected"
DISCONNECTED: Final = "disconnected"
ENDED: Final = "ended"
SUBSCRIBED: Final = "subscribed"
UNSUBSCRIBED: Final = "unsubscribed"
TAKEN_OVER: Final = "taken_over"
NODE_UP: Final = "node_up"
NODE_SUSPECT: Final = "node_suspect"
NODE_DOWN: Final = "node_down"
PARTITION: Final = "partition"
HEALED: Final = "healed"
OPENED: Final = "opened"
BEAT: Final = "beat"
GAP: Final = "gap"
CLOSED: Final = "closed"
APPENDED: Final = "appended"
GIVEN: Final = "given"
SETTLED: Final = "settled"
BURIED: Final = "buried"
DISCARDED: Final = "discarded"

_MESSAGE = ("origin", "origin_creation", "message", "count")
_JOB = ("queue", "consumer_group", "queue_offset", "attempt")

# Journals name events by their place: new ones come last, and new columns of an event behind its others.
EVENTS: Final = (
    Event(
        PUBLISHED,
        "a client's message was taken",
        (*_MESSAGE, "topic", "qos", "retain", "size", "payload_hash", "client"),
    ),
    Event(
        ROUTED,
        "what the node decided: filters of its own clients that matched, nodes that it goes to",
        (*_MESSAGE, "topic", "filters", "nodes", "share", "peer"),
    ),
    Event(FORWARDED, "handed to the link to a peer", (*_MESSAGE, "peer")),
    Event(RECEIVED, "came from a peer and was dispatched", (*_MESSAGE, "topic", "peer")),
    Event(
        DELIVERED,
        "sent to a subscriber for the first time; reason retained: because it was stored",
        (*_MESSAGE, "client", "qos", "retain", "share", "filter", "reason"),
    ),
    Event(
        ACKNOWLEDGED, "the last acknowledgement of its QoS was sent or came", (*_MESSAGE, "client", "role")
    ),
    Event(DROPPED, "will not be delivered to this client or peer", (*_MESSAGE, "client", "peer", "reason")),
    Event(RETAINED, "stored for later subscribers; size 0: cleared", (*_MESSAGE, "topic", "size")),
    Event(
        CONNECTED,
        "CONNACK was sent, or had been when recording began",
        ("client", "persistent", "present", "detail"),
    ),
    Event(DISCONNECTED, "the connection ended", ("client", "persistent", "reason")),
    Event(ENDED, "the session is no more, its subscriptions with it", ("client", "reason")),
    Event(
        SUBSCRIBED,
        "SUBACK was sent: every live node routes it; reason moved: with its session to this node, "
        "standing: held when recording began",
        ("client", "filter", "share", "qos", "no_local", "reason"),
    ),
    Event(UNSUBSCRIBED, "UNSUBACK was sent", ("client", "filter", "share")),
    Event(TAKEN_OVER, "the session moved here", ("client", "peer")),
    Event(NODE_UP, "a link to a peer stands", ("peer", "detail")),
    Event(NODE_DOWN, "a peer is gone: down, or left", ("peer", "reason")),
    Event(PARTITION, "a split was found", ("peer", "reason", "detail")),
    Event(HEALED, "a split was healed", ("detail",)),
    Event(OPENED, "the recorder started; detail: what share it samples", ("detail",)),
    Event(BEAT, "nothing else happened for a while, and nothing is missing", ()),
    Event(GAP, "as many events as count were lost since the row before", ("count", "reason")),
    Event(CLOSED, "the recorder stopped in order", ()),
    Event(NODE_SUSPECT, "a member did not answer, and has the time of a suspicion to do so", ("peer",)),
    Event(
        APPENDED,
        "a quorum has a message in a queue, whose key is the topic: told by its publisher's node; reason "
        "dead_letter, or replayed, to the consumer group that could not do it: by the node that leads",
        (
            *(*_MESSAGE, "topic", "size", "client", "queue", "queue_offset", "reason", "entry"),
            "consumer_group",
        ),
    ),
    Event(GIVEN, "a consumer of this node was given it; again, where attempt is above 1", (*_JOB, "client")),
    Event(
        SETTLED,
        "what a consumer of this node says of it: ack, nack, reject; late: another one has it by now; "
        "unknown: no quorum has answered; refused",
        (*_JOB, "client", "reason"),
    ),
    Event(
        BURIED, "it became a dead letter, and why: told by the node that leads", (*_JOB, "reason", "entry")
    ),
    Event(
        DISCARDED,
        "it left the queue, told by the node that leads: limit, expired, superseded (by one of its key), "
        "not_kept (a dead letter), replayed; all up to the offset: purged, deleted, group_dropped",
        (*_JOB, "reason", "entry"),
    ),
)


def spark_schema() -> str:
    """The columns as a schema that Spark's readers take."""
    return ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)


def version_of(text: str) -> tuple[int, int]:
    """(major, minor) of a version as files state it.

    Raises:
        ValueError: it is none.
    """
    major, _, minor = text.partition(".")
    return int(major), int(minor)
