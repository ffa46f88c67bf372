"""The relay: whatever connects to its socket talks to the far end, and nothing of it is lost."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from gossamer.distribution.transport.relay import Relay
from gossamer.network import SystemNetwork


class Greeter(asyncio.Protocol):
    """Speaks first, as HTTP/2 does, and then says everything again."""

    def connection_made(self, transport):
        self.transport = transport
        transport.write(b"greeting ")

    def data_received(self, data):
        self.transport.write(data)


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_either_end_says_arrives_on_both_kinds_of_loop(factory):
    """uvloop begins to read a connection when asyncio does not yet."""
    sent = bytes(range(256)) * 8000

    async def main():
        network = SystemNetwork()
        listener = await network.listen(Greeter, ("127.0.0.1", 0))
        relay = Relay(network)
        target = await relay.open(listener.address)
        # Time for the greeting to come before anybody claims the connection.
        for _ in range(20):
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_unix_connection(target.removeprefix("unix:"))
        writer.write(sent)
        async with asyncio.timeout(20):
            assert await reader.readexactly(9) == b"greeting "
            assert await reader.readexactly(len(sent)) == sent
        writer.close()
        await writer.wait_closed()
        # It was for one caller, once.
        with pytest.raises(OSError, match="No such file"):
            await asyncio.open_unix_connection(target.removeprefix("unix:"))
        listener.close()
        return Path(target.removeprefix("unix:")).parent

    with asyncio.Runner(loop_factory=factory) as runner:
        directory = runner.run(main())
    assert not directory.exists()


async def test_who_never_claims_its_relayed_connection_loses_it(monkeypatch):
    monkeypatch.setattr("gossamer.distribution.transport.relay.CLAIM_TIMEOUT", 0.01)
    accepted = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    class Far(asyncio.Protocol):
        def connection_made(self, transport):
            accepted.set_result(transport)

        def connection_lost(self, exc):
            ended.set()

    network = SystemNetwork()
    listener = await network.listen(Far, ("127.0.0.1", 0))
    target = await Relay(network).open(listener.address)
    async with asyncio.timeout(10):
        await accepted
        await ended.wait()
    with pytest.raises(OSError, match="No such file"):
        await asyncio.open_unix_connection(target.removeprefix("unix:"))
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await Relay(network).open(listener.address)
