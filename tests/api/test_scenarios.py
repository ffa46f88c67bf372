"""What the API answers and what the node is ordered: the scenarios in ``scenarios/*.txt``.

::

    == title                      a scenario, of a node of its own, which administrators of its machine ask
    with NAME                     a state of the node, of those below
    as ROLE                       a caller of another machine with a token of that role, or none: nobody
    GET PATH [JSON] [-> STATUS]   a request, with a body; below ``/api/v1/`` unless PATH begins with a slash
    > TEXT                        the answer has it, however far apart its words stand
    < HEADER: TEXT                its header begins with that
    : PATH == JSON                it is JSON and has this at PATH
    put FILE TEXT                 a program writes it, with ends of lines where ``\\n`` stands
    end JSON                      the program ends, for this reason
    started JSON                  the programs that were started
    ordered [by N] JSON           what the node, or the one of that number, was ordered so far

``{id}`` in a line is that of what was made last.
"""

import json
from pathlib import Path

import httpx
import pytest

from api.fakes import FakeTable, FakeView
from api.linked import NAMES, meters
from api.scenario import check_at, scenarios, squeezed
from gossamer.api import Role, Tokens, make_app
from gossamer.clock import SystemClock
from gossamer.faults import FaultTable
from gossamer.queues.values import Leave

CLIENTS = [(client, number % 3) for number, client in enumerate("abcdef")]


def tables_that_are_not_loaded(scenario):
    scenario.view.ready = False


def a_gate(scenario):
    scenario.view.faults = FaultTable(lambda address: None)


def no_gate(scenario):
    scenario.view.faults = None


def a_member_without_the_feature(scenario):
    [flag] = scenario.view.flags
    scenario.view.flags = [flag.model_copy(update={"lacked_by": ("node2@127.0.0.1",)})]


def no_quorum_of_queues(scenario):
    scenario.view.queues.quorum = False


def nobody_who_consumes(scenario):
    scenario.view.queues.ask(Leave("jobs", "workers", "node1@127.0.0.1/0a"))


def no_disc(scenario):
    scenario.view.drills = FakeView().drills


def a_split(scenario):
    scenario.view.healing.split = True


def three_nodes(scenario, **options):
    scenario.views = scenario.cluster(CLIENTS, tokens=scenario.tokens, **options)
    for view in scenario.views:
        view.healing.name = view.name


def a_silent_node_of_three(scenario):
    three_nodes(scenario, silent={NAMES[2]})


def a_node_of_three_that_is_down(scenario):
    three_nodes(scenario)
    scenario.view.known[1] = scenario.view.known[1].model_copy(update={"status": "offline"})


def another_row_at_node3(scenario):
    three_nodes(scenario)
    healing = scenario.views[2].healing
    healing.row = healing.row.model_copy(update={"id": "ba9876543210"})


def meters_at_three_nodes(scenario):
    scenario.views = meters(scenario.cluster)


class Scenario:
    """A node, or three of which the first is asked, with all that callers have said and heard so far."""

    def __init__(self, directory, cluster):
        self.directory, self.cluster = directory, cluster
        self.views = [FakeView(directory=directory)]
        self.tokens = Tokens(now=SystemClock().wall)
        self.tokens.attach(FakeTable())
        self.role, self.made, self.answer, self.app = "", "", None, None

    @property
    def view(self):
        return self.views[0]

    async def request(self, line):
        words, _, status = line.partition(" -> ")
        method, path, *body = words.split(" ", 2)
        self.app = self.app or make_app(self.view, tokens=self.tokens)
        transport = httpx.ASGITransport(self.app, client=("10.0.0.9" if self.role else "127.0.0.1", 4))
        url = path if path.startswith("/") else f"/api/v1/{path}"
        headers = {}
        if self.role and self.role != "nobody":
            made, _ = self.tokens.create(name=self.role, role=Role(self.role), lifetime=60, by="test")
            headers = {"authorization": f"Bearer {made}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091") as client:
            content = json.loads(body[0]) if body else None
            self.answer = await client.request(method, url, json=content, headers=headers)
        assert self.answer.status_code == int(status or 200), (line, self.answer.text)
        if self.answer.status_code == 201:
            self.made = self.answer.json()["id"]

    async def take(self, line):
        mark, _, rest = line.replace("{id}", self.made).partition(" ")
        match mark:
            case "with":
                globals()[rest.replace(" ", "_")](self)
            case "as":
                self.role = rest
            case ">":
                assert rest in squeezed(self.answer.text), (line, self.answer.text)
            case "<":
                name, _, begin = rest.partition(": ")
                assert self.answer.headers[name].startswith(begin), (line, self.answer.headers)
            case ":":
                check_at(self.answer.json(), rest)
            case "put":
                name, _, text = rest.partition(" ")
                file = self.directory / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text.replace(r"\n", "\n"))
            case "end":
                reason = json.loads(rest)
                self.view.programs.end(tuple(reason) if isinstance(reason, list) else reason)
            case "started":
                told = [arguments for arguments, _, _ in self.view.programs.told]
                check_at(told, f". == {rest.replace('{dir}', str(self.directory))}")
            case "ordered":
                number, orders = rest[3:].split(" ", 1) if rest.startswith("by ") else (1, rest)
                check_at(self.views[int(number) - 1].orders, f". == {orders}")
            case _:
                await self.request(line.replace("{id}", self.made))


@pytest.mark.parametrize("lines", scenarios(Path(__file__).parent))
async def test_scenario(lines, tmp_path, cluster):
    scenario = Scenario(tmp_path, cluster)
    for line in lines:
        await scenario.take(line)
