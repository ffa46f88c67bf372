"""Adoption of thousands of sessions that come at once."""

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from gossamer.mqtt.migration.adoption import AT_ONCE, Adoptions


class Copies:
    """Copies in two ranges, the second of which does not answer for now; claims take a while."""

    strict = False

    def __init__(self):
        self.reading, self.most, self.left = 0, 0, []
        self.answered = asyncio.Event()

    def range_of(self, client_id):
        return int(client_id[0])

    def answers(self, client_id):
        return True

    async def find(self, client_id):
        if self.range_of(client_id) == 1:
            await self.answered.wait()
        self.reading += 1
        self.most = max(self.most, self.reading)
        await asyncio.sleep(0.01)
        self.reading -= 1

    def copy_of(self, client_id):
        return None

    def let_go(self, client_id):
        self.left.append(client_id)


@pytest.fixture
def adoptions():
    table = SimpleNamespace(sessions={}, store=None)
    core = SimpleNamespace(table=table, fanout=None)
    made = Adoptions(core, Mock(node="a"), Mock(), Mock(), Mock(), Mock())
    made.copies = Copies()
    return made


async def test_sessions_that_come_at_once_wait_for_their_turn_by_range(adoptions):
    copies = adoptions.copies
    slow = [f"1/{number}" for number in range(2 * AT_ONCE)]
    waiting = [asyncio.ensure_future(adoptions.take(one, None)) for one in slow]
    clients = [f"0/{number}" for number in range(5 * AT_ONCE)]
    assert await asyncio.gather(*(adoptions.take(one, None) for one in clients)) == ["here"] * len(clients)
    assert copies.most == AT_ONCE
    assert all(adoptions.over(one) is not None for one in slow)
    copies.answered.set()
    assert await asyncio.gather(*waiting) == ["here"] * len(slow)
    assert sorted(copies.left) == sorted([*clients, *slow])
    assert not any(map(adoptions.has, [*clients, *slow]))
