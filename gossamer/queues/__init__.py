"""Queues: messages that wait for a consumer, at a quorum of nodes, until one of each consumer group has done
them.
 Queues of one *replication group* are the state machine of one Raft group. ``queue`` is one queue and
``consumers`` one consumer group, without clock and I/O, ``machine`` all of a replication group; ``port`` is
what the parts of a node use, ``server`` carries it out, and ``client`` is for any process.
"""

from gossamer.queues.client import (
    ack,
    append,
    consume,
    create,
    delete,
    drop_group,
    list_queues,
    nack,
    peek,
    purge,
    reject,
    replay,
    show,
)
from gossamer.queues.errors import (
    BadStartError,
    DeadLettersElsewhereError,
    GroupChangeError,
    GroupInUseError,
    NoDeadLetterError,
    NotDoneError,
    NotHeldError,
    QueueFullError,
    TooLargeError,
    TooManyGroupsError,
    UnknownQueueError,
    error_of,
    why_of,
)
from gossamer.queues.machine import QueueMachine
from gossamer.queues.port import KIND, LocalConsumer, Queues, kind_of
from gossamer.queues.questions import queues_in
from gossamer.queues.server import QUEUES, QueueServer, Told
from gossamer.queues.values import (
    Assigned,
    ConsumerStats,
    GroupStats,
    Job,
    Message,
    Outcome,
    QueueDetails,
    QueueStats,
    Why,
)

__all__ = [
    "KIND",
    "QUEUES",
    "Assigned",
    "BadStartError",
    "ConsumerStats",
    "DeadLettersElsewhereError",
    "GroupChangeError",
    "GroupInUseError",
    "GroupStats",
    "Job",
    "LocalConsumer",
    "Message",
    "NoDeadLetterError",
    "NotDoneError",
    "NotHeldError",
    "Outcome",
    "QueueDetails",
    "QueueFullError",
    "QueueMachine",
    "QueueServer",
    "QueueStats",
    "Queues",
    "Told",
    "TooLargeError",
    "TooManyGroupsError",
    "UnknownQueueError",
    "Why",
    "ack",
    "append",
    "consume",
    "create",
    "delete",
    "drop_group",
    "error_of",
    "kind_of",
    "list_queues",
    "nack",
    "peek",
    "purge",
    "queues_in",
    "reject",
    "replay",
    "show",
    "why_of",
]
