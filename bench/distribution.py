"""Links between nodes beside bare grpc.aio: round trips of small frames, and frames a second in batches.

Both ends run in one process on one event loop, for ours and for the bare calls alike, so the figures are the
cost of both ends together. Run: ``python bench/distribution.py [--seconds 2] [--loop uvloop|asyncio]``
"""

import argparse
import asyncio
import random
import resource
import tempfile
import time
from pathlib import Path

import grpc
import grpc.aio
import structlog
import uvloop

from gossamer.config import LinkTlsConfig
from gossamer.distribution import (
    Distribution,
    GrpcTransport,
    LinkCertificates,
    RemoteProcesses,
    StreamTransport,
    rpc,
)
from gossamer.launch.authority import Authority, local_names
from gossamer.network import SystemNetwork
from gossamer.supervisor import GenServer, Reply, Runtime, Supervisor, call, cast

A, B = "a@127.0.0.1", "b@127.0.0.1"
LOCAL = ("127.0.0.1", 0)
PAYLOAD = b"x" * 64


async def bare_unary(seconds):
    """Unary calls of 64 bytes, one after another."""

    async def echo(request, context):
        return request

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "bare", {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/bare/Echo")
        await call(PAYLOAD)
        rate = await repeat(lambda: call(PAYLOAD), seconds)
    await server.stop(None)
    return rate


async def bare_stream(seconds):
    """Echoes over one bidirectional stream, one after another."""

    async def echo(requests, context):
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "bare", {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/bare/Echo")()

        async def once():
            await call.write(PAYLOAD)
            await call.read()

        await once()
        rate = await repeat(once, seconds)
        call.cancel()
    await server.stop(None)
    return rate


async def repeat(operation, seconds):
    """How often a second."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        await operation()
        count += 1
    return count / (time.perf_counter() - start)


async def started(names, transport):
    """Nodes that listen, and know nothing of each other."""
    nodes = []
    for name in names:
        runtime = Runtime(name, 1)
        node = Distribution(runtime, transport(), cookie="bench", address=LOCAL, rng=random.Random(1))
        await runtime.start(Supervisor, [node.child_spec()])
        nodes.append(node)
    return nodes


async def link_all(nodes):
    """Link each with all others."""
    up = asyncio.Event()
    others = len(nodes) - 1
    for node in nodes:
        node.subscribe(lambda event: up.set() if all(len(n.nodes()) == others for n in nodes) else None)
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.connect(other.runtime.node, 1, other.address)
    await up.wait()


async def pair(transport):
    nodes = await started((A, B), transport)
    await link_all(nodes)
    return nodes


async def mesh(transport, size):
    """Meshes a second: so many nodes, each linked with all others, from the first dial to the last link.

    All of them share this process, and so its one core.
    """
    nodes = await started([f"n{number}@127.0.0.1" for number in range(size)], transport)
    start = time.perf_counter()
    await link_all(nodes)
    rate = 1 / (time.perf_counter() - start)
    for node in nodes:
        await node.runtime.stop()
    return rate


async def link_round_trip(transport, purpose, seconds):
    """A frame there and a frame back, acked, one after another."""
    a, b = await pair(transport)
    arrived = None

    def back(frame):
        b.send(A, purpose, frame.payload)
        b.done(frame)

    def here(frame):
        a.done(frame)
        arrived.set_result(None)

    b.on_frame(purpose, back)
    a.on_frame(purpose, here)

    async def once():
        nonlocal arrived
        arrived = asyncio.get_running_loop().create_future()
        a.send(B, purpose, PAYLOAD)
        await arrived

    await once()
    rate = await repeat(once, seconds)
    await a.runtime.stop()
    await b.runtime.stop()
    return rate


async def link_flood(transport, seconds, *, reliable, window=20_000, burst=200):
    """Frames of 64 bytes as fast as the receiver acks them (or takes them, unreliable)."""
    a, b = await pair(transport)
    taken = 0
    room = asyncio.Event()

    def take(frame):
        nonlocal taken
        taken += 1
        b.done(frame)
        if taken % 1000 == 0:
            room.set()

    b.on_frame("data", take)
    a.on_ack("data", lambda peer, number: room.set())
    sent, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(burst):
            a.send(B, "data", PAYLOAD, reliable)
        sent += burst
        while sent - taken > window:
            room.clear()
            await room.wait()
        await asyncio.sleep(0)
    while taken < sent:
        room.clear()
        try:
            await asyncio.wait_for(room.wait(), 0.2)
        except TimeoutError:
            break
    rate = taken / (time.perf_counter() - start)
    await a.runtime.stop()
    await b.runtime.stop()
    return rate


class Echo(GenServer):
    """Answers with what it was asked; counts casts."""

    async def init(self):
        self.casts = 0

    async def handle_call(self, request, caller):
        return Reply(self.casts if request is None else request)

    async def handle_cast(self, request):
        self.casts += 1


async def remote_pair(transport):
    a, b = await pair(transport)
    for node in (a, b):
        RemoteProcesses(node)
    return a, b, await b.runtime.start(Echo)


async def remote_call(transport, seconds):
    """Calls of a process on another node, one after another."""
    a, b, server = await remote_pair(transport)

    async def body():
        await call(server, PAYLOAD)
        return await repeat(lambda: call(server, PAYLOAD), seconds)

    rate = await a.runtime.run(body)
    await a.runtime.stop()
    await b.runtime.stop()
    return rate


async def remote_function(transport, function, seconds):
    """Calls of a function that another node offers, twenty at a time."""
    a, b, _ = await remote_pair(transport)
    await b.runtime.start(rpc.Rpc, {"f": function}, name=rpc.RPC)

    async def several():
        await asyncio.gather(*(rpc.call(B, "f", PAYLOAD) for _ in range(20)))

    async def body():
        await several()
        return 20 * await repeat(several, seconds)

    rate = await a.runtime.run(body)
    await a.runtime.stop()
    await b.runtime.stop()
    return rate


def plain(value):
    return value


async def waiting(value):
    return value


async def remote_cast(transport, seconds, burst=1000):
    """Casts to a process on another node, until all have arrived."""
    a, b, server = await remote_pair(transport)

    async def body():
        sent, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(burst):
                cast(server, PAYLOAD)
            sent += burst
            await call(server, None)
        assert await call(server, None) == sent
        return sent / (time.perf_counter() - start)

    rate = await a.runtime.run(body)
    await a.runtime.stop()
    await b.runtime.stop()
    return rate


def certificates(directory):
    """Certificates of one node on this machine, which both ends use."""
    Authority(directory).issue("node", local_names(LOCAL[0]))
    files = {"cert_file": directory / "node.pem", "key_file": directory / "node.key"}
    return LinkCertificates(LinkTlsConfig(**files, ca_file=directory / "ca.pem"))


async def main(seconds, directory):
    shown = certificates(directory)

    def stream():
        return StreamTransport(SystemNetwork())

    def stream_tls():
        return StreamTransport(SystemNetwork(), certificates=shown)

    def grpc_tls():
        return GrpcTransport(certificates=shown)

    rows = [
        ("30 nodes link, framed TCP", "meshes/s", await mesh(stream, 30)),
        ("30 nodes link, TCP, TLS", "meshes/s", await mesh(stream_tls, 30)),
        ("30 nodes link, gRPC", "meshes/s", await mesh(GrpcTransport, 30)),
        ("10 nodes link, gRPC, TLS", "meshes/s", await mesh(grpc_tls, 10)),
        ("bare grpc.aio unary", "round trips/s", await bare_unary(seconds)),
        ("bare grpc.aio bidi stream", "round trips/s", await bare_stream(seconds)),
        ("link, gRPC, control", "round trips/s", await link_round_trip(GrpcTransport, "control", seconds)),
        (
            "link, gRPC, data (prompt acks)",
            "round trips/s",
            await link_round_trip(GrpcTransport, "data", seconds),
        ),
        ("link, framed TCP, control", "round trips/s", await link_round_trip(stream, "control", seconds)),
        (
            "link, gRPC, TLS, control",
            "round trips/s",
            await link_round_trip(grpc_tls, "control", seconds),
        ),
        (
            "link, TCP, TLS, control",
            "round trips/s",
            await link_round_trip(stream_tls, "control", seconds),
        ),
        ("remote call, gRPC", "round trips/s", await remote_call(GrpcTransport, seconds)),
        ("remote call, framed TCP", "round trips/s", await remote_call(stream, seconds)),
        ("rpc, 20 at a time, plain", "calls/s", await remote_function(stream, plain, seconds)),
        ("rpc, 20 at a time, coroutine", "calls/s", await remote_function(stream, waiting, seconds)),
        ("remote cast, gRPC", "casts/s", await remote_cast(GrpcTransport, seconds)),
        ("remote cast, framed TCP", "casts/s", await remote_cast(stream, seconds)),
        ("link, gRPC, reliable", "frames/s", await link_flood(GrpcTransport, seconds, reliable=True)),
        ("link, gRPC, unreliable", "frames/s", await link_flood(GrpcTransport, seconds, reliable=False)),
        ("link, framed TCP, reliable", "frames/s", await link_flood(stream, seconds, reliable=True)),
        ("link, gRPC, TLS, reliable", "frames/s", await link_flood(grpc_tls, seconds, reliable=True)),
        ("link, TCP, TLS, reliable", "frames/s", await link_flood(stream_tls, seconds, reliable=True)),
    ]
    for what, unit, rate in rows:
        print(f"{what:34} {rate:12,.{0 if rate > 100 else 2}f} {unit:14} {1e6 / rate:8.1f} µs")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    options = parser.parse_args()
    # Of a mesh both ends of every connection are here.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    factory = uvloop.new_event_loop if options.loop == "uvloop" else None
    with tempfile.TemporaryDirectory() as made, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(options.seconds, Path(made)))
