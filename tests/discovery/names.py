"""A small DNS server on loopback, for tests that ask a real one."""

from __future__ import annotations

import asyncio
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset


class NameServer(asyncio.DatagramProtocol):
    """``zone[name, type] = (ttl, [values])``; ``rcode`` other than NOERROR for all; ``deaf`` says nothing."""

    def __init__(self) -> None:
        self.zone: dict[tuple[str, str], tuple[int, list[str]]] = {}
        self.rcode = dns.rcode.NOERROR
        self.deaf = False
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.down()

    async def up(self) -> None:
        """Answer, at the same port as before."""
        loop = asyncio.get_running_loop()
        address = ("127.0.0.1", self.port)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=address)
        self.port = self._transport.get_extra_info("sockname")[1]

    def down(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True)
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        if self.deaf or self._transport is None:
            return
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA | dns.flags.RA
        response.set_rcode(self.rcode)
        if self.rcode == dns.rcode.NOERROR:
            if found := self.zone.get((name, kind)):
                ttl, values = found
                response.answer.append(
                    dns.rrset.from_text(question.name, ttl, dns.rdataclass.IN, question.rdtype, *values)
                )
            elif not any(known == name for known, _ in self.zone):
                response.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(response.to_wire(), addr)
