"""Every program of bench/ still finds what it measures."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PROGRAMS = sorted(BENCH.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_what_a_bench_imports_is_there(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    runpy.run_path(str(program), run_name="imported")
