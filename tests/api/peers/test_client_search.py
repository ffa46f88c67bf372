"""Clients searched for and sorted: on one node without holding its loop, on all of them in one order."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.linked import NAMES, client_of, pages
from gossamer.api import ClientSearch, sort_key
from gossamer.api.model.node import ClientInfo
from gossamer.api.peers.paging import STRIDE, page_of


@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=4) | st.just("ab"), max_size=20))
def test_keys_of_texts_sort_as_the_texts_do(texts):
    """No text of MQTT has a NUL in it."""
    folded = [text.casefold() for text in texts]
    assert sorted(map(sort_key, texts)) == sorted(folded)
    mirrored = sorted(texts, key=lambda text: sort_key(text, descending=True))
    assert [text.casefold() for text in mirrored] == sorted(folded, reverse=True)


@given(st.lists(st.integers(0, 10**12), max_size=20))
def test_keys_of_numbers_sort_as_the_numbers_do(numbers):
    assert sorted(numbers, key=sort_key) == sorted(numbers)
    assert sorted(numbers, key=lambda one: sort_key(one, descending=True)) == sorted(numbers, reverse=True)


@pytest.fixture
def view(cluster):
    views = cluster([])
    for number, view in enumerate(views):
        view.sessions = [
            ClientInfo(
                client=f"Meter-{number}{at}",
                connected=at != 3,
                node=view.name,
                username="Anna" if at == 1 else "",
                address=f"10.0.{number}.{at}:500",
                queued=at * 3 + number,
            )
            for at in range(4)
        ]
    return views[1]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"search": "meter-1"}, ["Meter-10", "Meter-11", "Meter-12", "Meter-13"]),
        ({"search": "R-", "user": "anna"}, ["Meter-01", "Meter-11", "Meter-21"]),
        ({"address": "10.0.2."}, ["Meter-20", "Meter-21", "Meter-22", "Meter-23"]),
        ({"address": ".2:500", "node": NAMES[0]}, ["Meter-02"]),
        ({"search": "1", "connected": False}, ["Meter-13"]),
        ({"search": "nothing like it"}, []),
    ],
)
async def test_clients_are_found_on_all_nodes_by_a_part(view, asked, found):
    async with client_of(view) as client:
        rows, missing, _ = await pages(client, "/api/v1/clients", limit=2, **asked)
    assert [row["client"] for row in rows] == found
    assert missing == {}


@pytest.mark.parametrize("limit", [1, 5, 100])
async def test_pages_of_all_nodes_are_in_the_order_that_is_asked_for(view, limit):
    async with client_of(view) as client:
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, sort="queued", order="desc")
        assert [row["queued"] for row in rows] == sorted(range(12), reverse=True)
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, sort="node", order="desc")
        assert [row["node"] for row in rows] == [name for name in reversed(NAMES) for _ in range(4)]
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, order="desc")
        assert [row["client"] for row in rows] == sorted((row["client"] for row in rows), reverse=True)


async def test_a_rare_find_among_many_gives_others_the_loop():
    """Sessions that are not wanted count for the length of a turn, too."""
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    wanted = ClientSearch(part="99999")
    walk = (
        ((name,), lambda name=name: name)
        if wanted.admits(name, connected=True, user="", address="")
        else None
        for name in (f"meter-{number:06}" for number in range(100_000))
    )
    task = asyncio.ensure_future(others())
    begin = time.perf_counter()
    found, _ = await page_of(walk, limit=50)
    task.cancel()
    assert found == ("meter-099999",), time.perf_counter() - begin
    assert turns >= 100_000 // STRIDE


async def test_subscriptions_are_found_by_a_part_of_client_or_filter(cluster):
    async with client_of(cluster([])[0]) as client:
        rows, _, _ = await pages(client, "/api/v1/subscriptions", search="a/")
        assert [(row["filter"], row["node"]) for row in rows] == [("a/+", name) for name in NAMES]
        assert len((await pages(client, "/api/v1/subscriptions", search="sensor"))[0]) == 9


class TestTimeline:
    async def test_it_has_the_events_of_all_nodes_the_latest_first_in_pages(self, cluster):
        views = cluster([])
        for number, view in enumerate(views):
            [one] = view.event_log.after(0)
            one.at += number
            view.event_log.after = lambda serial, one=one: [one]
        async with client_of(views[0]) as client:
            rows, missing, number = await pages(client, "/api/v1/timeline", limit=1)
            assert [row["at"] for row in rows] == [992.0, 991.0, 990.0]
            assert [row["node"] for row in rows] == NAMES[::-1]
            assert [row["age"] for row in rows] == [1.5] * 3
            assert (missing, number) == ({}, 3)
            for asked, count in [
                ({"kind": "up, down"}, 3),
                ({"kind": "up"}, 0),
                ({"peer": "node2@127.0.0.1"}, 3),
                ({"peer": "node3@127.0.0.1"}, 0),
                ({"search": "NODE2"}, 3),
                ({"node": NAMES[1]}, 1),
            ]:
                assert len((await pages(client, "/api/v1/timeline", **asked))[0]) == count, asked

    async def test_a_silent_node_is_missing_in_it(self, cluster):
        async with client_of(cluster([], silent={NAMES[2]})[0]) as client:
            rows, missing, _ = await pages(client, "/api/v1/timeline")
        assert (len(rows), list(missing)) == (2, [NAMES[2]])


class TestHistory:
    async def test_any_node_has_the_history_of_all(self, cluster):
        async with client_of(cluster([], silent={NAMES[2]})[0]) as client:
            told = (await client.get("/api/v1/history", params={"step": 60})).json()
        assert [(one["node"], one["step"], one["received"]) for one in told["nodes"]] == [
            (name, 60, [2.5]) for name in NAMES[:2]
        ]
        assert list(told["missing"]) == [NAMES[2]]

    async def test_one_node_can_be_named(self, cluster):
        async with client_of(cluster([])[0]) as client:
            told = (await client.get("/api/v1/history", params={"node": NAMES[1]})).json()
            assert [one["node"] for one in told["nodes"]] == [NAMES[1]]
            own = (await client.get(f"/api/v1/nodes/{NAMES[1]}/history", params={"scope": "node"})).json()
            assert own == told
