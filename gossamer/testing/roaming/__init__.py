"""Persistent clients that go from node to node while nodes are killed, frozen and cut.

``python -m gossamer.testing.roaming --seeds 100`` runs a hundred seeds, ``--seed 17`` replays one. Splits
(:mod:`gossamer.testing.splits`) have clients that stay where they are; what is between two nodes while a
session moves is seen here.
"""

from gossamer.testing.roaming.faults import FAULTS, ROAMING
from gossamer.testing.roaming.world import RoamingWorld

__all__ = ["FAULTS", "ROAMING", "RoamingWorld"]
