"""Names to addresses: bounded in time, one look-up a name, and what was known stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gossamer.config import config_from
from gossamer.discovery import Discovered, Dns, Static, strategy_of
from gossamer.discovery.strategy import Hosts

ME = ("10.0.0.1", 7946)


class Resolver:
    """Answers after a while, or not."""

    def __init__(self) -> None:
        self.answers: dict[str, Sequence[str] | Exception] = {}
        self.slow: dict[str, float] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        await asyncio.sleep(self.slow.get(host, 0))
        answer = self.answers[host]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_names_are_looked_up_all_at_once_and_literals_are_not(virtual_time) -> None:
    resolver = Resolver()
    resolver.answers = {"a": ["10.0.0.2", "fd00::2"], "b": ["10.0.0.3"]}
    resolver.slow = {"a": 3, "b": 3}
    found = await Hosts(resolver).look([("b", 1), ("10.0.0.9", 2), ("a", 3), ("a", 4), ("fd00::1", 5)])
    assert found.addresses == (
        ("10.0.0.3", 1),
        ("10.0.0.9", 2),
        ("10.0.0.2", 3),
        ("fd00::2", 3),
        ("10.0.0.2", 4),
        ("fd00::2", 4),
        ("fd00::1", 5),
    )
    assert found.problems == {}
    assert sorted(resolver.asked) == ["a", "b"]
    assert asyncio.get_running_loop().time() == 3


async def test_a_look_up_that_hangs_is_waited_for_again_instead_of_doubled(virtual_time) -> None:
    resolver = Resolver()
    resolver.answers = {"slow": ["10.0.0.2"], "quick": ["10.0.0.3"]}
    resolver.slow = {"slow": 12}
    hosts = Hosts(resolver, within=5)
    for _ in range(2):
        found = await hosts.look([("slow", 1), ("quick", 1)])
        assert found.addresses == (("10.0.0.3", 1),)
        assert found.problems == {"slow": "the system's resolver did not answer within 5 s"}
    assert await hosts.look([("slow", 1)]) == Discovered((("10.0.0.2", 1),))
    assert resolver.asked.count("slow") == 1


async def test_what_a_name_was_stays_while_its_look_up_fails_and_no_longer_than_it_is_asked_for(
    virtual_time,
) -> None:
    resolver = Resolver()
    resolver.answers = {"a": ["10.0.0.2"]}
    hosts = Hosts(resolver)
    await hosts.look([("a", 1)])
    for answer, problem in (
        (OSError(-3, "Temporary failure in name resolution"), "Temporary failure in name resolution"),
        (OSError(), "OSError"),
        (UnicodeError("label too long"), "is not a host name"),
        ([], "resolves to no address"),
    ):
        resolver.answers["a"] = answer
        assert await hosts.look([("a", 1)]) == Discovered((("10.0.0.2", 1),), {"a": problem})
    await hosts.look([])
    assert (await hosts.look([("a", 1)])).addresses == ()


async def test_static_resolves_names_anew_each_time_beside_its_seeds() -> None:
    resolver = Resolver()
    strategy = Static([("10.0.0.2", 7946)], domain_name="seeds.example", resolve=resolver)
    for address in ("10.0.0.9", "10.0.0.8"):
        resolver.answers["seeds.example"] = [address]
        found = await strategy.discover(("10.0.0.1", 7000))
        assert found == Discovered((("10.0.0.2", 7946), (address, 7000)))


async def test_the_domain_name_of_the_seed_is_looked_up_by_the_system() -> None:
    """With strategy static, each address of the name is a seed on this node's own port."""
    cluster = config_from({"cluster": {"domain_name": "localhost", "port": 7001}}).cluster
    strategy = strategy_of(cluster, node="a@b")
    assert isinstance(strategy, Static)
    found = await strategy.discover(("127.0.0.1", 7001))
    assert ("127.0.0.1", 7001) in found.addresses
    assert found.problems == {}


@pytest.mark.parametrize("name", ["a..b", "x" * 64 + ".example", ".".join(["x" * 60] * 5), "a\0b", "ü" * 70])
async def test_what_is_no_name_is_a_problem_and_no_crash(name: str) -> None:
    found = await Static([(name, 7946)]).discover(ME)
    assert found.addresses == ()
    assert set(found.problems) == {name}
    tree = {"strategy": "dns", "dns": {"nameservers": "127.0.0.1:9", "timeout": "50ms"}}
    strategy = strategy_of(
        config_from({"cluster": {"domain_name": name, "discovery": tree}}).cluster, node="a@b"
    )
    assert isinstance(strategy, Dns)
    found = await strategy.discover(ME)
    assert found.addresses == ()
    assert set(found.problems) == {name}
