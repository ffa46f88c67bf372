"""Ordered keys and values that a quorum has: ranges of keys, each of them a group of replicas on Raft.

``values`` says what is asked and answered, ``machine`` is what a replica of a range does, without clock and
I/O, on ``rows``; ``ranges`` knows which range has a key. ``server`` is a node's writer, ``sending`` has a
range answer, and ``client`` is what any process calls. Ranges split and merge: ``changes`` says what is asked
for that, ``reshaping`` asks it, ``merging`` carries a range over, and ``keeper`` sees to the ranges that a
node leads.
"""

from gossamer.basekv.client import delete, get, merge, ranges, scan, split, write
from gossamer.basekv.errors import BadRangeError, BadRowError, NotWrittenError, RangeFullError
from gossamer.basekv.keeper import Directory, RangeKeeper, led_ranges
from gossamer.basekv.machine import RangeMachine
from gossamer.basekv.ranges import KINDS, machine_of, range_of
from gossamer.basekv.server import BASEKV, KeyValueServer
from gossamer.basekv.values import Delete, DeleteRange, Expect, Operation, Put, RangeInfo, kind_of, number_of

__all__ = [
    "BASEKV",
    "KINDS",
    "BadRangeError",
    "BadRowError",
    "Delete",
    "DeleteRange",
    "Directory",
    "Expect",
    "KeyValueServer",
    "NotWrittenError",
    "Operation",
    "Put",
    "RangeFullError",
    "RangeInfo",
    "RangeKeeper",
    "RangeMachine",
    "delete",
    "get",
    "kind_of",
    "led_ranges",
    "machine_of",
    "merge",
    "number_of",
    "range_of",
    "ranges",
    "scan",
    "split",
    "write",
]
