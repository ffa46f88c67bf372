"""Every strategy that may be configured has an implementation."""

from gossamer.config.discovery import STRATEGIES
from gossamer.discovery.choose import BUILDERS


def test_every_section_has_a_strategy_and_the_reverse():
    assert set(BUILDERS) == set(STRATEGIES.values())
