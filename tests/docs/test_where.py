"""The table "Where to change what" of the architecture names few files, and what it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "architecture.md"
FILES_OF_A_CHANGE = 3
LINK = re.compile(r"\[`[^`]+`\]\(([^)#]+)\)")


def rows():
    """What to change, and the two cells that say where and what checks it."""
    _, _, section = PAGE.read_text().partition("\n## Where to change what\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_change_is_made_in_few_files_that_are_there():
    assert len(rows()) >= 6
    for change, where, checked in rows():
        files = LINK.findall(where)
        assert 1 <= len(files) <= FILES_OF_A_CHANGE, change
        assert [file for file in files + LINK.findall(checked) if not (PAGE.parent / file).is_file()] == []
        assert LINK.findall(checked), f"{change}: what checks it?"


def test_what_to_look_for_stands_in_one_of_the_files():
    for change, where, _ in rows():
        texts = [(PAGE.parent / file).read_text() for file in LINK.findall(where)]
        names = re.findall(r"(?<!\[)`(\w+)`", where)
        assert names, change
        for name in names:
            assert any(re.search(rf"\b{name}\b", text) for text in texts), f"{change}: {name} is not there"
