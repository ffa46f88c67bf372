"""A whole list in order, in bounded memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.api.peers.paging import walk_in_order


async def walked(names, **options):
    walks = 0

    def items():
        nonlocal walks
        walks += 1
        return [((name,), lambda name=name: name) for name in names]

    parts = [[show() for _, show in part] async for part in walk_in_order(items, **options)]
    return parts, walks


@given(
    names=st.lists(st.text(max_size=3), max_size=60, unique=True),
    window=st.integers(1, 12),
    slice_of=st.integers(1, 9),
    above=st.text(max_size=2),
)
@settings(max_examples=100, deadline=None)
async def test_every_item_above_the_floor_comes_once_and_in_order(names, window, slice_of, above):
    parts, _ = await walked(names, above=(above,), window=window, slice_of=slice_of)
    assert [name for part in parts for name in part] == sorted(name for name in names if name > above)
    assert all(len(part) <= slice_of for part in parts)


async def test_what_fits_takes_one_walk_and_what_does_not_a_walk_a_window():
    names = [f"{number * 7919 % 20_000:05}" for number in range(20_000)]
    _, walks = await walked(names, window=10_000)
    assert walks == 1
    parts, walks = await walked(names, window=3000)
    assert [name for part in parts for name in part] == sorted(names)
    assert walks <= 20_000 // 3000 + 1


async def test_others_have_the_loop_while_a_long_list_is_walked():
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await walked([f"{number:06}" for number in range(40_000)])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns >= 20
