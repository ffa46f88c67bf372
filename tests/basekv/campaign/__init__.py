"""Ranges that split, merge and move, on virtual time, on a network and discs that do everything wrong.

``python -m tests.basekv.campaign --seeds 100`` runs a hundred seeds, ``--seed 17`` replays one. What runs a
node's replicas is what does in a cluster, but for the processes and links of a node; clients' history is
judged by :mod:`gossamer.testing.raft.linearizability`.
"""

from tests.basekv.campaign.scenarios import RANGES, SCENARIOS, scenario_of
from tests.basekv.campaign.world import RangesWorld

__all__ = ["RANGES", "SCENARIOS", "RangesWorld", "scenario_of"]
