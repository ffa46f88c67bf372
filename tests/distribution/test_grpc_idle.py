"""Connections to a gRPC port that carry no stream: how many stay, and for how long."""

import asyncio
import errno
import os
import resource
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

import gossamer.distribution.transport.grpc as grpc_transport
from gossamer.distribution.events import NodeDown
from gossamer.distribution.transport import grpc_idle
from gossamer.distribution.transport.grpc_idle import (
    MAX_CONNECTIONS,
    MAX_IDLE_EACH,
    IdleConnections,
    max_connections,
)

from .conftest import Node, linked

SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")


class Looks:
    """Looks at connections, one a second."""

    def __init__(self, limit):
        self.ended, self.now = {}, 0
        self.idle = IdleConnections(limit, self.ended.__setitem__)

    def look(self, *peers):
        self.ended.clear()
        for peer in peers:
            self.idle.meet(peer, self.now)
        self.now += 1
        return set(self.idle.looked())


def test_one_address_has_its_places_and_others_theirs():
    looks = Looks(limit=5)
    crowd = [("a", port) for port in range(MAX_IDLE_EACH + 10)]
    assert looks.look(*crowd, ("b", 1)) == {*crowd[:MAX_IDLE_EACH], ("b", 1)}
    assert looks.ended == dict.fromkeys(crowd[MAX_IDLE_EACH:], "128 callers of one address")
    # Those of connections that have ended, or carry a stream, are free in the look after that.
    looks.look(*crowd[10:MAX_IDLE_EACH])
    assert looks.look(*crowd[10:]) == {*crowd[10:]}
    assert looks.ended == {}


def test_the_address_with_most_makes_room():
    looks = Looks(limit=5)
    crowds = [(host, port) for host in "abcd" for port in range(MAX_IDLE_EACH)]
    assert ("e", 1) in looks.look(*crowds, ("e", 1))
    assert list(looks.ended) == [("a", 0)]


def test_a_connection_ends_its_time_after_it_was_met():
    looks = Looks(limit=2)
    assert [looks.look(("a", 1)) for _ in range(3)] == [{("a", 1)}, {("a", 1)}, set()]
    assert looks.ended == {("a", 1): ""}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Look often."""
    for name in ("_INTERVAL", "_PAUSE"):
        monkeypatch.setattr(grpc_idle, name, 0.01)


async def all_of(reader):
    """Read to the end, which may be a reset."""
    with suppress(ConnectionError):
        await reader.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_one_address_holds_no_more_connections_than_it_has_places(host):
    """Links are none of them, however long they say nothing."""
    a, b = await linked(*[await Node(name, address=(host, 0)).start() for name in "ab"])
    crowd = [await asyncio.open_connection(*a.distribution.address) for _ in range(MAX_IDLE_EACH)]
    with capture_logs() as logs:
        crowd += [await asyncio.open_connection(*a.distribution.address) for _ in range(20)]
        ends = [asyncio.ensure_future(all_of(reader)) for reader, _ in crowd]
        async with asyncio.timeout(4):
            while sum(end.done() for end in ends) < 20:
                await asyncio.wait([end for end in ends if not end.done()], return_when="FIRST_COMPLETED")
    turned_away = [line for line in logs if line["event"] == "callers_turned_away"]
    assert [line["address"] for line in turned_away] == [host]
    for _, writer in crowd:
        writer.close()
    await asyncio.gather(*ends)
    assert a.distribution.nodes() == ["b"]
    assert not any(isinstance(event, NodeDown) for event in a.events + b.events)
    await a.runtime.stop()
    await b.runtime.stop()


def field(name, value):
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def asking(stream):
    """HTTP/2 for: a call of a method that is not there."""
    fields = {b":method": b"POST", b":scheme": b"http", b":path": b"/a/b", b":authority": b"a"}
    fields |= {b"te": b"trailers", b"content-type": b"application/grpc"}
    block = b"".join(field(*one) for one in fields.items())
    return len(block).to_bytes(3, "big") + b"\x01\x04" + stream.to_bytes(4, "big") + block


async def test_calls_of_another_method_keep_no_connection(monkeypatch):
    """gRPC ends connections that are idle by itself, so one is never idle for long."""
    monkeypatch.setattr(grpc_transport, "_IDLE_MS", 300)
    a = await Node("a").start()
    reader, writer = await asyncio.open_connection(*a.distribution.address)
    writer.write(SETTINGS)
    end = asyncio.ensure_future(all_of(reader))
    async with asyncio.timeout(10):
        for stream in range(1, 10_000, 2):
            writer.write(asking(stream))
            await asyncio.wait([end], timeout=0.1)
            if end.done():
                break
    writer.close()
    await a.runtime.stop()


async def test_all_together_are_bounded_also_between_two_looks(monkeypatch):
    monkeypatch.setattr(grpc_idle, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(grpc_idle, "_INTERVAL", 60)
    a = await Node("a").start()
    crowd = [await asyncio.open_connection(*a.distribution.address) for _ in range(15)]
    ends = [asyncio.ensure_future(all_of(reader)) for reader, _ in crowd]
    async with asyncio.timeout(4):
        while sum(end.done() for end in ends) < 5:
            await asyncio.wait([end for end in ends if not end.done()], return_when="FIRST_COMPLETED")
    for _, writer in crowd:
        writer.close()
    await asyncio.gather(*ends)
    await a.runtime.stop()


def test_few_descriptors_leave_most_to_others(monkeypatch):
    for most, expected in ((400, 100), (1 << 20, MAX_CONNECTIONS), (resource.RLIM_INFINITY, MAX_CONNECTIONS)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        assert max_connections() == expected


async def test_a_look_needs_no_descriptor(monkeypatch):
    """Where all are taken they cannot be listed."""

    def listdir(_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(grpc_transport, "_IDLE_MS", 300)
    a = await Node("a").start()
    reader, writer = await asyncio.open_connection(*a.distribution.address)
    async with asyncio.timeout(4):
        await all_of(reader)
    writer.close()
    await a.runtime.stop()
