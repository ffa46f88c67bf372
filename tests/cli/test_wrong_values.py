"""A value that cannot be right ends a command with 2, whatever verb it stands behind, whoever finds it.

So it is also where no node answers, so that scripts can tell their own mistakes from those of the cluster.
What may be right and is not there (a node, a client, an id of the right form) is another matter: 5.
"""

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from cli.test_command_list import ALL


def table():
    """Of every verb, what may be typed behind it that is wrong."""
    for row in (Path(__file__).parent / "wrong_values.txt").read_text().splitlines()[1:]:
        verb, *lines = (part.strip() for part in row.split(" | "))
        yield verb, [line.replace("BAD_API", "--api 'http://h:moon'") for line in lines]


WRONG = dict(table())


def test_every_verb_is_in_the_table():
    assert sorted(WRONG) == sorted(ALL)


@pytest.fixture(params=["a node", "no node"])
def api(request):
    """Of a node, or one at which nobody answers."""
    return request.getfixturevalue("served").url if request.param == "a node" else "http://127.0.0.1:1"


@pytest.fixture
def at(api, run, monkeypatch, tmp_path):
    def at(line):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GOSSAMER_API", api)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        # A command finds the program of the jobs as in a process of its own: not loaded yet.
        monkeypatch.delitem(sys.modules, "gossamer.spark.__main__", raising=False)
        return run(*shlex.split(line))

    return at


@pytest.mark.parametrize("line", [f"{verb} {words}" for verb, lines in WRONG.items() for words in lines])
def test_a_wrong_value_ends_with_2(at, line):
    ended = at(line)
    assert (ended.code, ended.out) == (2, ""), ended.err
    # What Python, or a library, says is for who writes programs.
    assert not re.search(r"Traceback|(String|Input) should|should be a valid|unable to parse| b'", ended.err)
