import asyncio
import contextvars
import errno

import pytest

from gossamer.errors import UsageError
from gossamer.testing import LOSSY, SLOW, LinkQuality, seeds

from .peers import Box, Recorder, pair

A, B = "10.0.0.1", "10.0.0.2"


async def test_bytes_arrive_in_order_in_both_directions(sim):
    near, far = await pair(sim)
    near.transport.write(b"hello ")
    near.transport.writelines([b"wor", b"ld"])
    far.transport.write(b"good day")
    await asyncio.sleep(1)
    assert (far.data, near.data) == (b"hello world", b"good day")
    assert near.transport.get_extra_info("peername") == (B, 1883)
    assert far.transport.get_extra_info("peername") == near.transport.get_extra_info("sockname")


@seeds(5)
async def test_a_long_stream_survives_any_weather(sim):
    sim.weather(LOSSY)
    near, far = await pair(sim)
    sent = bytes(sim.rng("payload").randbytes(600_000))
    near.transport.write(sent)
    await asyncio.sleep(30)
    sim.cut(A, B, one_way=bool(sim.seed % 2))
    await asyncio.sleep(20)
    sim.heal()
    near.transport.write_eof()
    await asyncio.sleep(300)
    assert far.data == sent
    assert far.reads > 10
    assert far.events == ["made", "eof", "lost"]


async def test_reads_end_where_luck_wants(sim):
    sim.chop = 1.0
    near, far = await pair(sim)
    near.transport.write(bytes(10_000))
    await asyncio.sleep(5)
    assert far.data == bytes(10_000)
    assert far.reads > 1


async def test_a_slow_reader_pauses_its_writer_and_memory_stays_bounded(sim):
    near, far = await pair(sim)
    far.transport.pause_reading()
    written = 0
    while not near.paused:
        near.transport.write(bytes(10_000))
        written += 10_000
        await asyncio.sleep(0.01)
        assert written < 1_000_000
    limits = sim.limits
    assert written > limits.window + limits.send_buffer
    assert near.transport.get_write_buffer_size() > 64 << 10
    await asyncio.sleep(60)
    assert near.paused
    assert not far.data
    far.transport.resume_reading()
    await asyncio.sleep(60)
    assert not near.paused
    assert len(far.data) == written
    assert near.events == ["made", "pause", "resume"]


async def test_closing_flushes_and_ends_the_peer(sim):
    near, far = await pair(sim)
    near.transport.write(bytes(500_000))
    near.transport.close()
    near.transport.write(b"too late")
    assert near.transport.is_closing()
    assert await near.lost is None
    assert await far.lost is None
    assert len(far.data) == 500_000
    assert far.events == ["made", "eof", "lost"]
    await asyncio.sleep(10)
    assert not sim.host(A).connections
    assert not sim.host(B).connections


async def test_half_open_connections_carry_the_other_direction(sim):
    near, far = await pair(sim, server=lambda: Recorder(keep_open=True))
    near.transport.write_eof()
    await asyncio.sleep(1)
    assert far.events == ["made", "eof"]
    far.transport.write(b"answer")
    await asyncio.sleep(1)
    assert near.data == b"answer"
    with pytest.raises(RuntimeError):
        near.transport.write(b"more")
    far.transport.close()
    assert await near.lost is None


async def test_an_abort_resets_the_peer(sim):
    near, far = await pair(sim)
    near.transport.abort()
    assert await near.lost is None
    assert isinstance(await far.lost, ConnectionResetError)


async def test_writing_to_a_closed_peer_is_answered_with_a_reset(sim):
    near, far = await pair(sim, client=lambda: Recorder(keep_open=True))
    far.transport.close()
    await asyncio.sleep(1)
    near.transport.write(b"anybody?")
    assert isinstance(await near.lost, ConnectionResetError)


async def test_nobody_listening_refuses(sim):
    sim.host(B)
    with pytest.raises(ConnectionRefusedError, match=r"10\.0\.0\.2:9"):
        await sim.host(A).connect(Recorder, (B, 9))


async def test_an_unknown_host_is_unreachable(sim):
    with pytest.raises(OSError) as caught:
        await sim.host(A).connect(Recorder, ("10.9.9.9", 9))
    assert caught.value.errno == errno.EHOSTUNREACH


async def test_connecting_across_a_cut_times_out(sim):
    await sim.host(B).listen(Recorder, (B, 9))
    sim.cut(A, B)
    begun = sim.loop.time()
    with pytest.raises(TimeoutError):
        await sim.host(A).connect(Recorder, (B, 9))
    assert sim.loop.time() - begun == pytest.approx(sim.limits.connect_timeout)


async def test_connecting_goes_through_once_the_cut_is_healed(sim):
    await sim.host(B).listen(Recorder, (B, 9))
    sim.cut(A, B)
    sim.loop.call_later(10, sim.heal)
    _, near = await sim.host(A).connect(Recorder, (B, 9))
    assert 10 < sim.loop.time() < 20
    assert near.events == ["made"]


async def test_a_cancelled_connect_leaves_nothing_behind(sim):
    sim.host(B)
    sim.cut(A, B)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await sim.host(A).connect(Recorder, (B, 9))
    assert not sim.host(A).connections


async def test_a_cut_is_silence_until_the_sender_gives_up(sim):
    near, far = await pair(sim)
    sim.cut(A, B)
    near.transport.write(b"x")
    begun = sim.loop.time()
    assert isinstance(await near.lost, TimeoutError)
    assert sim.loop.time() - begun > sim.limits.give_up_after
    assert not far.lost.done()  # half open: it had nothing to say and heard nothing
    sim.heal()
    far.transport.write(b"y")
    assert isinstance(await far.lost, ConnectionResetError)


