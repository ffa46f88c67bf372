"""Faults on purpose: a gate between a node and its network, closed and opened at run time by drills."""

from gossamer.faults.kinds import (
    DRILLS,
    Drill,
    DrillKind,
    DrillSetting,
    Shape,
    ShapeError,
    parse_shape,
    sides_of,
)
from gossamer.faults.network import FaultyNetwork
from gossamer.faults.table import Direction, Fault, FaultCounts, FaultTable, FaultyClock

__all__ = [
    "DRILLS",
    "Direction",
    "Drill",
    "DrillKind",
    "DrillSetting",
    "Fault",
    "FaultCounts",
    "FaultTable",
    "FaultyClock",
    "FaultyNetwork",
    "Shape",
    "ShapeError",
    "parse_shape",
    "sides_of",
]
