"""What the page on security promises is held by tests that are there: its footnotes name them."""

import re
from pathlib import Path

from .test_tables import rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
USED = re.compile(r"\[\^(\w+)\](?!:)")
DEFINED = re.compile(r"^\[\^(\w+)\]: (.+)$", re.MULTILINE)
FUNCTION = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISES = (
    "What listens, and where",
    "Between nodes",
    "MQTT clients",
    "The HTTP API",
    "Limits against hostile input",
    "What is recorded of people",
)
BLOCK = re.compile(r"\n\n|\n(?=- )")
NO_PROMISE = (
    "port | key |",
    "source | key |",
    "role | may |",
    "Sources of the answer",
    "- Client identifiers are not reserved",
    "How to set this up",
    "The Host header that the proxy passes on",
    "against | limit |",
)
"""Tables, whose rows are looked at by themselves or show what is configured, and what is said to people."""


def section(heading):
    _, found, rest = PAGE.read_text().partition(f"\n## {heading}\n")
    assert found, f"no section {heading}"
    return rest.partition("\n## ")[0]


def test_each_test_that_is_named_is_there():
    named = set(TEST.findall(PAGE.read_text()))
    assert len(named) > 150
    texts = {file: (ROOT / file).read_text() for file, _ in named}
    there = {(file, test) for file, text in texts.items() for test in FUNCTION.findall(text)}
    assert named - there == set()


def test_each_footnote_is_used_and_names_tests_alone():
    page = PAGE.read_text()
    notes = dict(DEFINED.findall(page))
    assert set(USED.findall(page)) == notes.keys()
    assert {label: note for label, note in notes.items() if TEST.sub("", note).strip(", ")} == {}


def test_each_paragraph_that_promises_something_names_its_tests():
    blocks = [block for heading in PROMISES for block in BLOCK.split(section(heading).strip())]
    silent = [block for block in blocks if not USED.search(block)]
    assert [block for block in silent if not block.removeprefix("| ").startswith(NO_PROMISE)] == []


def test_each_limit_names_what_holds_it():
    limits = rows(PAGE, "Limits against hostile input")
    assert len(limits) >= 10
    assert [limit for limit, *_, held in limits if not USED.search(held)] == []


def test_the_page_and_the_front_of_the_repository_say_how_to_report():
    assert "(../SECURITY.md)" in section("Reporting a weakness")
    assert "private vulnerability report" in (ROOT / "SECURITY.md").read_text()
