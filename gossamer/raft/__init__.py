"""Consensus: a replicated log by Raft.

:class:`Replica` is one copy of one group; its module says in which order a host does what it asks for.
Quorums, elections, a leader's and a follower's part are modules of their own; ``log`` is the log in memory,
and ``wal`` what a node keeps of all its groups on disc. All this is without clock and I/O; ``host`` is what
runs it on a node, and ``names`` the first that rests on it.
"""

from gossamer.raft.batches import MAX_WAITING, PATIENCE, Answered, Outbox, Writers
from gossamer.raft.errors import (
    BadMembershipError,
    DamagedLogError,
    LogWriteError,
    LyingReplicaError,
    NotReadyError,
    UnknownOutcomeError,
)
from gossamer.raft.host.client import found, read, request
from gossamer.raft.host.messages import RAFT, GiveUp, NotDone, Transfer, Where
from gossamer.raft.host.placement import COPIES
from gossamer.raft.host.replicas import SETTINGS
from gossamer.raft.host.replicated import NAMES, Born, Durable, StateMachine
from gossamer.raft.host.server import TICK, RaftServer
from gossamer.raft.host.status import RaftStatus, ReplicaStatus
from gossamer.raft.host.thread import DiscThread
from gossamer.raft.host.upkeep import GroupRow, Register, current, kinds_in
from gossamer.raft.log import Log
from gossamer.raft.messages import Chunk, Message, decode, encode
from gossamer.raft.names.machine import NamesMachine
from gossamer.raft.names.server import UNIQUE_NAMES, ConsistentNames, UniqueNames
from gossamer.raft.progress import Flow
from gossamer.raft.replica import Replica
from gossamer.raft.state import Ready, Role, Settings
from gossamer.raft.values import ChunkWanted, Entry, HardState, Kind, Membership, ReadState, Snapshot
from gossamer.raft.wal.disc import Directory, DiscDirectory, File
from gossamer.raft.wal.frames import SECTOR
from gossamer.raft.wal.records import Mark, Record, Stored
from gossamer.raft.wal.wal import WriteAheadLog

__all__ = [
    "COPIES",
    "MAX_WAITING",
    "NAMES",
    "PATIENCE",
    "RAFT",
    "SECTOR",
    "SETTINGS",
    "TICK",
    "UNIQUE_NAMES",
    "Answered",
    "BadMembershipError",
    "Born",
    "Chunk",
    "ChunkWanted",
    "ConsistentNames",
    "DamagedLogError",
    "Directory",
    "DiscDirectory",
    "DiscThread",
    "Durable",
    "Entry",
    "File",
    "Flow",
    "GiveUp",
    "GroupRow",
    "HardState",
    "Kind",
    "Log",
    "LogWriteError",
    "LyingReplicaError",
    "Mark",
    "Membership",
    "Message",
    "NamesMachine",
    "NotDone",
    "NotReadyError",
    "Outbox",
    "RaftServer",
    "RaftStatus",
    "ReadState",
    "Ready",
    "Record",
    "Register",
    "Replica",
    "ReplicaStatus",
    "Role",
    "Settings",
    "Snapshot",
    "StateMachine",
    "Stored",
    "Transfer",
    "UniqueNames",
    "UnknownOutcomeError",
    "Where",
    "WriteAheadLog",
    "Writers",
    "current",
    "decode",
    "encode",
    "found",
    "kinds_in",
    "read",
    "request",
]
