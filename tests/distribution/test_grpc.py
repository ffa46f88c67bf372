"""Two nodes over real gRPC on loopback."""

import asyncio
import json
import random
import signal
import sys

import pytest

from gossamer.distribution import GrpcTransport, NodeDown, NodeUp
from gossamer.distribution.links import link
from gossamer.faults import Fault, FaultTable, FaultyNetwork
from gossamer.network import SystemNetwork

from .conftest import Node, linked


@pytest.fixture(params=["direct", "relayed"])
async def pair(request):
    """Two nodes; relayed, every connection passes a network that is not gRPC's own."""
    network = SystemNetwork() if request.param == "relayed" else None
    a, b = [await Node(name, GrpcTransport(network=network)).start() for name in "ab"]
    yield await linked(a, b)
    await a.runtime.stop()
    await b.runtime.stop()


async def test_frames_cross_in_order_and_are_acked(pair):
    a, b = pair
    for n in range(2000):
        a.distribution.send("b", "data", b"%d" % n)
        a.distribution.send("b", "control", b"%d" % n)
    a.distribution.send("b", "replication", bytes(5_000_000))
    await a.until(
        lambda: (
            a.distribution.peers["b"].sends["data"].acked
            == a.distribution.peers["b"].sends["control"].acked
            == 2000
        )
    )
    await a.until(lambda: a.distribution.peers["b"].sends["replication"].acked == 1)
    for purpose in ("data", "control"):
        got = [frame.payload for frame in b.frames if frame.purpose == purpose]
        assert got == [b"%d" % n for n in range(2000)]


async def test_a_peer_that_goes_is_evidence_at_once_and_comes_back_as_a_new_session(pair):
    a, b = pair
    started = asyncio.get_running_loop().time()
    address = b.distribution.address
    await b.runtime.stop()
    await a.until(lambda: ("b", "refused") in a.evidence)
    assert asyncio.get_running_loop().time() - started < 2
    a.distribution.send("b", "data", b"for the old instance")
    again = await Node("b", creation=2, address=address).start()
    again.connect(a)
    await a.until(lambda: NodeUp("b", 2) in a.events)
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "restarted", renewing=True), NodeUp("b", 2)]
    a.distribution.send("b", "data", b"for the new one")
    await again.until(lambda: again.frames)
    assert [frame.payload for frame in again.frames] == [b"for the new one"]
    await again.runtime.stop()


async def test_a_cut_stalls_a_link_and_neither_side_is_told():
    """Frames wait, connections stay open; after the cut everything arrives once and in order."""
    where = {}
    tables = {name: FaultTable(where.get) for name in "ab"}
    a, b = [
        await Node(
            name,
            GrpcTransport(network=FaultyNetwork(SystemNetwork(), tables[name], rng=random.Random(name))),
        ).start()
        for name in "ab"
    ]
    where.update({a.distribution.address: "a", b.distribution.address: "b"})
    await linked(a, b)
    a.distribution.send("b", "data", b"before")
    await a.until(lambda: a.distribution.peers["b"].sends["data"].acked == 1)
    tables["a"].set([Fault(peer="b", cut=True)])
    tables["b"].set([Fault(peer="a", cut=True)])
    told = len(a.evidence), len(b.evidence)
    for n in range(100):
        a.distribution.send("b", "data", b"%d" % n)
        b.distribution.send("a", "data", b"%d" % n)
        await asyncio.sleep(0.005)
    assert [frame.payload for frame in b.frames] == [b"before"]
    assert a.frames == []
    for table in tables.values():
        assert table.counts.streams_stalled == 3
        table.clear()
    await a.until(lambda: a.distribution.peers["b"].sends["data"].acked == 101)
    await b.until(lambda: b.distribution.peers["a"].sends["data"].acked == 100)
    assert [frame.payload for frame in b.frames[1:]] == [b"%d" % n for n in range(100)]
    assert (len(a.evidence), len(b.evidence)) == told
    await a.runtime.stop()
    await b.runtime.stop()


PEER = """
import asyncio, json, random, sys
from gossamer.distribution import Distribution, GrpcTransport
from gossamer.supervisor import Runtime, Supervisor

async def main(port):
    runtime = Runtime("peer", 1)
    node = Distribution(runtime, GrpcTransport(), cookie="secret", env="Test", address=("127.0.0.1", 0))
    await runtime.start(Supervisor, [node.child_spec()])
    node.connect("a", 1, ("127.0.0.1", port))
    print(json.dumps(node.address[1]), flush=True)
    await asyncio.Event().wait()

import structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
asyncio.run(main(int(sys.argv[1])))
"""


@pytest.mark.real
async def test_a_sigkilled_peer_is_reset_and_refused_at_once(monkeypatch):
    # However short the link lived, the first attempt after it follows at once.
    monkeypatch.setattr(link, "STABLE_AFTER", 0.0)
    a = await Node("a").start()
    port = str(a.distribution.address[1])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PEER, port, stdout=asyncio.subprocess.PIPE
    )
    try:
        address = ("127.0.0.1", json.loads(await process.stdout.readline()))
        a.distribution.connect("peer", 1, address)
        await a.until(lambda: a.events == [NodeUp("peer", 1)])
        await a.until(lambda: a.evidence[-1:] == [("peer", "ok")])
        a.evidence.clear()
        killed = asyncio.get_running_loop().time()
        process.send_signal(signal.SIGKILL)
        await a.until(lambda: len(a.evidence) >= 2)
        took = asyncio.get_running_loop().time() - killed
        assert a.evidence[:2] == [("peer", "reset"), ("peer", "refused")]
        print(f"evidence after {took * 1000:.1f} ms")
        # Generous: the machine may be busy. Usually it is a few milliseconds.
        assert took < 2
    finally:
        if process.returncode is None and process.pid:
            process.kill()
        await process.wait()
        process._transport.close()
        await a.runtime.stop()
