"""``gossamer top``: samples of the whole cluster, how they are looked at, and what it all looks like."""

import io
import json
import re
import sys

import pytest
from api.fakes import filled
from rich.console import Console

from cli.terminal import Terminal
from gossamer.api.model.cluster import Pulse
from gossamer.cli.render.top_view import (
    COLUMNS,
    KEYS,
    ViewState,
    columns_in,
    picture,
    rates_of,
    room_in,
    rows_of,
)


def pulse(node="a", *, at=1.0, creation=1, peers=None, **more):
    told = {"memory": 1 << 20, "uptime": 60.0, "state": "running", "forwarded_bytes": peers or {}, **more}
    return filled(Pulse, node=node, at=at, creation=creation).model_dump() | told


def sample(*pulses, missing=None):
    return {"asked": "a", "nodes": pulses, "missing": missing or {}}


def press(view, *keys, shown=("a", "b", "c", "d", "e"), room=2):
    for key in keys:
        view = view.press(key, shown=shown, columns=len(COLUMNS), room=room)
    return view


def drawn(view, now, *, width=100, height=16, rates=None, busy=None):
    """The lines of the picture, as a terminal of that size has them."""
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(picture(now, rates or {}, view, width=width, height=height, busy=busy))
    return console.export_text().splitlines()


def test_rates_are_differences_over_the_time_between():
    before = sample(pulse(received=10, sent=0, peers={"b": 100}))
    now = sample(pulse(at=3.0, received=30, sent=8, peers={"b": 500}))
    assert rates_of(before, now) == {"a": {"received": 10, "sent": 4, "dropped": 0, "forwarded": 200}}


def test_a_node_that_started_anew_or_is_new_has_no_rate_yet():
    before = sample(pulse(received=10))
    assert rates_of(before, sample(pulse(at=2.0, creation=2), pulse("b", at=2.0))) == {}
    assert rates_of(None, before) == {}


# -- keys


def test_arrows_sort_by_another_column_and_most_comes_first():
    now = sample(pulse("a", connections=1), pulse("b", connections=3), pulse("c", connections=2))
    by_clients = press(ViewState(), "right")
    assert [row["node"] for row in rows_of(now, {}, by_clients)] == ["b", "c", "a"]
    assert [row["node"] for row in rows_of(now, {}, press(by_clients, "r"))] == ["a", "c", "b"]
    assert [row["node"] for row in rows_of(now, {}, ViewState())] == ["a", "b", "c"]
    assert press(ViewState(), "left").sort == len(COLUMNS) - 1


def test_the_cursor_takes_its_page_along_and_pages_end_where_the_nodes_end():
    ways = {"down down": "c", "down down up up up": "a", "down " * 9: "e", "n n n n": "e", "n": "c", "p": "a"}
    for keys, chosen in ways.items():
        assert press(ViewState(), *keys.split()).chosen == chosen, keys
    now = sample(*(pulse(name) for name in "abcde"))
    shown = "\n".join(drawn(press(ViewState(), "down", "down"), now, height=9))
    assert "page 2 of 3" in shown


def test_a_filter_is_typed_kept_and_dropped():
    view = press(ViewState(), "/", "q", "B", "backspace", "backspace", "b")
    assert (view.only, view.over) == ("b", False)
    now = sample(pulse("a"), pulse("b"), missing={"bb": "no answer", "c": "no answer"})
    assert [row["node"] for row in rows_of(now, {}, view)] == ["b", "bb"]
    assert press(view, "enter", "q").over
    assert press(view, "enter", "escape").only == ""
    assert press(view, "escape") == press(ViewState(), "/", "escape")


def test_what_no_key_is_changes_nothing():
    assert press(ViewState(), "x", "") == ViewState()
    assert press(ViewState(), "up", "down", shown=()) == ViewState()


def test_help_names_every_key_and_any_key_leaves_it():
    shown = "\n".join(drawn(press(ViewState(), "?"), sample(pulse())))
    assert all(key in shown for key, _ in KEYS)
    assert press(ViewState(), "?", "down") == ViewState()
    assert press(ViewState(), "?", "q").over


# -- the picture


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [8, 12, 40])
@pytest.mark.parametrize("keys", [(), ("enter",), ("/", "x"), ("?",)])
def test_it_never_is_larger_than_the_terminal(width, height, keys):
    sees = {f"n{at:03}": {"status": "suspect", "link": "down"} for at in range(30)}
    alarm = {"active": True, "text": "the cluster was parted " * 9}
    nodes = [pulse(f"n{at:03}", sees=sees, alarms=[alarm]) for at in range(30)]
    view = press(ViewState(), *keys, shown=[one["node"] for one in nodes])
    busy = [(str(at), "worker", 1.0, 0) for at in range(50)]
    lines = drawn(view, sample(*nodes), width=width, height=height, busy=busy)
    assert len(lines) <= max(height, len(KEYS) + 4 if keys == ("?",) else 11)
    assert all(len(line) <= width for line in lines)


def test_a_narrow_terminal_has_fewer_columns_and_a_short_one_fewer_rows():
    assert [column.title for column in columns_in(50)] == ["NODE", "CLIENTS", "IN/S", "OUT/S"]
    assert columns_in(200) == list(COLUMNS)
    assert (room_in(24, 0), room_in(24, 9), room_in(3, 0)) == (17, 14, 1)


def test_what_is_wrong_is_shown():
    bad = pulse(
        "b", sees={"a": {"status": "offline", "link": "down"}}, alarms=[{"active": True, "text": "x\x1b"}]
    )
    over = pulse("a", alarms=[{"active": False, "text": "long ago"}])
    shown = "\n".join(drawn(ViewState(), sample(over, bad, missing={"c": "no answer"})))
    assert "a offline, link down" in shown
    assert "silent: no answer" in shown
    assert "alarm: x\\x1b" in shown
    assert "long ago" not in shown


def test_a_node_is_looked_at_with_its_links_and_busy_processes():
    one = pulse("b", sees={"a": {"status": "online", "link": "up"}}, peers={"a": 2048})
    view = press(ViewState(), "down", "enter", shown=["a", "b"])
    shown = "\n".join(drawn(view, sample(pulse(), one), busy=[("31", "mqtt channel", 950.0, 7)], height=30))
    assert re.search(r"a +online +up +2.0 KiB", shown)
    assert re.search(r"31 +950 +7 +mqtt channel", shown)
    assert "asking" in "\n".join(drawn(view, sample(pulse(), one), height=30))


# -- the command


def test_it_shows_all_nodes_and_who_is_silent(served, run):
    shown = run("top", "--samples", "1", "--api", served.url)
    assert shown.code == 0
    assert "node1@127.0.0.1" in shown.out
    assert "silent" in shown.out
    assert "node3@127.0.0.1 suspect" in shown.out
    (line,) = run("top", "--samples", "1", "--json", "--api", served.url).out.splitlines()
    assert json.loads(line)["asked"] == "node1@127.0.0.1"


def test_on_a_terminal_keys_and_another_size_are_answered(served):
    with Terminal([sys.executable, "-m", "gossamer.cli", "top", "--api", served.url], size=(24, 100)) as at:
        at.see("node1@127.0.0.1")
        at.see("q ends")
        at.type("?")
        at.see("Keys of gossamer top")
        at.type("x")
        at.see("q ends")
        at.type("/no-such-node\r")
        at.see("no node has that in its name")
        at.type("\x1b")
        at.see("node1@127.0.0.1")
        at.resize(24, 160)
        at.see("TO PEERS/S")
        at.type("q")
        assert at.ended() == 0
