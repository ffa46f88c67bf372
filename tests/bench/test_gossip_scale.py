"""The growth bench in small: no false suspicion, and traffic at rest that does not grow."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location(
    "gossip_scale", Path(__file__).parents[2] / "bench" / "gossip_scale.py"
)
assert SPEC is not None
assert SPEC.loader is not None


def test_ten_and_a_hundred_members_cost_each_member_the_same() -> None:
    import sys

    bench = importlib.util.module_from_spec(SPEC)
    sys.modules["gossip_scale"] = bench
    SPEC.loader.exec_module(bench)
    small, large = (bench.measure(size, kills=1, rest=10) for size in (10, 100))
    assert (small.wrong, large.wrong) == (0, 0)
    assert large.rest < 1.3 * small.rest
    assert large.killed < 4
    assert large.silent < 4
    assert "<svg" in bench.plot([small, large])
