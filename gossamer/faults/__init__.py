"""Faults on purpose: a gate between a node and its network, closed and opened at run time by drills."""

from gossamer.faults.kinds import DRILLS, Drill, DrillKind, DrillSetting, Shape, ShapeError, parse_shape
from gossamer.faults.network import FaultyNetwork
from gossamer.faults.table import Fault, FaultTable, FaultyClock, SlowDisc

__all__ = [
    "DRILLS",
    "Drill",
    "DrillKind",
    "DrillSetting",
    "Fault",
    "FaultTable",
    "FaultyClock",
    "FaultyNetwork",
    "Shape",
    "ShapeError",
    "SlowDisc",
    "parse_shape",
]
