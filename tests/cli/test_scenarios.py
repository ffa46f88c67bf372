"""What commands print, how they end and what the node is ordered: the scenarios in ``scenarios/*.txt``.

::

    == title             a scenario, of a node of its own
    with NAME            a state of its cluster, of those below
    $ WORDS [-> CODE]    a command of gossamer, which ends with CODE, 0 unless it is given
    > WORDS              it prints this, however far apart the words stand; nothing behind ``>``: nothing
    ! WORDS              the same on standard error
    : PATH == JSON       what it prints is JSON and has this at PATH (of all items of a list; ``*``: names)
    ordered JSON         what the node was ordered since the scenario began
"""

import shlex
from pathlib import Path

import pytest
from api.linked import NAMES
from api.scenario import check_at, scenarios, squeezed

from gossamer.api.model.cluster import HintInfo
from gossamer.api.model.node import ClientInfo

LEAKS = ("String should", "Input should", "path.", "body.", "query.")


def all_nodes(served):
    for name in NAMES[1:]:
        served.answers(name)


def one_node(served):
    served.view.known[1:] = []


def a_node_that_is_down(served):
    served.view.known[1:] = [served.view.known[1].model_copy(update={"status": "offline"})]


def node2_with_one_client(served):
    served.answers(NAMES[1]).sessions[1:] = []


def wrong_routes(served):
    served.view.routes_wrong = True


def no_filters(served):
    served.view.filters = []


def a_split(served):
    served.view.healing.split = True


def a_session_of_nobody(served):
    row = ClientInfo(client="meter", connected=False, node=NAMES[0], session_expiry=3600.0, queued=7)
    served.view.sessions.append(row)


def a_hint(served):
    hint = HintInfo(kind="udp-blocked", at=1.0, text="UDP is blocked on the way", evidence={"member": "n2"})
    served.view.hints = (hint,)


@pytest.mark.parametrize("lines", scenarios(Path(__file__).parent))
def test_scenario(served, ask, lines):
    for line in lines:
        mark, _, rest = line.partition(" ")
        if mark == "with":
            globals()[rest.replace(" ", "_")](served)
        elif mark == "$":
            words, _, code = rest.partition(" -> ")
            outcome = ask(*shlex.split(words))
            assert outcome.code == int(code or 0), (line, outcome.err)
            assert not [leak for leak in LEAKS if leak in outcome.err], line
        elif mark in (">", "!"):
            said = squeezed(outcome.out if mark == ">" else outcome.err)
            assert rest in said if rest else said == "", (line, said)
        elif mark == ":":
            check_at(outcome.json, rest)
        else:
            assert mark == "ordered", line
            check_at(served.view.orders, f". == {rest}")
