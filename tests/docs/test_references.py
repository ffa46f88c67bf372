"""The reference pages say what the code says, and everything in them has a meaning."""

from pathlib import Path

import pytest
from msgspec import Struct

from gossamer import supervisor
from script.references import stale, write
from script.references.cli import commands
from script.references.config import keys_of
from script.references.markdown import cell, prose, table
from script.references.node import a_node
from script.references.supervisor import GROUPS, described, supervisor_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture(scope="module")
def node():
    return a_node()


def test_the_pages_are_what_the_code_says():
    assert stale(REFERENCE) == [], "renew them: python -m script.references"


def test_what_was_written_is_not_stale(tmp_path):
    assert len(write(tmp_path)) == 7
    assert write(tmp_path) == []
    (tmp_path / "cli.md").write_text("by hand")
    assert stale(tmp_path) == ["cli.md"]


def test_every_key_of_the_configuration_has_a_meaning():
    keys = keys_of()
    assert len(keys) > 100
    assert [key.path for key in keys if not key.meaning] == []


def test_every_command_and_option_has_a_meaning():
    silent, seen = [], 0
    for typed, command, context in commands():
        seen += 1
        if not command.help:
            silent.append(typed)
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if record is not None and not record[1].strip():
                silent.append(f"{typed} {record[0]}")
    assert seen > 30
    assert silent == []


def test_every_route_and_parameter_has_a_meaning(node):
    silent = []
    for path, methods in node.app.openapi()["paths"].items():
        for method, operation in methods.items():
            if not operation.get("description"):
                silent.append(f"{method} {path}")
            silent += [
                f"{method} {path}: {parameter['name']}"
                for parameter in operation.get("parameters", ())
                if not parameter.get("description")
            ]
    assert silent == []


def test_every_route_says_which_role_it_takes(node):
    takes = {
        (path, method): [
            role for scheme in operation.get("security", ()) for role in scheme.get("bearer", ())
        ]
        for path, methods in node.app.openapi()["paths"].items()
        for method, operation in methods.items()
    }
    assert takes["/health", "get"] == []
    assert takes["/metrics", "get"] == ["viewer"]
    assert takes["/api/v1/cluster/join", "post"] == ["operator"]
    assert takes["/api/v1/tokens", "get"] == ["admin"]
    assert takes["/api/v1/drill/faults", "get"] == ["admin"]


def test_every_metric_has_a_meaning(node):
    assert len(node.metrics) > 30
    assert [metric.name for metric in node.metrics if not metric.family.documentation.endswith(".")] == []


def test_docstrings_become_markdown():
    text = prose(
        """What it does, as :meth:`Client.call` and :class:`~gossamer.errors.UsageError` do.

        Raises:
            OneError: in a sentence
                that goes on.
            TwoError: ``x`` is wrong.
        """
    )
    assert "as `Client.call` and `UsageError` do." in text
    assert "- OneError: in a sentence that goes on.\n- TwoError: `x` is wrong.\n" in text


def test_a_cell_cannot_break_its_table():
    assert cell("a | b\n  c") == "a \\| b c"
    assert table(("x",), [("1",)]) == "| x |\n| --- |\n| 1 |\n"


def test_every_public_name_of_the_supervisor_is_on_its_page_once_and_says_what_it_is():
    named = [name for _, names in GROUPS.values() for name in names.split()]
    assert sorted(named) == sorted(supervisor.__all__)
    page = supervisor_page()
    for name in named:
        assert page.count(f"\n### {name}\n") == 1
        said = described(name)
        # A dataclass or a Struct without a docstring has its signature for one.
        assert not said.startswith(f"{name}("), name


def test_a_value_of_the_supervisor_shows_what_it_takes():
    page = supervisor_page()
    assert "class Reply(value: object, timeout: float | None = None, then: Continue | None = None)" in page
    values = [name for name in supervisor.__all__ if isinstance(getattr(supervisor, name), type(Struct))]
    assert [name for name in values if f"```python\nclass {name}(" not in page] == []


def test_a_signature_shows_the_words_that_it_takes():
    assert "    restart: Literal['permanent', 'transient', 'temporary'] = 'permanent'," in supervisor_page()


def test_no_docstring_of_the_supervisor_begins_as_a_relative_clause():
    words = ("Who ", "Whoever ", "What ", "That ", "Those ", "Somebody ")
    assert [line for line in supervisor_page().splitlines() if line.startswith(words)] == []
