"""Ordered keys and values that a quorum has: ranges of keys, each of them a group of replicas on Raft.

``values`` says what is asked and answered, ``machine`` is what a replica of a range does, without clock and
I/O; ``ranges`` knows which range has a key; ``server`` is a node's writer, and ``client`` what any process
calls.
"""

from gossamer.basekv.client import delete, get, scan, write
from gossamer.basekv.errors import BadRowError, NotWrittenError, RangeFullError
from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.ranges import KINDS, machine_of, range_of
from gossamer.basekv.server import BASEKV, KeyValueServer
from gossamer.basekv.values import Delete, DeleteRange, Expect, Operation, Put, RangeInfo

__all__ = [
    "BASEKV",
    "KINDS",
    "BadRowError",
    "Delete",
    "DeleteRange",
    "Expect",
    "KeyValueServer",
    "NotWrittenError",
    "Operation",
    "Put",
    "RangeFullError",
    "RangeInfo",
    "RangeMachine",
    "delete",
    "get",
    "machine_of",
    "range_of",
    "scan",
    "write",
]
