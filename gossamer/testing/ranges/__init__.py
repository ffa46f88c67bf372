"""Ranges that split, merge and move, on virtual time, on a network and discs that do everything wrong.

``python -m gossamer.testing.ranges --seeds 100`` runs a hundred seeds, ``--seed 17`` replays one. What runs a
node's replicas is what does in a cluster, but for the processes and links of a node; clients' history is
judged by :mod:`gossamer.testing.raft.linearizability`.
"""

from gossamer.testing.ranges.scenarios import RANGES, SCENARIOS, scenario_of
from gossamer.testing.ranges.world import RangesWorld

__all__ = ["RANGES", "SCENARIOS", "RangesWorld", "scenario_of"]
