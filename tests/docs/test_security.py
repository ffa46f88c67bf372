"""What the page on security promises is held by tests that are there."""

import re
from pathlib import Path

from .test_tables import rows

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TESTS = re.compile(r"\]\((\.\./tests/[^)#]+)\)")
PROMISES = (
    "Between nodes",
    "MQTT clients",
    "The HTTP API",
    "Limits against hostile input",
    "What is recorded of people",
)


def section(heading):
    _, found, rest = PAGE.read_text().partition(f"\n## {heading}\n")
    assert found, f"no section {heading}"
    return rest.partition("\n## ")[0]


def test_each_test_that_is_named_is_there():
    named = TESTS.findall(PAGE.read_text())
    assert len(set(named)) > 15
    for name in named:
        file = (PAGE.parent / name).resolve()
        assert file.is_file(), f"{name} is not there"
        assert re.search(r"^(async )?def test_", file.read_text(), re.MULTILINE), f"{name} has no tests"


def test_each_section_that_promises_something_names_a_test():
    assert [heading for heading in PROMISES if not TESTS.search(section(heading))] == []


def test_each_limit_names_what_holds_it():
    limits = rows(PAGE, "Limits against hostile input")
    assert len(limits) >= 10
    assert [limit for limit, *_, held in limits if not TESTS.search(held)] == []


def test_the_page_and_the_front_of_the_repository_say_how_to_report():
    assert "(../SECURITY.md)" in section("Reporting a weakness")
    assert "private vulnerability report" in (PAGE.parents[1] / "SECURITY.md").read_text()
