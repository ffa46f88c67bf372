"""Consensus: a replicated log by Raft, without clock and without I/O.

:class:`Replica` is one copy of one group; its module says in which order a host does what it asks for.
Quorums, elections, a leader's and a follower's part are modules of their own; ``log`` is the log.
"""

from gossamer.raft.errors import (
    BadMembershipError,
    DamagedLogError,
    LogWriteError,
    LyingReplicaError,
    NotReadyError,
)
from gossamer.raft.log import Log
from gossamer.raft.messages import Chunk, Message, decode, encode
from gossamer.raft.progress import Flow
from gossamer.raft.replica import Ready, Replica
from gossamer.raft.state import Role, Settings
from gossamer.raft.values import ChunkWanted, Entry, HardState, Kind, Membership, ReadState, Snapshot

__all__ = [
    "BadMembershipError",
    "Chunk",
    "ChunkWanted",
    "DamagedLogError",
    "Entry",
    "Flow",
    "HardState",
    "Kind",
    "Log",
    "LogWriteError",
    "LyingReplicaError",
    "Membership",
    "Message",
    "NotReadyError",
    "ReadState",
    "Ready",
    "Replica",
    "Role",
    "Settings",
    "Snapshot",
    "decode",
    "encode",
]
