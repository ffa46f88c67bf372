"""Clients searched for and sorted: on one node without holding its loop, on all of them in one order."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.linked import NAMES, client_of, meters, pages
from gossamer.api import ClientSearch, sort_key
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


@pytest.mark.parametrize("limit", [1, 5, 100])
async def test_pages_of_all_nodes_are_in_the_order_that_is_asked_for(cluster, limit):
    async with client_of(meters(cluster)[1]) as client:
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, sort="queued", order="desc")
        assert [row["queued"] for row in rows] == sorted(range(12), reverse=True)
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, sort="node", order="desc")
        assert [row["node"] for row in rows] == [name for name in reversed(NAMES) for _ in range(4)]
        rows, _, _ = await pages(client, "/api/v1/clients", limit=limit, order="desc")
        assert [row["client"] for row in rows] == sorted((row["client"] for row in rows), reverse=True)


async def test_pages_of_subscriptions_are_sorted_over_all_pages_and_nodes(cluster):
    async with client_of(cluster([])[1]) as client:
        for field in ("client", "filter", "qos", "node"):
            for order in ("asc", "desc"):
                path, wanted = "/api/v1/subscriptions", {"sort": field, "order": order}
                rows, _, number = await pages(client, path, limit=2, **wanted)
                assert (len(rows), number) == (9, 5)
                values = [row[field] for row in rows]
                assert values == sorted(values, reverse=order == "desc"), (field, order)


async def test_pages_of_retained_messages_are_sorted_over_all_pages(cluster):
    async with client_of(cluster([])[1]) as client:
        for field in ("topic", "qos", "bytes", "expires_at"):
            for order in ("asc", "desc"):
                wanted = {"sort": field, "order": order}
                rows, _, number = await pages(client, "/api/v1/retained", limit=1, **wanted)
                assert number == 2
                values = [row[field] for row in rows]
                assert values == sorted(values, reverse=order == "desc"), (field, order)


async def test_a_wrong_value_is_told_once_though_two_parts_of_the_route_read_it(cluster):
    async with client_of(meters(cluster)[1]) as client:
        answer = await client.get("/api/v1/clients", params={"limit": 0})
    assert (answer.status_code, answer.json()["detail"]) == (422, "limit: got '0', expected 1 or more")


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


async def test_a_timeline_has_the_events_of_all_nodes_the_latest_first_in_pages(cluster):
    views = cluster([])
    for number, view in enumerate(views):
        [one] = view.event_log.after(0)
        one.at += number
        view.event_log.after = lambda serial, one=one: [one]
    async with client_of(views[0]) as client:
        rows, missing, number = await pages(client, "/api/v1/timeline", limit=1)
    assert [row["at"] for row in rows] == [992.0, 991.0, 990.0]
    assert [row["node"] for row in rows] == NAMES[::-1]
    assert (missing, number) == ({}, 3)
