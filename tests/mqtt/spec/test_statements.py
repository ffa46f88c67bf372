"""The tables are whole: every statement has a test, every citation a statement, and the docs say so."""

import pytest

from .statements import citations, statements
from .table import DOCS, render


@pytest.mark.parametrize(("version", "count"), [(4, 141), (5, 251)])
def test_every_statement_is_in_the_table(version, count):
    assert len(statements(version)) == count


def test_every_statement_has_a_test():
    tests = citations()
    missing = [
        f"{version}: MQTT-{number} {statement.says}"
        for version in (4, 5)
        for number, statement in statements(version).items()
        if (version, number) not in tests
    ]
    assert not missing, "no test cites:\n" + "\n".join(missing)


def test_every_citation_is_of_a_statement():
    known = {(version, number) for version in (4, 5) for number in statements(version)}
    unknown = {key: tests for key, tests in citations().items() if key not in known}
    assert not unknown


def test_the_table_in_the_docs_is_up_to_date():
    assert DOCS.read_text(encoding="utf-8") == render(), "run: python tests/mqtt/spec/table.py"
