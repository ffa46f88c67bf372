"""What the comparison claims of gossamer names the test or bench that shows it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPARISON = (ROOT / "docs" / "comparison.md").read_text()


def claims():
    _, _, table = COMPARISON.partition("## What shows it")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return [(claim.strip(), shown) for claim, shown in rows[1:]]


def test_every_claim_is_shown_by_something_that_is_there():
    assert len(claims()) > 15
    for claim, shown in claims():
        paths = re.findall(r"`([^`]+)`", shown)
        assert paths, f"nothing shows: {claim}"
        for path in paths:
            assert path.startswith(("tests/", "bench/")), f"{claim}: {path} is no test"
            assert (ROOT / path).exists(), f"{claim}: {path} is not there"
            assert (ROOT / path).is_file() or list((ROOT / path).rglob("test_*.py")), f"{path} has no tests"


def test_benches_that_figures_name_are_there():
    named = set(re.findall(r"python (bench/\w+\.py)", COMPARISON))
    assert len(named) > 2
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_no_install_line_asks_an_index_for_gossamer():
    """No index has it, and another project may take the name: a wheel or a directory is named instead."""
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder, kind in (
        ("docs", "md"),
        ("gossamer", "py"),
        ("examples", "py"),
        ("bench", "py"),
        ("deploy", "*"),
    ):
        places += [path for path in (ROOT / folder).rglob(f"*.{kind}") if path.is_file()]
    asks = re.compile(
        r"(?:pip3?|pipx|uv)\s+(?:\w+\s+)*(?:install|add)\s+(?:--?\S+\s+)*['\"]?gossamer\b(?![/-])"
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in places
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if asks.search(line)
    ]
    assert found == []
