"""The judges on histories made by hand: each promise kept, and broken on purpose.

How a tale is written: :mod:`history.telling`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from real.history.history import read, write
from real.history.story import matches

from history.telling import Tale

TALES = [
    pytest.param(script, id=title)
    for file in sorted(Path(__file__).with_name("tales").glob("*.txt"))
    for title, _, script in (part.partition("\n") for part in file.read_text().split("\n== ")[1:])
]


@pytest.mark.parametrize("script", TALES)
def test_what_a_tale_breaks_is_found_and_nothing_else(script: str) -> None:
    judged = list(Tale().tell(script))
    assert judged
    assert [expected for expected, _ in judged] == [found for _, found in judged]


def test_filters_match_as_the_standard_says() -> None:
    assert all(
        matches(f, t) for f, t in [("a/+", "a/b"), ("#", "a/b"), ("a/#", "a"), ("$share/g/a/+", "a/b")]
    )
    assert not any(matches(f, t) for f, t in [("a/+", "a"), ("a", "a/b"), ("+", "a/b"), ("a/b/c", "a/b")])


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    tale = Tale()
    subscriber, publisher = tale.pair()
    publisher.publishes(1)
    subscriber.gets("pub:1")
    write(tmp_path / "h", {"seed": 1}, tale.events)
    assert read(tmp_path / "h") == ({"seed": 1}, tale.events)
