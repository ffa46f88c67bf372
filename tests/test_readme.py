"""The README is short, its links lead somewhere, and its session is typed by ``tests/docs/test_pages.py``."""

from __future__ import annotations

import re
from pathlib import Path

from docs.blocks import blocks_of, typed_in
from docs.test_pages import PAGES

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_the_readme_has_a_session_that_is_typed():
    assert README in PAGES
    sessions = [block for block in blocks_of(README.read_text(), README) if block.language == "console"]
    typed = [typed for block in sessions for typed in typed_in(block)]
    assert all(block.runs for block in sessions)
    assert typed[0].command == "./script/up"
    assert len(typed) >= 6


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        if not target.startswith("https://"):
            assert (ROOT / target).exists(), target
