"""What commands print, how they end and what the node is ordered: the scenarios in ``scenarios/*.txt``.

::

    == title             a scenario, of a node and a directory of its own
    with NAME            a state of its cluster, of those below
    answer STATUS BODY   somebody else answers from now on, who is no node of this version, whatever is asked
    set NAME=VALUE       a variable of the environment
    put FILE TEXT        a file in the directory; below ``drills`` or ``audits`` a program wrote it
    end JSON             the program that runs at the node ends, for this reason
    $ WORDS [-> CODE]    a command of gossamer, which ends with CODE, 0 unless it is given
    > WORDS              it prints this, however far apart the words stand; nothing behind ``>``: nothing
    ! WORDS              the same on standard error
    ~ WORDS              it prints this nowhere
    : PATH == JSON       what it prints is JSON and has this at PATH (of all items of a list; ``*``: names)
    ordered JSON         what the node was ordered since the scenario began

``{key}`` in a line is what the JSON that was printed last has there; ``{node}`` is the URL of the node.
"""

import json
import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest
from api.fakes import member
from api.linked import NAMES
from api.scenario import check_at, scenarios, squeezed

from cli.servers import answering
from gossamer.api.model.cluster import HintInfo
from gossamer.api.model.node import ClientInfo
from gossamer.errors import UsageError

LEAKS = ("String should", "Input should", "path.", "body.", "query.")


def all_nodes(served):
    for name in NAMES[1:]:
        served.answers(name)


def one_node(served):
    served.view.known[1:] = []


def a_node_that_is_down(served):
    served.view.known[1:] = [served.view.known[1].model_copy(update={"status": "offline"})]


def a_node_of_another_machine_that_is_down(served):
    a_node_that_is_down(served)
    served.view.known[1] = served.view.known[1].model_copy(update={"address": "10.0.0.2"})


def a_second_node_at_the_same_port(served):
    served.view.known[1:] = [member(2, api_port=int(served.url.rpartition(":")[2]))]


def node2_with_one_client(served):
    served.answers(NAMES[1]).sessions[1:] = []


def a_member_without_the_feature(served):
    [flag] = served.view.flags
    served.view.flags = [flag.model_copy(update={"lacked_by": (NAMES[1],)})]


def wrong_routes(served):
    served.view.routes_wrong = True


def no_filters(served):
    served.view.filters = []


def six_thousand_filters(served):
    served.view.filters = [f"t/{number:04}" for number in range(6000)]


def filters_that_move_a_terminal(served):
    served.view.filters = ["a\x1b[31m", "[red]b[/red]"]


def a_split(served):
    served.view.healing.split = True


def a_file_that_is_refused(served):
    async def refuse():
        raise UsageError("refused: /etc/acl:3: cannot read 'allow'")

    served.view.reload = refuse


def a_session_of_nobody(served):
    row = ClientInfo(client="meter", connected=False, node=NAMES[0], session_expiry=3600.0, queued=7)
    served.view.sessions.append(row)


def a_hint(served):
    hint = HintInfo(kind="udp-blocked", at=1.0, text="UDP is blocked on the way", evidence={"member": "n2"})
    served.view.hints = (hint,)


class Scenario:
    """A node, a directory, and what was typed and printed there so far."""

    def __init__(self, served, run, patch, stack, directory):
        self.served, self.run, self.patch, self.stack, self.directory = served, run, patch, stack, directory
        self.known = {"node": served.url}
        self.outcome = None
        patch.chdir(directory)
        patch.setenv("GOSSAMER_API", served.url)

    def filled(self, line):
        return re.sub(r"{(\w+)}", lambda found: str(self.known.get(found[1], found[0])), line)

    def type(self, line):
        words, _, code = line.partition(" -> ")
        self.outcome = self.run(*shlex.split(words))
        assert self.outcome.code == int(code or 0), (line, self.outcome.err)
        assert not [leak for leak in LEAKS if leak in self.outcome.err], line
        if "--json" in words and self.outcome.out:
            self.known |= json.loads(
                self.outcome.out.splitlines()[-1] if "follow" in words else self.outcome.out
            )

    def take(self, line):
        mark, _, rest = self.filled(line).partition(" ")
        match mark:
            case "with":
                globals()[rest.replace(" ", "_")](self.served)
            case "answer":
                status, _, body = rest.partition(" ")
                url = self.stack.enter_context(answering(body.encode(), status=int(status)))
                self.patch.setenv("GOSSAMER_API", url)
            case "set":
                self.patch.setenv(*rest.split("=", 1))
            case "put":
                name, _, text = rest.partition(" ")
                (self.directory / name).write_text(text)
            case "end":
                reason = json.loads(rest)
                self.served.end(tuple(reason) if isinstance(reason, list) else reason)
            case "$":
                self.type(rest)
            case ">" | "!":
                said = squeezed(self.outcome.out if mark == ">" else self.outcome.err)
                assert rest in said if rest else said == "", (line, said)
            case "~":
                assert rest not in self.outcome.out + self.outcome.err, line
            case ":":
                check_at(self.outcome.json, rest)
            case _:
                assert mark == "ordered", line
                check_at(self.served.view.orders, f". == {rest}")


@pytest.mark.parametrize("lines", scenarios(Path(__file__).parent))
def test_scenario(served, run, monkeypatch, tmp_path, lines):
    with ExitStack() as stack:
        scenario = Scenario(served, run, monkeypatch, stack, tmp_path)
        for line in lines:
            scenario.take(line)
