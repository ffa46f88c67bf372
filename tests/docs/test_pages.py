"""What the pages show is true: commands are typed, answers compared, programs run, configurations read.

Which block is what: :mod:`docs.blocks`. ``pytest tests/docs/test_pages.py -k tls`` plays one page.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from docs.blocks import blocks_of
from docs.checks import faults_of
from docs.player import own_network, play_apart

ROOT = Path(__file__).parents[2]
PLAYS = "test_what_a_page_shows_is_what_happens"
PAGES = [
    ROOT / "docs" / "tutorial.md",
    ROOT / "README.md",
    *sorted(
        page
        for pattern in ("*.md", "guide/**/*.md", "deploy/**/*.md")
        for page in (ROOT / "docs").glob(pattern)
        if page.name not in ("comparison.md", "performance.md", "tutorial.md")
    ),
]
"""The one that takes longest first. What was measured is no page to type."""

Played = Callable[[Path], "Future[str]"]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _has_to_be_played(page: Path) -> bool:
    return any(block.runs for block in blocks_of(page.read_text(encoding="utf-8"), page))


def _can_be_played(page: Path) -> bool:
    if "./script/up" not in page.read_text(encoding="utf-8"):
        return True
    check = ["bash", "-c", "source script/env && environment_is_current up"]
    return subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_of_a_page_is_run_or_read_or_says_why_not(page: Path) -> None:
    faults = faults_of(page.read_text(encoding="utf-8"), page.relative_to(ROOT))
    assert faults == [], "\n" + "\n".join(faults)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Pages wait more than they work, so two are played at a time where each has a network of its own."""
    alone = not own_network() or hasattr(request.config, "workerinput")
    with ThreadPoolExecutor(1 if alone else 2) as pool:
        begun: dict[Path, Future[str]] = {}

        def play(page: Path) -> Future[str]:
            if page not in begun:
                begun[page] = pool.submit(play_apart, page, tmp_path_factory.mktemp(page.stem))
            return begun[page]

        for item in [] if alone else request.session.items:
            if isinstance(item, pytest.Function) and item.originalname == PLAYS:
                page = item.callspec.params["page"]
                if _can_be_played(page):
                    play(page)
        yield play
        pool.shutdown(cancel_futures=True)


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if _has_to_be_played(page)], ids=_name)
def test_what_a_page_shows_is_what_happens(page: Path, played: Played) -> None:
    if not _can_be_played(page):
        # Cut off from the network it could not be made, and it is not for a test to change.
        pytest.skip("this page needs the environment that ./script/test makes")
    wrong = played(page).result()
    assert wrong == "", f"\n{wrong}"
