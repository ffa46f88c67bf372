"""Queues: messages that wait for a consumer, at a quorum of nodes, until one of each consumer group has done
them.
 Queues of one *replication group* are the state machine of one Raft group. ``queue`` is one queue and
``consumers`` one consumer group, without clock and I/O, ``machine`` all of a replication group; ``port`` is
what the parts of a node use, ``server`` carries it out, and ``client`` is for any process.
"""

from gossamer.queues.actor import PersistentActor
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
    saved,
    show,
)
from gossamer.queues.errors import (
    BadStartError,
    CheckpointTooLargeError,
    DeadLettersElsewhereError,
    GroupChangeError,
    GroupInUseError,
    NoDeadLetterError,
    NotDoneError,
    NotHeldError,
    QueueFullError,
    StaleCheckpointError,
    TooLargeError,
    TooManyGroupsError,
    UnknownQueueError,
    error_of,
    why_of,
)
from gossamer.queues.fates import Fate, Sink
from gossamer.queues.machine import QueueMachine
from gossamer.queues.port import KIND, LocalConsumer, Queues, kind_of
from gossamer.queues.questions import queues_in
from gossamer.queues.server import QUEUES, QueueServer, Told
from gossamer.queues.values import (
    MAX_CHECKPOINT,
    Assigned,
    Checkpoint,
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
    "MAX_CHECKPOINT",
    "QUEUES",
    "Assigned",
    "BadStartError",
    "Checkpoint",
    "CheckpointTooLargeError",
    "ConsumerStats",
    "DeadLettersElsewhereError",
    "Fate",
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
    "PersistentActor",
    "QueueDetails",
    "QueueFullError",
    "QueueMachine",
    "QueueServer",
    "QueueStats",
    "Queues",
    "Sink",
    "StaleCheckpointError",
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
    "saved",
    "show",
    "why_of",
]
