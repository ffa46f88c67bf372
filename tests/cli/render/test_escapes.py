"""What clients name themselves and their topics is shown on terminals, and never obeyed."""

import sys

import pytest
from rich.text import Text

from cli.test_command_list import LOOKS
from gossamer.cli import client
from gossamer.cli.render.output import Grid, write

HOSTILE = "\x1b]0;owned\x07\x9b31m\r\x08"
KEPT = {"kind", "link", "name", "next", "node", "phase", "pid", "role", "state", "status", "type", "level"}
"""What commands decide by."""


class Poisoned(client.Answer):
    """An answer whose texts, wherever they come from, try to move the terminal."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        for key, value in self.items():
            if key not in KEPT:
                self[key] = poisoned(value)


def poisoned(value):
    if isinstance(value, str):
        return value + HOSTILE
    return [poisoned(one) for one in value] if isinstance(value, list) else value


def harmless(text):
    return not any(control in text for control in ("\x1b]", "\x07", "\x9b", "\x08", "\r"))


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("command", LOOKS)
def test_no_table_lets_a_value_move_the_terminal(ask, whole, monkeypatch, command, terminal):
    monkeypatch.setattr(client, "Answer", Poisoned)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    outcome = ask(*command.split())
    assert outcome.out + outcome.err
    assert harmless(outcome.out + outcome.err)


@pytest.mark.parametrize("terminal", [False, True])
def test_titles_and_styled_cells_are_no_exception(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    write(Grid(["A", "B"], [(HOSTILE, Text(HOSTILE, "bold"))], title=HOSTILE))
    out = capsys.readouterr().out
    assert harmless(out)
    assert out.count("owned") == 3
