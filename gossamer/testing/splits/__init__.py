"""Whole simulated clusters that are cut, crashed and healed under load, and what must hold afterwards.

``python -m gossamer.testing.splits --seeds 100`` runs a hundred seeds, ``--seed 17`` replays one.
"""

from gossamer.testing.splits.scenarios import SCENARIOS, SPLITS, Scenario
from gossamer.testing.splits.world import SplitWorld

__all__ = ["SCENARIOS", "SPLITS", "Scenario", "SplitWorld"]
