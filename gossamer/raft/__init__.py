"""Consensus: a replicated log by Raft, without clock and without I/O.

:class:`Replica` is one copy of one group; its module says in which order a host does what it asks for.
Quorums, elections, a leader's and a follower's part are modules of their own; ``log`` is the log in memory,
and ``wal`` what a node keeps of all its groups on disc.
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
from gossamer.raft.wal.disc import Directory, DiscDirectory, File
from gossamer.raft.wal.frames import SECTOR
from gossamer.raft.wal.records import Mark, Record, Stored
from gossamer.raft.wal.wal import WriteAheadLog

__all__ = [
    "SECTOR",
    "BadMembershipError",
    "Chunk",
    "ChunkWanted",
    "DamagedLogError",
    "Directory",
    "DiscDirectory",
    "Entry",
    "File",
    "Flow",
    "HardState",
    "Kind",
    "Log",
    "LogWriteError",
    "LyingReplicaError",
    "Mark",
    "Membership",
    "Message",
    "NotReadyError",
    "ReadState",
    "Ready",
    "Record",
    "Replica",
    "Role",
    "Settings",
    "Snapshot",
    "Stored",
    "WriteAheadLog",
    "decode",
    "encode",
]
