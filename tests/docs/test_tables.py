"""What the tables of the comparison and of the architecture name is there, and shows what they say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPARISON = ROOT / "docs" / "comparison.md"
ARCHITECTURE = ROOT / "docs" / "design" / "architecture.md"
FILES_OF_A_CHANGE = 3
LINK = re.compile(r"\[`[^`]+`\]\(([^)#]+)\)")
ASKS = re.compile(r"(?:pip3?|pipx|uv)\s+(?:\w+\s+)*(?:install|add)\s+(?:--?\S+\s+)*['\"]?gossamer\b(?![/-])")


def rows(page, heading):
    """The cells of the table below a heading."""
    _, _, section = page.read_text().partition(f"\n## {heading}\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_claim_is_shown_by_something_that_is_there():
    claims = rows(COMPARISON, "What shows it")
    assert len(claims) > 15
    for claim, shown in claims:
        paths = re.findall(r"`([^`]+)`", shown)
        assert paths, f"nothing shows: {claim}"
        for path in paths:
            assert path.startswith(("tests/", "bench/")), f"{claim}: {path} is no test"
            assert (ROOT / path).exists(), f"{claim}: {path} is not there"
            assert (ROOT / path).is_file() or list((ROOT / path).rglob("test_*.py")), f"{path} has no tests"


def test_benches_that_figures_name_are_there():
    named = set(re.findall(r"python (bench/\w+\.py)", COMPARISON.read_text()))
    assert len(named) > 2
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_each_change_is_made_in_few_files_that_are_there_and_have_what_to_look_for():
    changes = rows(ARCHITECTURE, "Where to change what")
    assert len(changes) >= 6
    for change, where, checked in changes:
        files, tests = LINK.findall(where), LINK.findall(checked)
        assert 1 <= len(files) <= FILES_OF_A_CHANGE, change
        assert tests, f"{change}: what checks it?"
        assert [file for file in files + tests if not (ARCHITECTURE.parent / file).is_file()] == []
        texts = [(ARCHITECTURE.parent / file).read_text() for file in files]
        names = re.findall(r"(?<!\[)`(\w+)`", where)
        assert names, change
        for name in names:
            assert any(re.search(rf"\b{name}\b", text) for text in texts), f"{change}: {name} is not there"


def test_no_install_line_asks_an_index_for_gossamer():
    """No index has it, and another project may take the name: a wheel or a directory is named instead."""
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for pattern in ("docs/**/*.md", "gossamer/**/*.py", "examples/**/*.py", "bench/**/*.py", "deploy/**/*"):
        places += [path for path in ROOT.glob(pattern) if path.is_file()]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in places
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if ASKS.search(line)
    ]
    assert found == []
