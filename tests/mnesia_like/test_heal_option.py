"""How a table heals is one of its options, checked when it is made."""

import pytest

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import BadTableError


@pytest.mark.parametrize("heal", ["lww", "survivors", "counters.add"])
def test_a_shared_table_heals_as_it_says(heal: str) -> None:
    """By a word, or by the name of a function."""
    assert TableDef(name="t", replication="shared", heal=heal).heal == heal


@pytest.mark.parametrize(("replication", "heal"), [("owned", "survivors"), ("shared", ""), ("shared", "a b")])
def test_other_words_are_refused(replication: str, heal: str) -> None:
    """Only shared rows can conflict."""
    with pytest.raises(BadTableError, match="heal"):
        TableDef(name="t", replication=replication, heal=heal)
