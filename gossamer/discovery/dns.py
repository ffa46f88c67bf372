"""The ``dns`` strategy: the records of a name are the members.

Rules: 1. A name is asked for again when its TTL has passed, no sooner than ``min_ttl`` and no later than
``max_ttl``; a failed look-up is repeated at the next try.  2. A look-up that fails keeps the addresses of the
last that worked and says what is wrong: it never looks like a name without records.  3. A and AAAA give
addresses on one port; SRV gives hosts, looked up in turn, each with its port.

Rejected: the system's resolver, which has neither TTLs nor SRV, and blocks a thread of the loop while a
server does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gossamer.config.discovery import DnsConfig, RecordType
from gossamer.discovery.strategy import Discovered, DiscoveryFailedError, Strategy, is_literal, missing_extra
from gossamer.network import Address

_MAX_TARGETS = 256
"""Hosts of one SRV answer that are looked at."""


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """Records of one type: IP literals with port 0, or hosts with ports for SRV. ``ttl`` in seconds."""

    records: tuple[Address, ...]
    ttl: float


Lookup = Callable[[str, RecordType], Awaitable[DnsAnswer]]
"""Ask for the records of a name; raises DiscoveryFailedError where there is no answer."""


class Dns(Strategy):
    """The records of ``config.name``, or of ``name`` where that is blank."""

    name = "dns"

    def __init__(self, config: DnsConfig, *, name: str = "", lookup: Lookup | None = None) -> None:
        self._config = config
        self._host = config.name or name
        self._lookup = lookup or dnspython_lookup(nameservers=config.nameservers, timeout=config.timeout)
        self._known = Discovered()
        self._fresh_until = 0.0

    async def discover(self, local: Address) -> Discovered:
        config = self._config
        now = asyncio.get_running_loop().time()
        if now < self._fresh_until:
            return self._known
        try:
            answer = await self._lookup(self._host, config.record_type)
        except DiscoveryFailedError as error:
            return Discovered(self._known.addresses, {error.where: error.problem})
        ttl = answer.ttl
        problems: dict[str, str] = {}
        if config.record_type == "srv":
            addresses, problems, ttl = await self._targets(answer)
        else:
            addresses = tuple((literal, config.port or local[1]) for literal, _ in answer.records)
        if problems:
            # What could be found of those with a problem before is better than nothing.
            return Discovered(tuple(dict.fromkeys((*addresses, *self._known.addresses))), problems)
        self._known = Discovered(tuple(dict.fromkeys(addresses)))
        self._fresh_until = now + min(max(ttl, config.min_ttl), config.max_ttl)
        return self._known

    async def _targets(self, answer: DnsAnswer) -> tuple[tuple[Address, ...], dict[str, str], float]:
        """The addresses of the hosts of an SRV answer, and the shortest TTL of all."""
        targets = answer.records[:_MAX_TARGETS]
        results = await asyncio.gather(*(self._target(host) for host, _ in targets))
        addresses: list[Address] = []
        problems: dict[str, str] = {}
        ttl = answer.ttl
        for (host, port), result in zip(targets, results, strict=True):
            if isinstance(result, DnsAnswer):
                addresses += [(literal, port) for literal, _ in result.records]
                ttl = min(ttl, result.ttl)
            else:
                problems[host] = result.problem
        return tuple(addresses), problems, ttl

    async def _target(self, host: str) -> DnsAnswer | DiscoveryFailedError:
        if is_literal(host):
            return DnsAnswer(((host, 0),), self._config.max_ttl)
        try:
            return await self._lookup(host, "a")
        except DiscoveryFailedError as failed:
            try:
                return await self._lookup(host, "aaaa")
            except DiscoveryFailedError:
                return failed


def dnspython_lookup(*, nameservers: Sequence[Address] = (), timeout: float = 3.0) -> Lookup:
    """Look-ups by dnspython. ``nameservers`` empty: those of this system.

    Raises:
        ConfigError: dnspython is not installed.
    """
    try:
        import dns.asyncresolver
        import dns.exception
        import dns.nameserver
        import dns.resolver
    except ModuleNotFoundError as error:
        raise missing_extra("strategy", "dns", "dnspython", "dns") from error

    @cache
    def resolver() -> dns.asyncresolver.Resolver:
        made = dns.asyncresolver.Resolver(configure=not nameservers)
        if nameservers:
            made.nameservers = [dns.nameserver.Do53Nameserver(host, port) for host, port in nameservers]
        made.lifetime = timeout
        # Two servers must both have a chance within the time there is.
        made.timeout = timeout / max(2, len(made.nameservers))
        return made

    async def lookup(host: str, record_type: RecordType) -> DnsAnswer:
        kind = record_type.upper()
        try:
            answer = await resolver().resolve(host, kind, search=False)
        except dns.resolver.NXDOMAIN:
            problem = "no such name"
        except dns.resolver.NoAnswer:
            problem = f"has no {kind} records"
        except dns.resolver.NoResolverConfiguration:
            problem = "this system names no DNS server; set cluster.discovery.dns.nameservers"
        except dns.resolver.NoNameservers:
            problem = "every DNS server failed or refused; is one of them reachable, is the zone well?"
        except dns.exception.Timeout:
            problem = f"no DNS server answered within {timeout:g} s"
        except (dns.exception.DNSException, OSError) as error:
            problem = f"look-up failed: {error or type(error).__name__}"
        else:
            return DnsAnswer(
                tuple(_record(record, record_type) for record in answer),
                float(answer.chaining_result.minimum_ttl),
            )
        raise DiscoveryFailedError(host, problem)

    return lookup


def _record(record: Any, record_type: RecordType) -> Address:
    if record_type == "srv":
        return str(record.target).rstrip("."), int(record.port)
    return str(record.address), 0
