"""A group of replicas on virtual time, on a network and discs that do everything wrong.

``python -m gossamer.testing.raft --seeds 1000`` runs a thousand seeds, ``--seed 17`` replays one. Invariants
are checked at each step, and the history of the clients is judged by :mod:`.linearizability`.
"""

from gossamer.testing.raft.scenarios import RAFT, SCENARIOS, scenario_of
from gossamer.testing.raft.world import RaftWorld

__all__ = ["RAFT", "SCENARIOS", "RaftWorld", "scenario_of"]
