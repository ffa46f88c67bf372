"""Persistent clients that change nodes under faults lose nothing; see ``gossamer.testing.roaming``."""

import pytest

from gossamer.testing.roaming import ROAMING

LIVES = [
    ("kill", 1),
    ("kill two", 2),
    ("pause", 4),
    ("cut", 5),
    ("cut and kill", 6),
    ("rolling restart", 7),
    ("none", 8),
    ("cut and kill", 14),
    ("rolling restart", 23),
    ("kill", 33),
    ("kill all", 35),
    ("cut", 93),
    ("kill", 121),
    ("cut and kill", 214),
    ("one way", 10),
    ("flap", 7),
    ("full disc", 4),
    ("join", 4),
]


@pytest.mark.parametrize(("fault", "seed"), LIVES)
def test_roaming_clients_get_what_was_acknowledged(fault, seed):
    outcome = ROAMING.run_seed(seed, fault)
    assert not outcome.problems, str(outcome)
