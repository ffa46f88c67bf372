"""Every choice of the configuration has an implementation."""

from typing import get_args

from gossamer.config import SharedStrategy
from gossamer.routes.strategies import STRATEGIES


def test_every_choice_of_the_configuration_has_an_implementation_and_the_reverse():
    assert set(STRATEGIES) == set(get_args(SharedStrategy))
    assert len(set(STRATEGIES.values())) == len(STRATEGIES)
