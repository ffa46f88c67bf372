"""The shell around the gossip state machine: sockets, timers, envelopes, subscribers. It decides nothing.

Packets and timers come in as guarded callbacks and are handled in the turn they arrive, so nothing queues up
behind the mailbox; only requests of other processes go through it. Sockets belong to a port linked to the
server: they close however the server ends, also when it is killed, so that its successor finds them free.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog

from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.gossip.keyring import Keyring, Opened, ReplayGuard
from gossamer.gossip.member import (
    LinkEvidence,
    MemberDown,
    MemberEvent,
    MemberMetadata,
    MemberUp,
    NameConflict,
    PartitionHint,
)
from gossamer.gossip.requests import ForceLeave, Join, Keys, Leave, Subscribe, UpdateMetadata
from gossamer.gossip.settings import GossipSettings
from gossamer.gossip.sockets import advertised, open_sockets
from gossamer.gossip.steps import (
    Answer,
    Emit,
    EvidenceSeen,
    ForceLeaveRequested,
    Input,
    JoinRequested,
    LeaveRequested,
    MetadataChanged,
    OpenStream,
    PacketReceived,
    ReplyStream,
    SendPacket,
    StreamFailed,
    StreamReplied,
    StreamRequested,
    Tick,
)
from gossamer.gossip.streams import AnsweringStream, AskingStream, frame
from gossamer.gossip.swim import Swim
from gossamer.gossip.view import Identity, MembershipView
from gossamer.gossip.wire import PacketRejected
from gossamer.network import Address, Network
from gossamer.supervisor import (
    Caller,
    Destination,
    Exit,
    GenServer,
    NoReply,
    Pid,
    Reply,
    Stop,
    guarded,
    reply,
    send,
    spawn_link,
    trap_exit,
)

__all__ = ["GossipServer"]

log = structlog.get_logger(__name__)

_MAX_STREAMS = 128


class GossipServer(GenServer):
    """Membership of one node. Start it under the node's supervisor, with the node's view.

    Calls: :class:`Join`, :class:`Leave`, :class:`ForceLeave`, :class:`UpdateMetadata`, :class:`Keys`. Casts:
    :class:`Subscribe`, :class:`LinkEvidence`. ``subscribers`` (registered names, best) get every event from
    the first on.
    """

    async def init(
        self,
        *,
        metadata: MemberMetadata,
        bind: Address,
        keyring: Keyring,
        network: Network,
        clock: Clock,
        view: MembershipView,
        advertise: str = "",
        rng: random.Random | None = None,
        settings: GossipSettings | None = None,
        subscribers: Sequence[Destination] = (),
    ) -> None:
        trap_exit()
        self._keyring = keyring
        self._network = network
        self._clock = clock
        self._view = view
        self._settings = settings or GossipSettings()
        self._rng = rng or random.Random()
        self._guard = ReplayGuard()
        self._subscribers: dict[Destination, None] = dict.fromkeys(subscribers)
        self._callers: dict[int, Caller] = {}
        self._exchanges: dict[Pid, OpenStream] = {}
        self._tokens = 0
        self._complained: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._fire = guarded(self._on_timer)
        self._learn = guarded(self._feed)
        self._identity = view.identity or Identity(id="", address=bind, incarnation=0)
        self._on_frame = guarded(self._frame_received)
        self._on_bad_frame = guarded(self._reject)
        self._sockets = await open_sockets(
            network, self._identity.address, received=guarded(self._on_datagram), answering=self._answering
        )
        self._swim = self._revive(metadata, advertised(bind, advertise, bound=self._sockets.bound))
        self._arm()

    # ---- requests ---------------------------------------------------------------------------------------

    async def handle_call(self, request: Any, caller: Caller) -> Reply | NoReply:
        match request:
            case Join(addresses):
                self._feed(JoinRequested(self._caller(caller), tuple((h, p) for h, p in addresses)))
            case Leave():
                self._feed(LeaveRequested(self._caller(caller)))
            case ForceLeave(name, final):
                self._feed(ForceLeaveRequested(self._caller(caller), name, final))
            case UpdateMetadata(metadata):
                return self._try(lambda: self._feed(MetadataChanged(metadata)))
            case Keys(action, key):
                return self._try(lambda: self._change_keys(action, key))
            case _:
                return await super().handle_call(request, caller)  # type: ignore[return-value]
        return NoReply()

    async def handle_cast(self, request: Any) -> None:
        match request:
            case LinkEvidence():
                self._feed(EvidenceSeen(request))
            case Subscribe(subscriber):
                self._subscribers[subscriber] = None
                for member in self._view.members()[1:]:
                    if member.status.name != "OFFLINE":
                        send(subscriber, MemberUp(member))
            case _:
                await super().handle_cast(request)

    async def handle_info(self, message: Any) -> Stop | None:
        if isinstance(message, Exit):
            if message.source == self._sockets.pid:
                return Stop(("sockets_closed", message.reason))
            action = self._exchanges.pop(message.source, None)
            if action is not None and message.reason != "normal":
                self._feed(StreamFailed(action.token, "failed"))
        return None

    async def terminate(self, reason: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._sockets.close()

    def _try(self, change: Callable[[], object]) -> Reply:
        """A caller's mistake is the answer, not the end of the server."""
        try:
            return Reply(change())
        except UsageError as error:
            return Reply(error)

    def _caller(self, caller: Caller) -> int:
        self._tokens += 1
        self._callers[self._tokens] = caller
        return self._tokens

    def _change_keys(self, action: str, key: bytes | str) -> list[str]:
        if action == "install":
            self._keyring.install(key if isinstance(key, bytes) else key.encode())
        elif action == "use":
            self._keyring.use(str(key))
        elif action == "remove":
            self._keyring.remove(str(key))
        return self._keyring.key_ids()

    # ---- the state machine ------------------------------------------------------------------------------

    def _revive(self, metadata: MemberMetadata, address: Address) -> Swim:
        identity = self._identity
        now = self._clock.monotonic()
        if self._view.identity is None:
            identity.id = f"{self._rng.getrandbits(64):016x}"
            identity.incarnation = int(self._clock.wall() * 1000)
            identity.address = (identity.address[0], address[1])
            self._view.identity = identity
            before = []
        else:
            before = self._view.records(now)
            identity.incarnation = max(identity.incarnation, self._view.local.incarnation) + 1
        ports = {**metadata.ports, "gossip": address[1]}
        swim = Swim(
            id=identity.id,
            name=metadata.name,
            address=address,
            incarnation=identity.incarnation,
            metadata=msgspec.structs.replace(metadata, ports=ports),
            settings=self._settings,
            rng=self._rng,
            now=now,
        )
        swim.restore(before, now)
        self._view.publish(swim)
        return swim

    def _feed(self, event: Input) -> None:
        swim = self._swim
        try:
            actions = swim.step(event, self._clock.monotonic())
        except PacketRejected as error:
            self._reject(error)
            actions = swim.drain()
        for action in actions:
            kind = type(action)
            if kind is SendPacket:
                self._send_packet(action.address, action.body)  # type: ignore[union-attr]
            else:
                self._do(action)
        self._arm()

    def _do(self, action: object) -> None:
        match action:
            case OpenStream():
                pid = spawn_link(self._exchange, action, label="gossip_exchange")
                self._exchanges[pid] = action
            case ReplyStream(token, body):
                stream = self._sockets.streams.get(token) if isinstance(token, int) else None
                if stream is not None:
                    stream.send(self._seal(body))
            case Emit(event):
                self._emit(event)
            case Answer(token, result):
                caller = self._callers.pop(token, None) if isinstance(token, int) else None
                if caller is not None:
                    reply(caller, result)

    def _emit(self, event: MemberEvent) -> None:
        if isinstance(event, PartitionHint):
            self._view.hints.append((self._clock.wall(), event))
            log.warning("partition_hint", kind=event.kind, **event.evidence)
        elif isinstance(event, NameConflict):
            log.error("name_conflict", name=event.name, holder=f"{event.holder.address}:{event.holder.port}")
        elif isinstance(event, MemberDown):
            log.warning("member_down", member=event.member.name, reason=event.reason)
        else:
            member = getattr(event, "member", None)
            name = _snake(type(event).__name__)
            if member is not None:
                log.info(name, member=member.name, address=f"{member.address}:{member.port}")
            else:
                log.warning(name)
        self._view.counters[_snake(type(event).__name__)] += 1
        for subscriber in list(self._subscribers):
            # A name may be free for the moment its process restarts; a pid that is gone stays gone.
            if not send(subscriber, event) and not isinstance(subscriber, str):
                del self._subscribers[subscriber]

    def _arm(self) -> None:
        deadline = self._swim.deadline
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline is not None:
            delay = max(0.0, deadline - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        self._feed(Tick())

    # ---- packets ----------------------------------------------------------------------------------------

    def _seal(self, body: bytes) -> bytes:
        identity = self._identity
        return self._keyring.seal(identity.id, identity.next_number(), self._clock.wall(), body)

    def _open(self, packet: bytes) -> Opened:
        opened = self._keyring.open(packet)
        if opened.sender == self._identity.id:
            raise PacketRejected("own", "a packet of this node came back to it")
        self._guard.admit(opened, self._clock.wall())
        return opened

    def _send_packet(self, address: Address, body: bytes) -> None:
        packet = self._seal(body)
        counters = self._view.counters
        counters["packets_out"] += 1
        counters["bytes_out"] += len(packet)
        try:
            self._sockets.datagrams.sendto(packet, address)
        except (OSError, ValueError) as error:
            # No route, or an address of the wrong family: the same as a lost packet.
            counters["send_failed"] += 1
            self._complain("send_failed", address=address, error=str(error))

    def _on_datagram(self, data: bytes, address: Any) -> None:
        counters = self._view.counters
        counters["packets_in"] += 1
        counters["bytes_in"] += len(data)
        try:
            opened = self._open(data)
        except PacketRejected as error:
            self._reject(error, address)
            return
        self._feed(PacketReceived(opened.sender, (address[0], address[1]), opened.body))

    def _reject(self, error: PacketRejected, source: Any = None) -> None:
        self._view.counters["rejected." + error.reason] += 1
        self._complain("packet_rejected", reason=error.reason, detail=error.detail, source=source)

    def _complain(self, event: str, **facts: Any) -> None:
        """Log once a minute for each kind of trouble; the counters have the rest."""
        key = f"{event} {facts.get('reason')}"
        now = self._clock.monotonic()
        if now - self._complained.get(key, -1e9) >= 60.0:
            self._complained[key] = now
            log.warning(event, **facts)

    # ---- streams ----------------------------------------------------------------------------------------

    async def _exchange(self, action: OpenStream) -> None:
        """The body of a linked process: one question to a peer."""
        self._learn(await self._ask(action))

    async def _ask(self, action: OpenStream) -> Input:
        try:
            async with asyncio.timeout(action.timeout):
                transport, stream = await self._network.connect(
                    lambda: AskingStream(max_frame=self._settings.max_frame), action.address
                )
                try:
                    transport.write(frame(self._seal(action.body)))
                    packet = await stream.answer
                finally:
                    transport.abort()
            if not packet:
                return StreamFailed(action.token, "closed")
            opened = self._open(packet)
        except ConnectionRefusedError:
            return StreamFailed(action.token, "refused")
        except TimeoutError:
            return StreamFailed(action.token, "timeout")
        except (OSError, ValueError):
            return StreamFailed(action.token, "unreachable")
        except PacketRejected as error:
            self._reject(error, action.address)
            return StreamFailed(action.token, error.reason)
        return StreamReplied(action.token, opened.sender, opened.body)

    def _answering(self) -> AnsweringStream:
        return AnsweringStream(
            max_frame=self._settings.max_frame,
            timeout=self._settings.stream_timeout,
            received=self._on_frame,
            rejected=self._on_bad_frame,
            opened=self._on_stream,
            closed=self._on_stream_end,
        )

    def _on_stream(self, stream: AnsweringStream) -> bool:
        if len(self._sockets.streams) >= _MAX_STREAMS:
            self._view.counters["rejected.busy"] += 1
            return False
        self._sockets.streams[id(stream)] = stream
        return True

    def _on_stream_end(self, stream: AnsweringStream) -> None:
        self._sockets.streams.pop(id(stream), None)

    def _frame_received(self, stream: AnsweringStream, packet: bytes) -> None:
        try:
            opened = self._open(packet)
        except PacketRejected as error:
            self._reject(error, stream.peer)
            stream.close()
            return
        self._feed(StreamRequested(id(stream), opened.sender, stream.peer, opened.body))


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
