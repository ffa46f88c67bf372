"""A peer in its own OS process, killed with SIGKILL."""

import asyncio
import json
import signal
import sys

import pytest

from gossamer.distribution import NodeUp
from gossamer.distribution.links import link

from .test_grpc import Node

PEER = """
import asyncio, json, random, sys
from gossamer.distribution import Distribution, GrpcTransport, RemoteProcesses
from gossamer.supervisor import Runtime, Supervisor

async def main(port):
    runtime = Runtime("peer", 1)
    node = Distribution(runtime, GrpcTransport(), cookie="secret", env="Test", address=("127.0.0.1", 0))
    RemoteProcesses(node)
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
    monkeypatch.setattr(link, "SETTLED", 0.0)
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
