"""``--watch``: again and again, whatever happens to the nodes meanwhile."""

import io
import json

import pytest
from rich.console import Console, Group
from rich.text import Text

from cli.test_command_list import LOOKS
from gossamer.cli import ExitCode
from gossamer.cli.client import Gathered
from gossamer.cli.errors import NodeUnreachableError, RefusedError
from gossamer.cli.render import watch
from gossamer.cli.render.output import CHANGED, NEW, Grid, marked
from gossamer.cli.render.show import Listing, Report
from gossamer.cli.render.watch import cropped, watch_it
from gossamer.cli.root import _with_seconds


def rounds(*answers, **options):
    """Watch as long as there are answers; an exception is a round that fails."""
    left = list(answers)

    def ask(most):
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch_it(ask, seconds=0.001, goes_on=lambda: bool(left), **{"json": False, **options})


def listing(*names, missing=None):
    items = [{"name": name, "state": state} for name, state in names]
    return Listing(
        items if missing is None else Gathered(items, missing),
        {"NAME": "name", "STATE": "state"},
        empty="nobody",
    )


DEAD = NodeUnreachableError(url="http://n1", reason="nothing listens there")


def test_each_round_is_a_line_of_json(capsys):
    rounds(listing(("a", 1)), listing(("a", 2), missing={"b": "slow"}), json=True)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["items"] == [{"name": "a", "state": 1}]
    assert (second["items"], second["missing"]) == ([{"name": "a", "state": 2}], {"b": "slow"})
    assert second["at"] >= first["at"] > 0


def test_a_node_that_dies_is_said_to_and_watching_goes_on(capsys):
    rounds(listing(("a", 1)), DEAD, DEAD, listing(("a", 3)), json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["error" in line for line in lines] == [False, True, True, False]
    assert "nothing listens there" in lines[1]["error"]


def test_the_first_round_must_come_off(capsys):
    with pytest.raises(NodeUnreachableError):
        rounds(DEAD, listing())


def test_what_is_refused_ends_it(capsys):
    with pytest.raises(RefusedError):
        rounds(listing(), RefusedError("no such process"), listing())


def test_piped_the_rounds_stand_below_each_other(capsys):
    rounds(listing(("a", "up")), DEAD, listing(("a", "gone"), missing={"b": "slow"}))
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if not line.startswith("--")] == [
        "NAME  STATE",
        "a     up",
        str(DEAD),
        "NAME  STATE",
        "a     gone",
        "b did not answer: slow",
    ]


def on_terminal(monkeypatch, *answers, width=40, height=8):
    """What the terminal was told to show, round by round."""
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=width, height=height, highlight=False, color_system=None
    )
    monkeypatch.setattr(watch, "make_console", lambda: console)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    rounds(*answers)
    return out.getvalue()


def test_a_terminal_is_as_it_was_afterwards(monkeypatch):
    out = on_terminal(monkeypatch, listing(("a", "up")))
    enter, leave = "\x1b[?1049h", "\x1b[?1049l"
    assert out.index(enter) < out.index("a     up") < out.index(leave)
    assert out.endswith("\x1b[?25h") or out.rindex("\x1b[?25h") > out.rindex(leave) - 20
    assert "q ends" in out


def test_a_terminal_keeps_what_was_known_of_a_node_that_died(monkeypatch):
    out = on_terminal(monkeypatch, listing(("a", "up")), DEAD, width=100)
    last = out.rpartition("\x1b[H")[2]
    assert "a     up" in last
    assert "nothing listens there" in last
    assert "trying again" in last


def test_nothing_is_left_on_the_screen_when_the_first_round_fails(monkeypatch):
    with pytest.raises(NodeUnreachableError):
        on_terminal(monkeypatch, DEAD)


def test_a_report_that_grows_a_part_is_drawn(monkeypatch):
    short = Report({}, lambda: ["one", Grid(["A"], [["x"]])])
    long = Report({}, lambda: ["one", Grid(["A"], [["y"]]), Grid(["B"], [["z"]])])
    assert "z" in on_terminal(monkeypatch, short, long)


def test_what_has_no_room_is_counted():
    console = Console(file=io.StringIO(), width=20, height=5)
    console.print(cropped(console, Group(*(Text(f"line {number}") for number in range(9))), 4))
    assert console.file.getvalue().split("\n") == ["line 0", "line 1", "line 2", "… 6 more lines", ""]


def test_cells_that_changed_and_rows_that_came_are_marked():
    grid = Grid(["NAME", "STATE", "UP"], [])
    before = [["a", "up", "1s"], ["b", "up", "1s"]]
    now = [["b", "down", "2s"], ["c", "up", "0s"]]
    assert marked(grid, before, now) == {(0, 1): CHANGED, (1, 0): NEW, (1, 1): NEW, (1, 2): NEW}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["nodes", "--watch"], ["nodes", "--watch=2"]),
        (["nodes", "-w", "--json"], ["nodes", "--watch=2", "--json"]),
        (["nodes", "--watch", "0.5"], ["nodes", "--watch", "0.5"]),
        (["nodes", "--watch=5"], ["nodes", "--watch=5"]),
        (["publish", "--", "--watch"], ["publish", "--", "--watch"]),
    ],
)
def test_watch_may_stand_alone_or_with_its_seconds(typed, meant):
    assert _with_seconds(typed) == meant


@pytest.mark.parametrize("command", LOOKS)
def test_every_command_that_looks_prints_one_document_and_can_be_watched(ask, whole, monkeypatch, command):
    left = [2]

    def goes_on():
        left[0] -= 1
        return left[0] >= 0

    real = watch.watch_it
    monkeypatch.setattr(watch, "watch_it", lambda ask, **options: real(ask, **options, goes_on=goes_on))
    outcome = ask(*command.split(), "--watch=0.1", "--json")
    assert outcome.code == ExitCode.DONE
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert len(lines) == 2
    once = ask(*command.split(), "--json")
    assert set(lines[0]) == {"at", *once.json}
    assert "\x1b[" not in once.out