async def test_one_way_cuts_let_the_other_way_pass(sim):
    near, far = await pair(sim)
    sim.cut(B, A, one_way=True)
    near.transport.write(b"there")
    far.transport.write(b"not back")
    await asyncio.sleep(5)
    assert (far.data, near.data) == (b"there", b"")
    sim.heal()
    await asyncio.sleep(30)
    assert (far.data, near.data) == (b"there", b"not back")


@pytest.mark.parametrize(("how", "seen"), [("kill", type(None)), ("reset", ConnectionResetError)])
async def test_peers_see_a_crash_at_once(sim, how, seen):
    near, far = await pair(sim)
    sim.crash(B, how)
    assert type(await near.lost) is seen
    assert sim.loop.time() < 1
    assert far.events == ["made"]  # nobody tells a killed process
    with pytest.raises(ConnectionRefusedError):
        await sim.host(A).connect(Recorder, (B, 1883))


async def test_a_silent_crash_is_noticed_only_by_writing(sim):
    near, far = await pair(sim)
    sim.crash(B, "silence")
    await asyncio.sleep(3600)
    assert not near.lost.done()
    sim.restart(B)
    near.transport.write(b"still there?")
    assert isinstance(await near.lost, ConnectionResetError)
    assert far.events == ["made"]


async def test_a_restarted_host_listens_anew_and_its_old_boot_reaches_nobody(sim):
    old = sim.host(B)
    await old.listen(Recorder, (B, 9))
    old.crash()
    new = sim.restart(B)
    assert new is sim.host(B)
    with pytest.raises(OSError) as caught:
        await old.listen(Recorder, (B, 9))
    assert caught.value.errno == errno.ENETDOWN
    await new.listen(Recorder, (B, 9))
    await sim.host(A).connect(Recorder, (B, 9))


async def test_ports_clash_as_on_real_hosts(sim):
    host = sim.host(A)
    first = await host.listen(Recorder, ("0.0.0.0", 9))
    with pytest.raises(OSError) as caught:
        await host.listen(Recorder, (A, 9))
    assert caught.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError) as caught:
        await host.listen(Recorder, (B, 9))
    assert caught.value.errno == errno.EADDRNOTAVAIL
    first.close()
    await host.listen(Recorder, (A, 9), reuse_port=True)
    await host.listen(Recorder, (A, 9), reuse_port=True)
    assert (await host.listen(Recorder, (A, 0))).address[1] > 1024
    await host.open_datagram(Box, (A, 9))
    with pytest.raises(OSError):
        await host.open_datagram(Box, (A, 9))


async def test_loopback_is_each_hosts_own(sim):
    await sim.host(A).listen(Recorder, ("127.0.0.1", 9))
    await sim.host(A).connect(Recorder, ("127.0.0.1", 9))
    for target in ("127.0.0.1", A):
        with pytest.raises(ConnectionRefusedError):
            await sim.host(B).connect(Recorder, (target, 9))


async def test_an_exception_in_a_protocol_ends_its_connection(sim):
    class Faulty(Recorder):
        def data_received(self, data):
            raise ValueError("faulty")

    reported = []
    sim.loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    near, far = await pair(sim, server=Faulty)
    near.transport.write(b"x")
    assert isinstance(await near.lost, ConnectionResetError)
    assert isinstance(await far.lost, ValueError)
    assert [str(error) for error in reported] == ["faulty"]


async def test_protocols_run_in_the_context_that_made_them(sim):
    node = contextvars.ContextVar("node", default="nobody")
    seen = []

    class Asks(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            seen.append(("made", node.get()))

        def data_received(self, data):
            seen.append((bytes(data), node.get()))
            self.transport.write(b"echo" if data == b"call" else b"")

    async def serve():
        node.set("server")
        await sim.host(B).listen(Asks, (B, 9))

    async def call():
        node.set("client")
        transport, _ = await sim.host(A).connect(Asks, (B, 9))
        transport.write(b"call")

    await asyncio.create_task(serve())
    await asyncio.create_task(call())
    await asyncio.sleep(1)
    assert seen == [("made", "client"), ("made", "server"), (b"call", "server"), (b"echo", "client")]


async def test_asyncios_stream_reader_works_on_it(sim):
    async def greet(reader, writer):
        writer.write(b"hello " + await reader.readline())
        await writer.drain()
        writer.close()

    def factory():
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), greet)

    await sim.host(B).listen(factory, (B, 9))
    reader = asyncio.StreamReader()
    transport, protocol = await sim.host(A).connect(lambda: asyncio.StreamReaderProtocol(reader), (B, 9))
    writer = asyncio.StreamWriter(transport, protocol, reader, sim.loop)
    writer.write(b"you\n")
    assert await reader.read() == b"hello you\n"
    writer.close()
    await writer.wait_closed()


async def test_a_slow_link_is_slow(sim):
    sim.shape(A, B, SLOW)
    begun = sim.loop.time()
    await pair(sim)
    assert sim.loop.time() - begun > 0.6


async def test_bandwidth_is_shared_by_what_a_link_carries(sim):
    sim.weather(LinkQuality(latency=0.001, jitter=0, bandwidth=100_000))
    near, far = await pair(sim)
    begun = sim.loop.time()
    near.transport.write(bytes(1_000_000))
    near.transport.close()
    await far.lost
    assert 10 < sim.loop.time() - begun < 12


async def test_tls_is_refused_clearly(sim):
    with pytest.raises(UsageError, match="no TLS"):
        await sim.host(A).listen(Recorder, (A, 9), tls=object())
