"""Whose turn it is to call."""

import asyncio

import pytest

from gossamer.distribution.links.turns import AT_ONCE, PATIENCE, TURN, Call, Turns


class Links:
    """Stands for a runtime: whose turn came, in order; ``dead`` links get no message."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.came, self.dead = [], set()

    def send(self, link, _message):
        if link in self.dead:
            return False
        self.came.append(link)
        return True


@pytest.fixture
async def links(sim):
    return Links()


async def test_a_few_call_at_once_and_the_next_when_one_is_done(links):
    turns = Turns(links)
    for link in range(AT_ONCE + 2):
        turns.ask(link, Call.FIRST)
    assert links.came == list(range(AT_ONCE))
    turns.free(1)
    assert links.came == list(range(AT_ONCE + 1))


async def test_further_channels_wait_for_all_first_calls(links):
    turns = Turns(links)
    for link in range(AT_ONCE):
        turns.ask(link, Call.FIRST)
    further = [f"further {number}" for number in range(AT_ONCE + 1)]
    for link in further:
        turns.ask(link, Call.FURTHER)
    turns.ask("first", Call.FIRST)
    turns.free(0)
    assert links.came[AT_ONCE:] == ["first"]
    for link in (*range(1, AT_ONCE), "first"):
        turns.free(link)
    assert links.came[AT_ONCE:] == ["first", *further[:AT_ONCE]]
    turns.free(further[0])
    assert links.came[-1] == further[-1]


async def test_those_that_failed_before_hold_nobody_else_up(links):
    turns = Turns(links)
    for link in range(10 * AT_ONCE):
        turns.ask(link, Call.AGAIN)
    turns.ask("first", Call.FIRST)
    assert links.came == [*range(AT_ONCE), "first"]
    turns.free("first")
    turns.ask("further", Call.FURTHER)
    assert links.came[-1] == "further"


async def test_first_calls_that_never_end_do_not_keep_further_channels_waiting_for_ever(links):
    turns = Turns(links)
    turns.ask("further", Call.FIRST)
    turns.free("further")
    for link in range(20 * AT_ONCE):
        turns.ask(link, Call.FIRST)
    turns.ask("further", Call.FURTHER)
    await asyncio.sleep(PATIENCE + TURN)
    assert links.came.count("further") == 2
    assert 20 * AT_ONCE - 1 not in links.came


async def test_one_that_gets_no_answer_loses_its_turn(links):
    turns = Turns(links)
    for link in range(2 * AT_ONCE):
        turns.ask(link, Call.FIRST)
    await asyncio.sleep(TURN + 0.01)
    assert links.came == list(range(2 * AT_ONCE))


async def test_a_link_that_was_killed_holds_nobody_up(links):
    turns = Turns(links)
    for link in range(AT_ONCE + 2):
        turns.ask(link, Call.FIRST)
    links.dead.add(AT_ONCE)
    turns.free(0)
    assert links.came[-1] == AT_ONCE + 1


async def test_one_that_gives_up_waiting_is_not_told(links):
    turns = Turns(links)
    for link in range(AT_ONCE + 2):
        turns.ask(link, Call.FIRST)
    turns.free(AT_ONCE)
    turns.free(0)
    assert links.came[-1] == AT_ONCE + 1
