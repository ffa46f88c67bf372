"""The gossip server on real loopback sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from time import time
from typing import Any

import pytest

from gossamer.clock import SystemClock
from gossamer.config import GossipConfig
from gossamer.gossip import (
    ForceLeave,
    GossipServer,
    Join,
    JoinResult,
    Keyring,
    KeyringError,
    Keys,
    Leave,
    LoopLag,
    MemberDown,
    MemberLeft,
    MemberMetadata,
    MembershipView,
    MemberUp,
    MemberUpdated,
    MetadataTooLargeError,
    Status,
    UpdateMetadata,
    cluster_key,
)
from gossamer.gossip.frames import MAX_QUESTION, MAX_STRANGER, frame
from gossamer.gossip.keyring import at_address
from gossamer.gossip.steps import STREAM_TIMEOUT
from gossamer.gossip.swim.table import LEFT
from gossamer.gossip.wire import Alive, Record, Sync, compound, encode
from gossamer.network import Listener, SystemNetwork
from gossamer.supervisor import Pid, Runtime, StartFailed, receive

FAST = GossipConfig(
    probe_interval=0.1, probe_timeout=0.05, suspicion_floor=0.5, reconnect_interval=0.2, leave_delay=0.2
)


class Peer:
    """One node's runtime with nothing but gossip in it."""

    def __init__(self, name: str, *, env: str = "test", cookie: str = "cookie") -> None:
        self.name = name
        self.runtime = Runtime(node=name)
        self.view = MembershipView()
        self.keyring = Keyring([cluster_key(cookie)], env=env)
        self.events: list[Any] = []
        self.pid: Pid | None = None
        self.watcher: Pid | None = None

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.watcher = self.runtime.spawn(self._watch, name="watcher")
        await self.restart(port, host)

    async def restart(
        self, port: int = 0, host: str = "127.0.0.1", network: SystemNetwork | None = None
    ) -> None:
        self.pid = await self.runtime.start(
            GossipServer,
            name="gossip",
            metadata=MemberMetadata(self.name, creation=1, start_time=1.0, pid=1),
            bind=(host, port),
            keyring=self.keyring,
            network=network or SystemNetwork(),
            clock=SystemClock(),
            view=self.view,
            settings=FAST,
            subscribers=("watcher",),
        )

    async def _watch(self) -> None:
        while True:
            self.events.append(await receive())

    @property
    def address(self) -> tuple[str, int]:
        return self.view.local.endpoint

    def online(self) -> set[str]:
        return {m.name for m in self.view.members() if m.status is Status.ONLINE}

    def downs(self) -> list[str]:
        return [e.member.name for e in self.events if isinstance(e, MemberDown)]

    async def call(self, request: object) -> Any:
        return await self.runtime.call("gossip", request)


async def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - real sockets, no event to wait for
            await asyncio.sleep(0.01)


@pytest.fixture
async def peers() -> AsyncIterator[Callable[..., Any]]:
    made: list[Peer] = []

    async def make(name: str, **options: Any) -> Peer:
        peer = Peer(name, **options)
        made.append(peer)
        await peer.start()
        return peer

    yield make
    for peer in made:
        await peer.runtime.stop()


