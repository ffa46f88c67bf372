"""Process that replicates: it turns the link's reports into events of the pure core.

It is thin; its state belongs to the store and outlives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gossamer.mnesia_like.core import ReplicationLink, StoreCore
from gossamer.mnesia_like.errors import BadFrameError
from gossamer.mnesia_like.replication.exchange import Action
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.supervisor import GenServer, Pid, Runtime, self_pid, send_after

# Time passed; another slice of background work.
_TICK, _WORK = "tick", "work"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _PeerUp:
    name: str
    creation: int
    session: int


@dataclass(frozen=True, slots=True)
class _PeerDown:
    name: str
    left: bool
    renewing: bool


@dataclass(frozen=True, slots=True)
class _Frame:
    peer: str
    payload: bytes
    done: Callable[[], None]


class _Inbox:
    """The link's sink: every event becomes a message, so that only the process touches the core.

    One exception: as soon as a peer is up, nothing counts as visible that it has not acknowledged.
    """

    def __init__(self, runtime: Runtime, pid: Pid, link: ReplicationLink, replication: Replication) -> None:
        self._runtime = runtime
        self._pid = pid
        self._link = link
        self._renewing = replication.renewing

    def peer_up(self, name: str, creation: int, session: int) -> None:
        self._renewing.add(name)
        if not self._runtime.send(self._pid, _PeerUp(name, creation, session)):
            self._missed(name)

    def peer_down(self, name: str, *, left: bool, renewing: bool = False) -> None:
        self._runtime.send(self._pid, _PeerDown(name, left, renewing))

    def frame(self, peer: str, payload: bytes, done: Callable[[], None]) -> None:
        if not self._runtime.send(self._pid, _Frame(peer, payload, done)):
            self._missed(peer)

    def _missed(self, peer: str) -> None:
        if self._runtime.alive(self._pid):
            # Its mailbox is full. If the process has ended, its successor gets the event again.
            self._link.renew(peer)


class Replicator(GenServer):
    """Runs :class:`Replication` for a store."""

    async def init(self, core: StoreCore) -> None:
        self._core = core
        self._replication = core.replication
        self._working = False
        core.replicator.attach()
        if core.link is not None:
            core.link.attach(_Inbox(Runtime.current(), self_pid(), core.link, core.replication))
            self._reconcile(core.link)
        self._perform(self._replication.flush())
        send_after(core.tick, self_pid(), _TICK)

    async def handle_info(self, message: object) -> None:
        try:
            await self._handle(message)
        except Exception:
            # Half of it may have taken effect. The frame counts as done, or it would come again forever.
            self._core.renew()
            raise

    async def _handle(self, message: object) -> None:
        core, replication, now = self._core, self._replication, self._core.clock.monotonic()
        match message:
            case _Frame(peer, payload, done):
                try:
                    self._perform(replication.receive(peer, payload, now))
                except BadFrameError as error:
                    log.warning("bad_frame", peer=peer, problem=error.problem)
                    # If no frame of a peer could be decoded, another session would not help.
                    if core.link is not None and replication.has_table_list(peer):
                        core.link.renew(peer)
                finally:
                    done()
            case "flush":
                core.replicator.answer()
                core.report_applied()
                self._perform(replication.flush())
            case _PeerUp(name, creation, session):
                core.before_peer_up(name, creation)
                self._perform(replication.peer_up(name, creation, session, now))
            case _PeerDown(name, left, renewing):
                core.before_peer_down(name, left=left)
                self._perform(replication.peer_down(name, now, left=left, renewing=renewing))
            case "work":
                self._working = False
                self._perform(replication.work())
            case "tick":
                send_after(core.tick, self_pid(), _TICK)
                if core.link is not None:
                    self._reconcile(core.link)
                self._perform(replication.tick(now))
                core.housekeeping()
            case _:
                await super().handle_info(message)

    def _reconcile(self, link: ReplicationLink) -> None:
        """Catch up with peers that came and went while no process listened, or its mailbox was full."""
        now = self._core.clock.monotonic()
        there = dict(link.peers())
        known = self._replication.connected()
        renewing = link.renewing()
        for name in [*known, *self._replication.renewing - renewing]:
            if name not in there:
                self._core.before_peer_down(name, left=False)
                self._perform(self._replication.peer_down(name, now, renewing=name in renewing))
        for name, (creation, session) in there.items():
            self._core.before_peer_up(name, creation)
            self._perform(self._replication.peer_up(name, creation, session, now))

    def _perform(self, actions: list[Action]) -> None:
        self._core.perform(actions)
        if self._replication.may_be_busy and not self._working and self._replication.busy:
            self._working = True
            # By a timer, so that the rest of this turn comes before the next slice.
            send_after(0.0, self_pid(), _WORK)
