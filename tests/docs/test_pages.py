"""What the pages show is true: commands are typed, answers compared, programs run, configurations read.

Which block is what: :mod:`docs.blocks`. ``pytest tests/docs/test_pages.py -k tls`` plays one page.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from docs.blocks import blocks_of
from docs.checks import faults_of
from docs.player import play_apart

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for place in ("docs", "docs/guide", "docs/deploy")
        for page in (ROOT / place).glob("*.md")
        if page.name not in ("performance.md", "comparison.md")
    ),
]
"""Explanations and what was measured are no pages to type."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _is_set_up() -> bool:
    check = ["bash", "-c", "source script/env && environment_is_current up"]
    return subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_of_a_page_is_run_or_read_or_says_why_not(page: Path) -> None:
    faults = faults_of(page.read_text(encoding="utf-8"), page.relative_to(ROOT))
    assert faults == [], "\n" + "\n".join(faults)


@pytest.mark.real
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if any(block.runs for block in blocks_of(page.read_text(encoding="utf-8"), page))
    ],
    ids=_name,
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    if "./script/up" in page.read_text(encoding="utf-8") and not _is_set_up():
        # Cut off from the network it could not be made, and it is not for a test to change.
        pytest.skip("the session needs the environment that ./script/test makes")
    wrong = play_apart(page, tmp_path)
    assert wrong == "", f"\n{wrong}"