class Hasty(SystemNetwork):
    """A packet is there before streams are listened for."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    async def listen(self, make: Any, address: Any, **options: Any) -> Listener:
        packet = self._peer.keyring.seal(
            "0123456789abcdef", 1, SystemClock().wall(), b"", to=at_address(address)
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(packet, address)
        await eventually(lambda: self._peer.view.counters["packets_in"] > 0)
        return await super().listen(make, address, **options)


async def test_a_packet_that_comes_while_a_server_starts_does_it_no_harm(peers: Callable[..., Any]) -> None:
    a, b = await peers("a"), Peer("b")
    try:
        await b.restart(network=Hasty(b))
        assert await b.call(Join((a.address,))) == JoinResult(joined=(a.address,))
    finally:
        await b.runtime.stop()


async def test_three_servers_join_and_know_each_other(peers: Callable[..., Any]) -> None:
    a, b, c = [await peers(name) for name in ("a", "b", "c")]
    assert await b.call(Join((a.address,))) == JoinResult(joined=(a.address,))
    await c.call(Join((a.address, c.address)))
    await eventually(lambda: all(p.online() == {"a", "b", "c"} for p in (a, b, c)))
    assert {e.member.name for e in a.events if isinstance(e, MemberUp)} == {"b", "c"}
    member = a.view.get("b")
    assert member is not None
    assert member.metadata.ports == {"gossip": b.address[1]}
    assert a.view.members()[0].name == "a"


async def test_another_env_and_another_cookie_are_dropped_and_counted(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    foreign = await peers("x", env="other")
    stranger = await peers("y", cookie="wrong")
    assert await foreign.call(Join((a.address,))) == JoinResult(failed={a.address: "closed"})
    assert await stranger.call(Join((a.address,))) == JoinResult(failed={a.address: "closed"})
    assert a.view.counters["rejected.foreign-env"] == 1
    assert a.view.counters["rejected.unknown-key"] == 1
    assert a.online() == {"a"}


async def test_a_join_names_seeds_that_refuse(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    result = await a.call(Join((address,)))
    assert result.failed == {address: "refused"}


async def test_leave_and_force_leave(peers: Callable[..., Any]) -> None:
    a, b, c = [await peers(name) for name in ("a", "b", "c")]
    for peer in (b, c):
        await peer.call(Join((a.address,)))
    await eventually(lambda: all(p.online() == {"a", "b", "c"} for p in (a, b, c)))
    assert await b.call(Leave()) is None
    await eventually(lambda: a.online() == {"a", "c"} and c.online() == {"a", "c"})
    assert any(isinstance(e, MemberLeft) and e.member.name == "b" for e in a.events)
    assert b.online() == {"b"}
    assert b.view.standalone
    assert await a.call(ForceLeave("c")) is True
    assert await a.call(ForceLeave("nobody")) is False
    await eventually(lambda: a.online() == {"a"} and c.view.standalone)


async def test_new_metadata_reaches_the_others(peers: Callable[..., Any]) -> None:
    a, b = await peers("a"), await peers("b")
    await b.call(Join((a.address,)))
    await b.call(UpdateMetadata(MemberMetadata("b", services=("mqtt",))))
    await eventually(lambda: (m := a.view.get("b")) is not None and m.metadata.services == ("mqtt",))
    await eventually(lambda: any(isinstance(e, MemberUpdated) for e in a.events))


async def test_a_late_loop_shows_in_the_health_of_the_node(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    assert a.view.health == 0
    a.runtime.cast("gossip", LoopLag(0.5))
    await eventually(lambda: a.view.health == 1)


async def test_an_address_that_cannot_be_bound_names_the_key_to_change() -> None:
    peer = Peer("a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(StartFailed, match=r"cluster\.port"):
            await peer.start(taken.getsockname()[1])
    with pytest.raises(StartFailed, match=r"192\.0\.2\.7:0.*cannot be bound.*cluster\.host"):
        await peer.restart(host="192.0.2.7")
    await peer.runtime.stop()


async def test_garbage_on_both_sockets_changes_nothing(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=a.address)
    for junk in (b"", b"x", b"g1\0" * 40, bytes(1400)):
        transport.sendto(junk)
    transport.close()
    for junk in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x04junk", b"\x00\x00\x00\x00"):
        reader, writer = await asyncio.open_connection(*a.address)
        writer.write(junk)
        assert await reader.read() == b""
        writer.close()
    await eventually(lambda: a.view.counters["rejected.malformed"] == 3)
    assert a.view.counters["rejected.version"] == 2
    assert a.view.counters["rejected.oversized"] == 1
    assert a.online() == {"a"}


async def test_one_address_that_holds_streams_keeps_nobody_from_joining(peers: Callable[..., Any]) -> None:
    a, b = await peers("a"), await peers("b")
    held = [await asyncio.open_connection(*a.address, local_addr=("127.0.0.3", 0)) for _ in range(140)]
    for _, writer in held:
        # As much of a question as may be held, but for its last byte.
        writer.write((MAX_STRANGER - 1).to_bytes(4, "big") + bytes(1000))
    await eventually(lambda: a.view.counters["rejected.busy"] > 0)
    assert await b.call(Join((a.address,))) == JoinResult(joined=(a.address,))
    for _, writer in held:
        writer.close()


class Caller(asyncio.Transport):
    """One end of a stream, of which nothing is read or closed until the test says so."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 40000), "sockname": ("127.0.0.1", 7946)})
        self.sent = b""
        self.ending = self.aborted = False

    def write(self, data: Any) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.ending

    def close(self) -> None:
        self.ending = True

    def abort(self) -> None:
        self.ending = self.aborted = True


