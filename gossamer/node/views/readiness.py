"""Is this node fit to take clients? And who of the cluster keeps apart?

A peer is *apart* when gossip says it is online and yet it has no part in the cluster: there is no link to it,
or a table that it owns rows of does not load. Whose fault that is, neither side can see; both see the same.

Rules: 1. A node that is not running, or was emptied, is not ready.  2. One that starts waits until nobody
is apart from it, :data:`NEWCOMER` seconds at most.  3. After that it is ready as long as those it works with,
itself included, are more than those that are apart from it; of two halves, the one with the node that started
first. So a release that does not fit makes the node that runs it unready, and no other, and a rollout stops
there with everybody else in service.  4. Who is apart for :data:`ALARM_AFTER` seconds is an alarm.  5. A
member that is suspected or down is not apart: a side of a split serves its clients. One that is down is an
alarm of its own, until it is back or removed.  6. While the disc takes no writes nothing that should last is
acknowledged, so the node is not ready, and that is an alarm.  7. A node that has been in no cluster yet,
because seeds are there that do not let it in, is an alarm, also when it serves alone after all.

Rejected: not ready as long as anybody is apart. One stranger takes every node out of service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shutil import disk_usage

import structlog

from gossamer.api.model.cluster import AlarmInfo, Readiness
from gossamer.config import INBOX_STORE
from gossamer.discovery import advice
from gossamer.gossip import Member, Status
from gossamer.mnesia_like import OwnedTable
from gossamer.node.parts import NodeParts
from gossamer.node.views.queues import queue_alarms

log = structlog.get_logger(__name__)

NEWCOMER = 30.0
ALARM_AFTER = 10.0
SLOW_AFTER = 30.0
"""Seconds for which a disc is slow before that is an alarm: a snapshot, or a backup, takes less."""
ROOM = 4 * 2**20
"""Bytes that the disc of a node must have free: with less the next write may be refused."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A member that is online; ``lacks`` says what keeps it apart, and is empty for one that is not."""

    name: str
    started_at: float
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Readiness of the node; ``apart``: by peer that is apart, since when, and the reasons."""

    ready: bool
    apart: dict[str, tuple[float, tuple[str, ...]]]


class Judge:
    """Decides; no clock, no I/O. ``started_at`` is the node's own, by the same clock as its peers'."""

    def __init__(self, *, name: str, started_at: float) -> None:
        self._name = name
        self._started_at = started_at
        self._whole = False
        self._apart: dict[str, float] = {}

    def judge(self, peers: Sequence[Peer], *, running: bool, begun: float, now: float) -> Verdict:
        """The verdict at ``now``, which never goes backwards; ``begun`` is when the node began to start."""
        apart = [peer for peer in peers if peer.lacks]
        self._apart = {peer.name: self._apart.get(peer.name, now) for peer in apart}
        found = {peer.name: (self._apart[peer.name], peer.lacks) for peer in apart}
        if not running:
            return Verdict(False, found)
        self._whole = self._whole or not apart
        if not self._whole and now < begun + NEWCOMER:
            return Verdict(False, found)
        with_us = 1 + len(peers) - len(apart)
        if with_us != len(apart):
            return Verdict(with_us > len(apart), found)
        first = min([(self._started_at, self._name), *((peer.started_at, peer.name) for peer in peers)])
        return Verdict(first[1] not in found, found)


class ReadinessCheck:
    """Asks the parts of ``node``."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self._judge = Judge(name=node.name, started_at=node.started_at)
        self._told: set[str] = set()
        self._full_since = 0.0

    def readiness(self) -> Readiness:
        """As ``/ready`` tells it."""
        name = self._node.name
        peers, verdict = self._judged()
        linked = self._node.distribution.nodes()
        return Readiness(
            ready=verdict.ready,
            name=name,
            members=(name, *(peer.name for peer in peers if peer.name in linked)),
            waiting=(
                *self._refuses(),
                *(line for _, lacks in verdict.apart.values() for line in lacks),
                *self._without_store(),
            ),
        )

    def _without_store(self) -> list[str]:
        stores = [m for m in self._node.members.members() if INBOX_STORE not in m.metadata.off and not m.left]
        problem = "no node has services.inbox_store on: sessions have one copy, and queues take nothing"
        return [] if stores else [problem]

    def alarms(self) -> list[AlarmInfo]:
        """A disc that fails; who is down; and who is apart, for so long that nobody is just starting."""
        node, (_, verdict) = self._node, self._judged()
        now, wall = node.clock.monotonic(), node.clock.wall()
        alarms = [
            ("node_down", self._down_since(member.name), _down_text(member))
            for member in node.members.members()
            if member.status is Status.OFFLINE and not member.left and member.name != node.name
        ]
        queue = node.store.queue
        if queue.failed is not None:
            since = wall - (node.runtime.loop.time() - queue.failed_at)
            text = f"the disc of {node.name} takes no writes: {queue.failed}"
            alarms.append(("disc_failing", since, text))
        elif full := self._disc_full():
            since = wall - (now - self._full_since)
            alarms.append(("disc_failing", since, f"{full}; make room at {node.name}"))
        syncs = node.consensus.syncs
        if (slow := syncs.slow_since(now)) is not None and now - slow >= SLOW_AFTER:
            text = f"the disc of {node.name} is slow: {syncs.text(now)}; what waits for a quorum waits for it"
            alarms.append(("disc_slow", wall - (now - slow), text))
        lasting = {
            kind: lasts
            for kind, replica in node.consensus.replicas.items()
            if replica.leaderless_since is not None
            and (lasts := node.runtime.loop.time() - replica.leaderless_since) >= ALARM_AFTER
        }
        if lasting:
            groups = ", ".join(sorted(lasting))
            text = f"{node.name} reaches too few voters of {groups}; see gossamer raft status"
            alarms.append(("no_quorum", wall - max(lasting.values()), text))
        copies = node.broker.copies
        if copies is not None and (since := copies.behind_since) and now - since >= ALARM_AFTER:
            text = (
                f"a quorum lacks something of {_sessions(copies.behind)} of {node.name}: no other node could "
                "go on from there with all of it; see gossamer raft status"
            )
            alarms.append(("sessions_behind", wall - (now - since), text))
        if copies is not None and (since := copies.uncopied_since):
            text = (
                f"not copied, since the ranges are full: {_sessions(copies.uncopied)} of {node.name}; no "
                "other node could go on from there; see what is queued for clients that are away"
            )
            alarms.append(("sessions_not_copied", wall - (now - since), text))
        alarms += queue_alarms(node.queues.troubles.values(), wall - node.runtime.loop.time())
        if seeds := node.join_progress.rejections:
            text = f"{node.name} has joined no cluster: {'; '.join(_rejections(seeds))}"
            alarms.append(("not_joined", node.started_at, text))
        for name, (since, lacks) in verdict.apart.items():
            if now - since >= ALARM_AFTER:
                text = (
                    f"{name} is online and has no part in the cluster as {node.name} sees it: "
                    f"{', '.join(lacks)}; see that both run the same release"
                )
                alarms.append(("peer_apart", wall - (now - since), text))
        return [
            AlarmInfo(name=name, active=True, since=since, until=0.0, text=text)
            for name, since, text in alarms
        ]

    def _disc_full(self) -> str:
        """Return what says that the next write may find no room; blank where it will."""
        directory = self._node.data_dir
        free = ROOM if directory is None else disk_usage(directory).free
        if free >= ROOM:
            self._full_since = self._node.clock.monotonic()
            return ""
        return f"the disc of {directory} has {free // 1024} KiB free, expected {ROOM // 1024} KiB or more"

    def _down_since(self, member: str) -> float:
        """Return the wall-clock time at which a member went down, or this node started and found it so."""
        down = [one.at for one in self._node.event_log.after(0) if (one.kind, one.peer) == ("down", member)]
        return down[-1] if down else self._node.started_at

    def _judged(self) -> tuple[list[Peer], Verdict]:
        """Return who is online, and the verdict; one that is apart for long is logged, once."""
        node, peers = self._node, list(self._peers())
        now = node.clock.monotonic()
        verdict = self._judge.judge(peers, running=not self._refuses(), begun=node.begun_at, now=now)
        for name, (since, lacks) in verdict.apart.items():
            if name not in self._told and now - since >= ALARM_AFTER:
                self._told.add(name)
                log.error("peer_apart", peer=name, lacks=lacks, advice="run the same release on both nodes")
        self._told &= verdict.apart.keys()
        return peers, verdict

    def _refuses(self) -> list[str]:
        node = self._node
        if node.state != "running":
            return [f"the node is {node.state}", *_rejections(node.join_progress.rejections)]
        failed = node.store.queue.failed
        problem = self._disc_full() if failed is None else f"the disc takes no writes: {failed}"
        drained = ["the node is drained"] if node.broker.admission.references is not None else []
        return [*drained, *([problem] if problem else [])]

    def _peers(self) -> Iterable[Peer]:
        node = self._node
        linked = node.distribution.nodes()
        loading = self._loading()
        for member in node.members.members():
            if member.status is not Status.ONLINE or member.name == node.name:
                continue
            name = member.name
            lacks = loading.get(name, ()) if name in linked else (f"no link to {name}",)
            yield Peer(name, member.metadata.start_time, tuple(lacks))

    def _loading(self) -> dict[str, list[str]]:
        """Return what tables wait for, by the peer."""
        store = self._node.store
        found: dict[str, list[str]] = {}
        for table in store.tables():
            if isinstance(store.table(table), OwnedTable):
                for name, words in store.replication.unloaded(table).items():
                    found.setdefault(name, []).append(words)
        return found


def _sessions(count: int) -> str:
    return f"{count} session{'s'[: count != 1]}"


def _rejections(seeds: Mapping[str, str]) -> list[str]:
    return [f"{seed} does not let this node in ({why}: {advice(why)})" for seed, why in seeds.items()]


def _down_text(member: Member) -> str:
    state, remedy = (
        ("was stopped", "start it") if member.stopped else ("does not answer", "start or reconnect it")
    )
    return (
        f"{member.name} {state}, and sessions that only it has wait for it; {remedy}, or, if it never comes "
        f"back, `gossamer cluster force-leave {member.name}`"
    )
