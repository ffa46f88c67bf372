"""mypy sees arguments that an ``init`` or a body does not take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]
SNIPPETS = Path(__file__).parent / "typed" / "arguments.py"


@pytest.mark.timeout(300)
def test_wrong_arguments_are_refused_and_right_ones_are_not():
    said, trouble, _ = api.run(
        [
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
            str(SNIPPETS),
        ]
    )
    assert not trouble
    refused = {int(number) for number in re.findall(r"arguments\.py:(\d+): error", said)}
    lines = SNIPPETS.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(marked) > 15
    assert refused == marked, said