class ByHand(SystemNetwork):
    """Keeps what makes the streams of a listener."""

    make: Callable[[], Any]

    async def listen(self, make: Any, address: Any, **options: Any) -> Listener:
        self.make = make
        return await super().listen(make, address, **options)


async def test_one_that_has_its_answer_was_not_turned_away_when_another_gets_its_place() -> None:
    network = ByHand()
    peer = Peer("a")
    peer.watcher = peer.runtime.spawn(peer._watch, name="watcher")
    await peer.restart(network=network)
    callers = [Caller(f"127.0.0.{3 + number // 64}") for number in range(130)]
    streams = [network.make() for _ in callers]
    for stream, caller in zip(streams[:128], callers, strict=False):
        stream.connection_made(caller)
    joiner = Alive("b", "b" * 16, "127.0.0.3", 7946, 1, MemberMetadata("b", creation=1, start_time=1.0))
    question = compound([encode(Sync("join", [Record(joiner, 0, 0.0)]))])
    streams[0].data_received(
        frame(peer.keyring.seal("b" * 16, 1, time(), question, to=at_address(("127.0.0.1", 7946))))
    )
    await eventually(lambda: callers[0].ending)
    assert callers[0].sent
    streams[128].connection_made(callers[128])
    assert callers[0].aborted
    assert peer.view.counters["rejected.busy"] == 0
    streams[129].connection_made(callers[129])
    assert callers[64].aborted
    assert peer.view.counters["rejected.busy"] == 1
    await peer.runtime.stop()


@pytest.mark.parametrize(("known", "most"), [(False, MAX_STRANGER), (True, MAX_QUESTION)])
async def test_who_has_not_proved_to_have_the_key_may_ask_in_small_frames_only(
    peers: Callable[..., Any], known: bool, most: int
) -> None:
    a = await peers("a")
    first = frame(a.keyring.seal("0" * 16, 1, time(), b"", to=at_address(a.address))) if known else b""
    for length, refused in ((most, 0), (most + 1, 1)):
        reader, writer = await asyncio.open_connection(*a.address)
        writer.write(first + length.to_bytes(4, "big") + bytes(0 if refused else most))
        assert await reader.read() == b""
        writer.close()
        assert a.view.counters["rejected.oversized"] == refused
        first = first and frame(a.keyring.seal("0" * 16, 2, time(), b"", to=at_address(a.address)))


async def test_a_question_larger_than_a_stranger_may_ask_is_answered(peers: Callable[..., Any]) -> None:
    """b learns of more members than fit into a small frame, and a of all of them from b."""
    a, b = await peers("a"), await peers("b")
    rows = [
        Record(Alive(name, f"{n:016x}", "127.77.0.1", n, 1, MemberMetadata(name)), LEFT, 0.0)
        for n, name in enumerate((f"gone{n}" for n in range(1, 401)), 1)
    ]
    b.view._swim._push_pull._merge(Sync("reply", rows), "b", SystemClock().monotonic())
    assert isinstance(await b.call(Join((a.address,))), JoinResult)
    await eventually(lambda: len(a.view.members(include_left=True)) == 402)


async def test_a_stream_that_asks_nothing_is_ended_and_counted(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    reader, writer = await asyncio.open_connection(*a.address)
    assert await asyncio.wait_for(reader.read(), STREAM_TIMEOUT + 5) == b""
    writer.close()
    assert a.view.counters["rejected.unfinished"] == 1


async def test_a_server_without_its_sockets_ends_so_that_it_is_restarted(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    assert a.pid is not None
    ended = a.runtime.join(a.pid)
    (sockets,) = [pid for pid in a.runtime.processes() if labelled(a.runtime, pid) == "gossip_sockets"]
    a.runtime.exit(sockets, "kill")
    assert (await asyncio.wait_for(ended, 2))[0] == "sockets_closed"


def labelled(runtime: Runtime, pid: Pid) -> str:
    entry = runtime.find(pid)
    return "" if entry is None else entry.label


async def test_metadata_too_large_is_an_answer_and_not_the_end(peers: Callable[..., Any]) -> None:
    a = await peers("a")
    large = MemberMetadata("a", services=tuple(f"service-number-{n}" for n in range(60)))
    answer = await a.call(UpdateMetadata(large))
    assert isinstance(answer, MetadataTooLargeError)
    assert "512" in str(answer)
    answer = await a.call(Keys("use", "00000000"))
    assert isinstance(answer, KeyringError)
    assert a.online() == {"a"}
