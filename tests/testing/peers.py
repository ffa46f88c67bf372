"""Protocols that write down what happens to them."""

import asyncio


class Recorder(asyncio.Protocol):
    """Keeps every callback; ``keep_open`` leaves the connection half open at the peer's end of file."""

    def __init__(self, *, keep_open=False):
        self.keep_open = keep_open
        self.transport = None
        self.data = bytearray()
        self.reads = 0
        self.events = []
        self.lost = asyncio.get_running_loop().create_future()
        self.paused = False

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        self.reads += 1
        self.data += data

    def eof_received(self):
        self.events.append("eof")
        return self.keep_open

    def pause_writing(self):
        self.paused = True
        self.events.append("pause")

    def resume_writing(self):
        self.paused = False
        self.events.append("resume")

    def connection_lost(self, exc):
        self.events.append("lost")
        if not self.lost.done():
            self.lost.set_result(exc)


class Box(asyncio.DatagramProtocol):
    """Keeps every datagram with its sender."""

    def __init__(self):
        self.got = []
        self.errors = []

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.got.append((data, addr))

    def error_received(self, exc):
        self.errors.append(exc)


async def pair(sim, *, port=1883, server=Recorder, client=Recorder):
    """A connection from 10.0.0.1 to 10.0.0.2: the client's protocol and the server's."""
    made = []

    def factory():
        made.append(server())
        return made[-1]

    listener = await sim.host("10.0.0.2").listen(factory, ("10.0.0.2", port))
    _, near = await sim.host("10.0.0.1").connect(client, ("10.0.0.2", port))
    while not made:  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.1)
    listener.close()
    return near, made[0]
