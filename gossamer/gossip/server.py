"""Shell around the gossip state machine: timers, requests, subscribers. It decides nothing.

Packets and timers come in as guarded callbacks and are handled in the turn they
arrive, so nothing queues up in the mailbox; only requests of other processes go through it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence

import msgspec
import structlog

import gossamer.gossip.steps as steps
from gossamer.clock import Clock
from gossamer.config import GossipConfig
from gossamer.errors import GossamerError, UsageError
from gossamer.gossip.keyring import KeyFile, Keyring
from gossamer.gossip.member import (
    ForcedOut,
    LinkEvidence,
    LoopLag,
    MemberDown,
    MemberEvent,
    MemberMetadata,
    MemberUpdated,
    NameConflict,
    PartitionHint,
)
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.transport import GossipAddressError, GossipTransport
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
    Reason,
    Reply,
    Stop,
    StopInit,
    guarded,
    reply,
    send,
    spawn_link,
    trap_exit,
)

log = structlog.get_logger(__name__)


class GossipServer(GenServer):
    """Membership of one node. Start it under the node's supervisor, with the node's view.

    Calls: :class:`Join`, :class:`Leave`, :class:`ForceLeave`, :class:`UpdateMetadata`, :class:`Keys`. Casts:
    :class:`LinkEvidence`, :class:`LoopLag`. ``subscribers`` (registered names, best) get
    every event from the first on. ``key_file`` stores changes of the keys; if it exists it is the keyring.
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
        rng: random.Random | None = None,
        settings: GossipConfig | None = None,
        subscribers: Sequence[Destination] = (),
        key_file: KeyFile | None = None,
    ) -> None:
        trap_exit()
        self._keyring = keyring
        self._key_file = key_file
        self._clock = clock
        self._view = view
        self._settings = settings or GossipConfig()
        self._rng = rng or random.Random()
        self._subscribers: dict[Destination, None] = dict.fromkeys(subscribers)
        self._callers: dict[int, Caller] = {}
        self._exchanges: dict[Pid, steps.OpenStream] = {}
        self._tokens = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._fire = guarded(self._on_timer)
        self._learn = guarded(self._feed)
        self._identity = view.identity or Identity(id="", address=bind, incarnation=0)
        if key_file is not None and view.identity is None:
            keys = await asyncio.get_running_loop().run_in_executor(None, key_file.load)
            if keys:
                keyring.replace(keys)
        self._transport = GossipTransport(
            keyring=keyring,
            network=network,
            clock=clock,
            identity=self._identity,
            counters=view.counters,
        )
        try:
            address = await self._transport.bind(self._identity.address)
        except GossipAddressError as error:
            raise StopInit(str(error)) from error
        self._swim = self._revive(metadata, address)
        self._transport.named(self._identity.id, address)
        self._transport.on_input = self._feed
        self._arm()

    # ---- requests ---------------------------------------------------------------------------------------

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        match request:
            case steps.Join() | steps.Leave() | steps.ForceLeave() | steps.UpdateMetadata():
                self._tokens += 1
                self._callers[self._tokens] = caller
                try:
                    self._feed(steps.Requested(self._tokens, request))
                except UsageError as error:
                    # A caller's mistake is returned as the answer, and does not crash the server.
                    del self._callers[self._tokens]
                    return Reply(error)
            case steps.Keys(action, key):
                return await self._change_keys(action, key)
            case _:
                return await super().handle_call(request, caller)  # type: ignore[return-value]
        return NoReply()

    async def handle_cast(self, request: object) -> None:
        if isinstance(request, LinkEvidence | LoopLag):
            self._feed(request)
        else:
            await super().handle_cast(request)

    async def handle_info(self, message: object) -> Stop | None:
        if isinstance(message, Exit):
            if message.source == self._transport.pid:
                return Stop(("sockets_closed", message.reason))
            action = self._exchanges.pop(message.source, None)
            if action is not None and message.reason != "normal":
                self._feed(steps.StreamFailed(action.token, "failed"))
        return None

    async def terminate(self, reason: Reason) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    async def _change_keys(self, action: str, key: bytes | str) -> Reply:
        """Change the keyring; it is stored first, so that a crash loses no confirmed key."""
        if action == "list":
            return Reply(self._keyring.key_ids())
        try:
            draft = self._keyring.copy()
            if action == "install":
                draft.install(key if isinstance(key, bytes) else key.encode())
            elif action == "use":
                draft.use(str(key))
            else:
                draft.remove(str(key))
            keys = draft.keys()
            if self._key_file is not None:
                await asyncio.get_running_loop().run_in_executor(None, self._key_file.save, keys)
        except GossamerError as error:
            return Reply(error)
        self._keyring.replace(keys)
        names = self._keyring.key_ids()
        log.info("gossip_keys_changed", action=action, in_use=names[0], installed=len(names))
        return Reply(names)

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
        swim.timed(self._view.rtt.observe)
        self._view.publish(swim)
        return swim

    def _feed(self, event: steps.Input) -> None:
        swim = self._swim
        try:
            actions = swim.step(event, self._clock.monotonic())
        except PacketRejected as error:
            self._transport.reject(error)
            actions = swim.drain()
        for action in actions:
            kind = type(action)
            if kind is steps.SendPacket:
                self._transport.send(action.address, action.body, action.to)  # type: ignore[union-attr]
            else:
                self._do(action)
        self._arm()

    def _do(self, action: object) -> None:
        match action:
            case steps.OpenStream():
                pid = spawn_link(self._exchange, action, label="gossip_exchange")
                self._exchanges[pid] = action
            case steps.ReplyStream(token, body):
                self._transport.answer(token, body)
            case steps.Emit(event):
                self._emit(event)
            case steps.RequestResult(token, result):
                caller = self._callers.pop(token, None) if isinstance(token, int) else None
                if caller is not None:
                    reply(caller, result)

    def _emit(self, event: MemberEvent) -> None:
        name = _snake(type(event).__name__)
        if isinstance(event, PartitionHint):
            self._view.hints.append((self._clock.wall(), event))
            log.warning(name, kind=event.kind, **event.evidence)
        elif isinstance(event, NameConflict):
            log.error(name, name=event.name, holder=f"{event.holder.address}:{event.holder.port}")
        elif isinstance(event, MemberDown):
            # An announced stop is not a problem.
            level = logging.INFO if event.reason == "stopped" else logging.WARNING
            log.log(level, name, member=event.member.name, reason=event.reason)
        elif isinstance(event, ForcedOut):
            log.warning("forced_out_by_gossip")
        else:
            # New ports or services are only of interest when debugging.
            level = logging.DEBUG if isinstance(event, MemberUpdated) else logging.INFO
            address = f"{event.member.address}:{event.member.port}"
            log.log(level, name, member=event.member.name, address=address)
        self._view.counters[name] += 1
        for subscriber in list(self._subscribers):
            # A name is free while its process restarts; a dead pid stays dead.
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
        self._feed(steps.Tick())

    async def _exchange(self, action: steps.OpenStream) -> None:
        """Body of a linked process: one stream request to a peer."""
        self._learn(await self._transport.ask(action))


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
