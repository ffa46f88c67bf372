"""The schema stands in the documentation as it stands in the code."""

from pathlib import Path

import gossamer.audit.schema as schema

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "audit.md").read_text()


def test_every_column_and_event_is_described_as_it_is():
    for column in schema.COLUMNS:
        assert f"| `{column.name}` | {column.type} | {column.meaning} |" in PAGE
    for event in schema.EVENTS:
        columns = ", ".join(f"`{name}`" for name in event.columns) or "–"
        assert f"| `{event.name}` | {event.meaning} | {columns} |" in PAGE
    assert f"version {schema.VERSION}" in PAGE


def test_an_event_fills_columns_that_there_are():
    known = {column.name for column in schema.COLUMNS}
    for event in schema.EVENTS:
        assert set(event.columns) <= known


def test_versions_are_two_numbers():
    assert schema.version_of("1.12") == (1, 12)
