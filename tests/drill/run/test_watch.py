"""What nodes say of themselves, as marks; and who sees whom by them."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from gossamer.drill.record import Mark
from gossamer.drill.run.watch import Sight, Watch, mark_of
from gossamer.launch import NodePlan


def node(number: int) -> NodePlan:
    """A node as a back end has it."""
    return NodePlan(f"node{number}@127.0.0.1", Path(), {"api": 9000 + number})


def event(serial: int, kind: str, peer: str = "", age: float = 0.0, text: str = "") -> dict[str, Any]:
    return {"serial": serial, "at": 0.0, "age": age, "kind": kind, "peer": peer, "text": text}


def test_an_event_is_a_mark_at_the_time_that_its_age_says() -> None:
    told = mark_of("a", event(1, "down", "b", age=1.25, text="unreachable"), 10.0)
    assert told == Mark(8.75, "a", "declared down", "b", "unreachable")


def test_kinds_of_later_versions_are_passed_over() -> None:
    assert mark_of("a", event(1, "something new"), 10.0) is None


def test_who_sees_whom_follows_the_marks() -> None:
    sight = Sight()
    assert sight.of("a", "b") == "up"
    for kind, state in (
        ("suspected", "suspect"),
        ("refuted", "up"),
        ("suspected", "suspect"),
        ("declared down", "down"),
        ("link lost", "down"),
        ("saw the return", "up"),
        ("left", "down"),
    ):
        sight.note(Mark(1.0, "a", kind, "b"))
        assert sight.of("a", "b") == state
        assert sight.of("b", "a") == "up"
    sight.note(Mark(2.0, "a", "process started"))
    assert sight.of("a", "b") == "up"


class Nodes:
    """Answers for every node what a test puts here."""

    def __init__(self) -> None:
        self.creation = 1
        self.events: list[dict[str, Any]] = []
        self.answers = True
        self.members = ["a", "b"]
        self.topics: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not self.answers:
            raise httpx.ConnectError("down")
        if request.url.path == "/ready":
            return httpx.Response(200, json={"members": self.members})
        if request.url.path == "/api/v1/topics":
            return httpx.Response(200, json={"items": self.topics})
        after = int(request.url.params["after"])
        items = [one for one in self.events if one["serial"] > after]
        return httpx.Response(200, json={"node": "a", "creation": self.creation, "items": items})


@pytest.fixture
async def watch():
    """A watch on nodes that are not there, what they say, and the marks it told."""
    nodes, told = Nodes(), []
    watch = Watch([node(1), node(2)], now=lambda: 10.0, tell=told.append)
    await watch._client.aclose()
    watch._client = httpx.AsyncClient(transport=httpx.MockTransport(nodes))
    yield watch, nodes, told
    await watch.close()


async def test_an_event_is_told_once_however_often_is_asked(watch) -> None:
    watch, nodes, told = watch
    nodes.events = [event(1, "suspected", "b", age=2.0), event(2, "down", "b", age=1.0)]
    await watch.look()
    nodes.answers = False
    await watch.look()
    nodes.answers = True
    nodes.events.append(event(3, "up", "b"))
    await watch.look()
    assert [mark.kind for mark in told if mark.node == node(1).name] == [
        "suspected",
        "declared down",
        "saw the return",
    ]


async def test_a_new_life_of_a_node_counts_from_one_again(watch) -> None:
    watch, nodes, told = watch
    nodes.events = [event(serial, "suspected", "b") for serial in range(1, 6)]
    await watch.look()
    nodes.creation, nodes.events = 2, [event(1, "up", "b")]
    # Once to find out, once to hear.
    await watch.look()
    await watch.look()
    assert [mark.kind for mark in told if mark.node == node(2).name][-1] == "saw the return"
    assert len(told) == 2 * 6


async def test_what_happened_before_the_drill_is_not_told(watch) -> None:
    watch, nodes, told = watch
    nodes.events = [event(1, "up", "b", age=11.0)]
    await watch.look()
    assert told == []


async def test_routes_count_only_where_there_are_links_to_all(watch) -> None:
    watch, nodes, _ = watch
    nodes.topics = [{"filter": "t", "nodes": ["a", "b"]}]
    assert await watch.routes(node(1).name) == {("t", frozenset("ab"))}
    nodes.members = ["a"]
    assert await watch.routes(node(1).name) is None
    nodes.answers = False
    assert await watch.routes(node(1).name) is None
