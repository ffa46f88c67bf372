"""The dns strategy: rules on virtual time, and look-ups at a real server."""

from __future__ import annotations

import asyncio

import dns.rcode
import pytest

from discovery.names import NameServer
from gossamer.config import config_from
from gossamer.config.discovery import DnsConfig
from gossamer.discovery import Discovered, DiscoveryFailedError, Dns, DnsAnswer, strategy_of

ME = ("10.0.0.1", 7946)
HOST = "seeds.example"


class Zone:
    """What look-ups find: addresses with a TTL, or what is wrong."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], DnsAnswer | str] = {}
        self.asked = 0

    async def __call__(self, host: str, record_type: str) -> DnsAnswer:
        self.asked += 1
        answer = self.answers.get((host, record_type), "no such name")
        if isinstance(answer, str):
            raise DiscoveryFailedError(host, answer)
        return answer

    def hold(self, *addresses: str, ttl: float = 10) -> None:
        self.answers[HOST, "a"] = DnsAnswer(tuple((address, 0) for address in addresses), ttl)


async def test_a_name_is_asked_for_again_when_its_ttl_has_passed(virtual_time) -> None:
    zone = Zone()
    zone.hold("10.0.0.2", ttl=10)
    strategy = Dns(DnsConfig(name=HOST), lookup=zone)
    assert (await strategy.discover(ME)).addresses == (("10.0.0.2", 7946),)
    zone.hold("10.0.0.3", ttl=10)
    await asyncio.sleep(9.9)
    assert (await strategy.discover(ME)).addresses == (("10.0.0.2", 7946),)
    await asyncio.sleep(0.2)
    assert (await strategy.discover(ME)).addresses == (("10.0.0.3", 7946),)
    assert zone.asked == 2


@pytest.mark.parametrize(("ttl", "wait"), [(0, 2), (86_400, 30)])
async def test_a_ttl_is_bounded_below_and_above(virtual_time, ttl: float, wait: float) -> None:
    zone = Zone()
    zone.hold("10.0.0.2", ttl=ttl)
    strategy = Dns(DnsConfig(name=HOST, min_ttl=2, max_ttl=30), lookup=zone)
    await strategy.discover(ME)
    await asyncio.sleep(wait - 0.1)
    await strategy.discover(ME)
    assert zone.asked == 1
    await asyncio.sleep(0.2)
    await strategy.discover(ME)
    assert zone.asked == 2


async def test_a_look_up_that_fails_is_not_an_empty_list(virtual_time) -> None:
    zone = Zone()
    strategy = Dns(DnsConfig(name=HOST), lookup=zone)
    assert await strategy.discover(ME) == Discovered((), {HOST: "no such name"})
    zone.hold("10.0.0.2", ttl=1)
    assert await strategy.discover(ME) == Discovered((("10.0.0.2", 7946),))
    zone.answers[HOST, "a"] = "no DNS server answered"
    await asyncio.sleep(2)
    assert await strategy.discover(ME) == Discovered((("10.0.0.2", 7946),), {HOST: "no DNS server answered"})
    zone.hold("10.0.0.4")
    assert await strategy.discover(ME) == Discovered((("10.0.0.4", 7946),))


async def test_srv_gives_hosts_with_their_ports_and_names_those_without_address(virtual_time) -> None:
    zone = Zone()
    targets = (("a.example", 7001), ("b.example", 7002), ("gone.example", 7003))
    zone.answers[HOST, "srv"] = DnsAnswer(targets, 60)
    zone.answers["a.example", "a"] = DnsAnswer((("10.0.0.2", 0),), 5)
    zone.answers["b.example", "aaaa"] = DnsAnswer((("fd00::2", 0),), 60)
    strategy = Dns(DnsConfig(name=HOST, record_type="srv"), lookup=zone)
    found = await strategy.discover(ME)
    assert found.addresses == (("10.0.0.2", 7001), ("fd00::2", 7002))
    assert found.problems == {"gone.example": "no such name"}
    zone.answers["gone.example", "a"] = DnsAnswer((("10.0.0.4", 0),), 60)
    assert (await strategy.discover(ME)).problems == {}
    before = zone.asked
    await asyncio.sleep(5.1)
    await strategy.discover(ME)
    assert zone.asked > before, "the shortest TTL of all answers counts"


def asking(server: NameServer, record_type: str, **keys: object) -> Dns:
    """The strategy as a configuration makes it."""
    section = {"name": HOST, "record_type": record_type, "nameservers": f"127.0.0.1:{server.port}", **keys}
    tree = {"cluster": {"discovery": {"strategy": "dns", "dns": section}}}
    strategy = strategy_of(config_from(tree).cluster, node="a@b")
    assert isinstance(strategy, Dns)
    return strategy


async def test_a_real_server_is_asked_for_a_aaaa_and_srv() -> None:
    async with NameServer() as server:
        server.zone[HOST, "A"] = (60, ["10.0.0.2", "10.0.0.3"])
        server.zone[HOST, "AAAA"] = (60, ["fd00::2"])
        server.zone[HOST, "SRV"] = (60, ["0 0 7001 a.example.", "0 0 7002 b.example."])
        server.zone["a.example", "A"] = (60, ["10.0.0.4"])
        server.zone["b.example", "AAAA"] = (60, ["fd00::4"])
        found = await asking(server, "a", port=7000).discover(ME)
        assert sorted(found.addresses) == [("10.0.0.2", 7000), ("10.0.0.3", 7000)]
        assert await asking(server, "aaaa").discover(ME) == Discovered((("fd00::2", 7946),))
        found = await asking(server, "srv").discover(ME)
        assert sorted(found.addresses) == [("10.0.0.4", 7001), ("fd00::4", 7002)]
        assert found.problems == {}


async def test_domain_name_alone_is_the_name_of_strategy_dns() -> None:
    async with NameServer() as server:
        server.zone[HOST, "A"] = (60, ["10.0.0.2"])
        nameservers = {"nameservers": [f"127.0.0.1:{server.port}"]}
        tree = {"cluster": {"domain_name": HOST, "discovery": {"strategy": "dns", "dns": nameservers}}}
        strategy = strategy_of(config_from(tree).cluster, node="a@b")
        assert await strategy.discover(ME) == Discovered((("10.0.0.2", 7946),))


async def test_every_refusal_of_a_real_server_is_a_problem_of_its_own() -> None:
    async with NameServer() as server:
        strategy = asking(server, "a", timeout="200ms")
        assert await strategy.discover(ME) == Discovered((), {HOST: "no such name"})
        server.zone[HOST, "AAAA"] = (60, ["fd00::2"])
        assert await strategy.discover(ME) == Discovered((), {HOST: "has no A records"})
        server.rcode = dns.rcode.SERVFAIL
        assert "failed or refused" in (await strategy.discover(ME)).problems[HOST]
        server.deaf = True
        assert "answered within 0.2 s" in (await strategy.discover(ME)).problems[HOST]


async def test_a_server_that_is_down_at_start_and_in_between_is_asked_for_ever() -> None:
    async with NameServer() as server:
        server.down()
        strategy = asking(server, "a", timeout="300ms", min_ttl="1ms", max_ttl="1ms")
        assert (await strategy.discover(ME)).problems
        await server.up()
        server.zone[HOST, "A"] = (0, ["10.0.0.2"])
        assert await strategy.discover(ME) == Discovered((("10.0.0.2", 7946),))
        await asyncio.sleep(0.01)
        server.down()
        found = await strategy.discover(ME)
        assert found.addresses == (("10.0.0.2", 7946),)
        assert found.problems
        await server.up()
        server.zone[HOST, "A"] = (0, ["10.0.0.3"])
        assert await strategy.discover(ME) == Discovered((("10.0.0.3", 7946),))
