"""Every program of bench/ still finds what it measures, and the growth bench does so in small."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PROGRAMS = sorted(BENCH.glob("*.py"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    for one in PROGRAMS:
        # Tests have packages of the same names; theirs come back afterwards.
        monkeypatch.setitem(sys.modules, one.stem, ModuleType(one.stem))
        monkeypatch.delitem(sys.modules, one.stem)


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_what_a_bench_imports_is_there(program: Path) -> None:
    runpy.run_path(str(program), run_name="imported")


def test_ten_and_a_hundred_members_cost_each_member_the_same() -> None:
    """No false suspicion, and traffic at rest that does not grow."""
    import gossip_scale as bench

    small, large = (bench.measure(size, kills=1, rest=10) for size in (10, 100))
    assert (small.wrong, large.wrong) == (0, 0)
    assert large.rest < 1.3 * small.rest
    assert large.killed < 4
    assert large.silent < 4
    assert "<svg" in bench.plot([small, large])
