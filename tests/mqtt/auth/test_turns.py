"""Turns between addresses: a crowd at one address keeps nobody at another one out."""

import asyncio
import threading

import pytest

from gossamer.mqtt import Login, PasswordFile, ReasonCode
from gossamer.mqtt.auth.passwords import BACKLOG_EACH, THREADS
from gossamer.mqtt.auth.turns import Turns


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


class Queue:
    """Callers of ``turns``, and the order in which they were let in."""

    def __init__(self, **bounds):
        self.turns = Turns(1, **{"total": 100, "each": 100} | bounds)
        self.order = []

    def ask(self, host, name=""):
        async def one():
            said = f"{host}{name}"
            self.order.append(said if await self.turns.take(host) else f"{said} refused")

        return asyncio.ensure_future(one())

    async def drain(self):
        while self.turns.waiting:
            self.turns.give()
            await settle()


async def test_addresses_take_turns_whatever_each_of_them_sends():
    queue = Queue()
    tasks = [queue.ask(host) for host in ("a", "a", "a", "a", "b", "b", "c")]
    await settle()
    await queue.drain()
    assert queue.order == ["a", "a", "b", "c", "a", "b", "a"]
    await asyncio.gather(*tasks)


async def test_an_address_with_too_many_is_refused_and_another_is_not():
    queue = Queue(each=2)
    tasks = [queue.ask("a") for _ in range(5)]
    await settle()
    tasks.append(queue.ask("b"))
    await settle()
    assert queue.order == ["a", "a refused", "a refused"]
    await queue.drain()
    assert queue.order[3:] == ["a", "b", "a"]
    await asyncio.gather(*tasks)


async def test_of_one_address_the_last_to_come_is_first_and_the_first_is_refused():
    queue = Queue(each=3)
    tasks = [queue.ask("a", number) for number in range(6)]
    await settle()
    await queue.drain()
    assert queue.order == ["a0", "a1 refused", "a2 refused", "a5", "a4", "a3"]
    await asyncio.gather(*tasks)


async def test_where_each_address_has_one_that_waits_the_next_turn_is_still_given():
    queue = Queue(total=3)
    tasks = [queue.ask(host) for host in "abcdef"]
    await settle()
    await queue.drain()
    assert queue.order == ["a", "b refused", "c refused", "d", "e", "f"]
    queue.turns.give()
    assert await queue.turns.take("g")
    await asyncio.gather(*tasks)


async def test_when_all_wait_the_oldest_of_the_largest_crowd_makes_room():
    queue = Queue(total=4)
    tasks = [queue.ask(host) for host in ("a", "a", "a", "a", "a")]
    await settle()
    tasks += [queue.ask("b"), queue.ask("a")]
    await settle()
    assert queue.order == ["a", "a refused", "a refused"]
    await queue.drain()
    assert queue.order[3:] == ["a", "b", "a", "a"]
    await asyncio.gather(*tasks)


async def test_one_machine_has_no_more_turns_for_its_many_addresses():
    queue = Queue(each=1)
    tasks = [queue.ask(f"2001:db8::{number}") for number in range(1, 4)]
    await settle()
    assert queue.order == ["2001:db8::1", "2001:db8::2 refused"]
    await queue.drain()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("given", [False, True])
async def test_whoever_goes_away_takes_no_turn_with_it(given):
    queue = Queue()
    tasks = [queue.ask(host) for host in ("a", "a", "b")]
    await settle()
    if given:
        queue.turns.give()
    tasks[1].cancel()
    await settle()
    if not given:
        queue.turns.give()
        await settle()
    assert (queue.order, queue.turns.waiting) == (["a", "b"], 0)
    queue.turns.give()
    assert await queue.turns.take("c")
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def passwords(monkeypatch):
    """A source whose checks wait for ``go``, and note what they checked."""
    source = PasswordFile({})
    source.go, source.checked = threading.Semaphore(0), []

    def verify(_known, password):
        assert source.go.acquire(timeout=30)
        source.checked.append(password)
        return password == b"right"

    monkeypatch.setattr(source, "_verify", verify)
    source._users = {"ann": "hash"}
    yield source
    source.go.release(10_000)
    source._executor.shutdown(wait=False, cancel_futures=True)


def login(source, password, peer):
    answer = source.ask(Login(client_id="c", username="ann", password=password, peer=peer))
    return asyncio.ensure_future(answer) if asyncio.iscoroutine(answer) else answer


async def test_a_right_login_waits_for_no_crowd_of_wrong_ones_at_another_address(passwords):
    wrong = [login(passwords, b"wrong", f"10.0.0.1:{port}") for port in range(200)]
    await settle()
    right = login(passwords, b"right", "10.0.0.2:1")
    await settle()
    passwords.go.release(THREADS + 2)
    verdict = await asyncio.wait_for(right, 30)
    assert verdict.reason == ReasonCode.SUCCESS
    # Those under way, and one of each address that waits.
    assert len(passwords.checked) <= THREADS + 2
    for one in wrong:
        one.cancel()
    await asyncio.gather(*wrong, return_exceptions=True)


async def test_clients_that_leave_during_their_check_fill_no_queue_of_the_threads(passwords):
    for port in range(50):
        one = login(passwords, b"wrong", f"10.0.0.1:{port}")
        await settle()
        one.cancel()
    await settle()
    right = login(passwords, b"right", "10.0.0.2:1")
    await settle()
    passwords.go.release(THREADS + 1)
    assert (await asyncio.wait_for(right, 30)).reason == ReasonCode.SUCCESS
    assert len(passwords.checked) <= THREADS + 1


async def test_a_right_login_waits_for_no_crowd_of_wrong_ones_at_its_own_address(passwords):
    wrong = [login(passwords, b"wrong", f"10.0.0.1:{port}") for port in range(BACKLOG_EACH + THREADS)]
    await settle()
    right = login(passwords, b"right", "10.0.0.1:9")
    await settle()
    # Whoever waited longest made room.
    assert [one.result().reason for one in wrong if one.done()] == [ReasonCode.SERVER_BUSY]
    passwords.go.release(THREADS + 1)
    assert (await asyncio.wait_for(right, 30)).reason == ReasonCode.SUCCESS
    assert len(passwords.checked) <= THREADS + 1
    for one in wrong:
        one.cancel()
    await asyncio.gather(*wrong, return_exceptions=True)
