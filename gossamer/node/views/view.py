"""The API's view of a node as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from gossamer import __version__
from gossamer.api import (
    REQUEST,
    Ask,
    ConsensusView,
    EventLogView,
    HealingView,
    Metric,
    More,
    PeerAnswer,
    PeerRequests,
    PeerSilentError,
    QueuesView,
    RecordingView,
    make_app,
)
from gossamer.api.model.cluster import NodeHistory, Pulse, Readiness, Seen
from gossamer.distribution import rpc
from gossamer.node.history import resident_memory
from gossamer.node.metrics import Census, loop_watch, metrics_of, take_census
from gossamer.node.parts import NodeParts
from gossamer.node.views.clients import ClientsView
from gossamer.node.views.consensus import Consensus
from gossamer.node.views.healing import Healing
from gossamer.node.views.inside import InsideView, Recording
from gossamer.node.views.members import MembersView
from gossamer.node.views.queues import QueuesOfCluster
from gossamer.node.views.readiness import ReadinessCheck
from gossamer.node.views.tenants import TenantsView
from gossamer.supervisor import describe


class View(MembersView, ClientsView, TenantsView, InsideView):
    """Implements :class:`gossamer.api.NodeView`."""

    def __init__(self, node: NodeParts) -> None:
        super().__init__(node)
        self._census = Census()
        self._readiness = ReadinessCheck(node)
        self.event_log: EventLogView = node.event_log
        self.healing: HealingView = Healing(node, self._readiness)
        self.recording: RecordingView = Recording(node)
        self.consensus: ConsensusView = Consensus(node)
        self.queues: QueuesView = QueuesOfCluster(node)
        self.drills = node.drills
        self.audits = node.audits
        self.faults = node.faults
        """The gate to the network, None where the configuration has none."""
        self.peer_requests = PeerRequests(
            partial(
                make_app,
                self,
                config=node.config.api,
                tokens=node.tokens,
                clock=node.clock,
                limits=node.limits,
            ),
            node.runtime,
        )
        """Answers what other nodes ask of this one's API."""

    def readiness(self) -> Readiness:
        """Return whether the node takes clients; see :mod:`gossamer.node.views.readiness`."""
        return self._readiness.readiness()

    def pulse(self) -> Pulse:
        """The node at this moment, in the few numbers that are asked for every second."""
        node = self._node
        status, stats, watch = self.status(), node.broker.stats(), loop_watch(node.runtime)
        forwarders = node.router.forwarders().items()
        return Pulse(
            node=node.name,
            at=node.clock.wall(),
            creation=node.creation,
            uptime=status.uptime,
            state=status.state,
            version=__version__,
            connections=stats["connections"],
            sessions=stats["sessions"],
            filters=self._routes().get(node.name, 0),
            retained=stats["retained"],
            queued_bytes=stats["queued_bytes"],
            received=stats["messages_received"],
            sent=stats["messages_sent"],
            dropped=node.broker.fanout.drops.total(),
            forwarded_bytes={peer: forwarder.counts["bytes"] for peer, forwarder in forwarders},
            loop_lag=watch.lag if watch else 0.0,
            memory=resident_memory(),
            sees={row.name: Seen(status=row.status, link=row.link) for row in self.nodes()},
            phase=self.healing.status().phase,
            alarms=tuple(self.healing.alarms()),
        )

    def history(self, *, seconds: int, step: int) -> NodeHistory:
        """The last ``seconds`` of this node, a point a ``step``."""
        now = self._node.clock.wall()
        return self._node.history.history(self.name, now=now, seconds=seconds, step=step)

    async def count(self) -> None:
        """Recount the values that only ``metrics`` reads, a little in each turn of the loop."""
        self._census = await take_census(self._node)

    def metrics(self) -> Iterable[Metric]:
        """Every number of this node; some as they were at the last ``count``."""
        ready = self.readiness().ready
        return metrics_of(self._node, self._census, ready=ready, alarms=self.healing.alarms())

    async def ask_peer(self, node: str, ask: Ask | More, timeout: float) -> PeerAnswer:
        """Return the answer of another node's API."""
        if node == self.name:
            return await self.peer_requests.answer(ask)
        result = await self._node.runtime.run(rpc.call, node, REQUEST, ask, timeout=timeout)
        match result:
            case rpc.Returned(value=PeerAnswer() as answer):
                return answer
            case rpc.Raised(message=message):
                raise PeerSilentError(node=node, reason=message)
            case rpc.Exited(reason=reason) | rpc.Unreachable(reason=reason):
                raise PeerSilentError(node=node, reason=describe(reason))
            case _:
                raise PeerSilentError(node=node, reason="its answer makes no sense")
