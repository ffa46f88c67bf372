"""Every program of bench/ still finds what it measures."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PROGRAMS = sorted(BENCH.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_what_a_bench_imports_is_there(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    for one in PROGRAMS:
        # Tests have packages of the same names; theirs come back afterwards.
        monkeypatch.setitem(sys.modules, one.stem, ModuleType(one.stem))
        monkeypatch.delitem(sys.modules, one.stem)
    runpy.run_path(str(program), run_name="imported")
