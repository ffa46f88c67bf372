"""The site builds strictly: no link and no anchor leads nowhere, and nothing is loaded from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|link(?! rel="(?:prev|next|canonical)"))\b[^>]*?(?:src|href)="([^"]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return directory


def test_every_page_is_part_of_the_site(site):
    for page in sorted((ROOT / "docs").rglob("*.md")):
        inside = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / inside.replace("README.html", "index.html")).exists(), page
    assert (site / "source" / "CONTRIBUTING.html").exists()


def test_every_page_can_be_reached_from_the_navigation(site):
    """Nobody finds a page that only a search would find."""
    start = (site / "index.html").read_text()
    (menu,) = re.findall(r'<nav class="md-nav md-nav--primary.*?</nav>\s*</div>', start, re.DOTALL)
    assert "md-content" not in menu
    reached = set(re.findall(r'href="([^"#]+)"', menu)) | {"index.html"}
    pages = (page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md"))
    inside = {page.with_suffix(".html").as_posix().replace("README.html", "index.html") for page in pages}
    assert sorted(inside - reached) == []
    assert {"source/CONTRIBUTING.html", "source/CHANGELOG.html"} <= reached


def test_pages_load_nothing_from_other_sites(site):
    loaded = [
        f"{page.relative_to(site)} loads {target}"
        for page in site.rglob("*.html")
        for target in LOADED.findall(page.read_text())
        if re.match(r"(https?:)?//", target)
    ]
    assert loaded == []


def test_search_works_without_a_server(site):
    index = (site / "search" / "search_index.js").read_text()
    assert index.startswith("var __index = ")
    assert "quarantine" in index
    assert "iframe-worker.js" in (site / "index.html").read_text()


def test_directives_to_the_tests_are_not_shown(site):
    shown = re.compile(r"<!-- (?:not run:|cluster:|output|later)")
    assert [page for page in site.rglob("*.html") if shown.search(page.read_text())] == []
