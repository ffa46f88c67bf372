"""One node: its applications, made, started in the order of ``tree``, and stopped.

Rules: 1. Listeners for clients open once the tables are loaded, or after a bounded wait that is logged.  2.
Everything that touches time, randomness or the network is passed in.  3. A node is started once; a restart is
a new ``Node`` with a newer creation.
"""

from __future__ import annotations

import asyncio
from functools import cached_property

import structlog

from gossamer import __version__
from gossamer.clock import SystemClock
from gossamer.config import ENOUGH_BITS, Config, cookie_bits, cookie_of
from gossamer.errors import ConfigError, GossamerError, UnavailableError, UsageError
from gossamer.gossip import Leave, Status, UpdateMetadata
from gossamer.mnesia_like import TablesNotLoadedError
from gossamer.mqtt import mqtt_spec
from gossamer.node.configured_files import file_problems
from gossamer.node.consensus import consensus_spec
from gossamer.node.datadir import DataDir
from gossamer.node.membership import name_taken
from gossamer.node.parts import NodeParts
from gossamer.node.tree import children_of
from gossamer.node.views.view import View
from gossamer.supervisor import Crash, Pid, Reason, StartFailed, Supervisor, describe

log = structlog.get_logger(__name__)

JOIN_WAIT = 5.0
"""Seconds a starting node waits for seeds that are not there before it serves alone."""
NAME_WAIT = 15.0
"""Seconds that it waits where its name is taken: the holder may be its own dead former self."""
LOAD_WAIT = 15.0
"""Seconds a starting node waits for tables before it serves with what it has."""
LEAVE_WAIT = 3.0
"""Seconds a stopping node waits for its leave to spread."""
LAST_WAIT = 1.0
"""Seconds a stopping node waits for the others to have its clients' last messages, wills among them."""


class NodeFailedError(UnavailableError):
    """A node did not start, or ended by itself."""

    def __init__(self, *, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"node {name}: {reason}")


class Node(NodeParts):
    """One node of a cluster: started once, and stopped.

    ``data_dir`` None keeps nothing on disc; ``children`` join ``node.applications``. ``pid`` is the
    operating-system process that the node says it is; unless given, the one it runs in.
    """

    _directory: DataDir | None = None
    _root: Pid | None = None
    _ended: asyncio.Future[NodeFailedError | None] | None = None

    @cached_property
    def view(self) -> View:
        """The view that the API reads."""
        return View(self)

    @classmethod
    def open(cls, config: Config) -> Node:
        """A node on this machine's network, clock and disc. Blocks: call it before the loop runs.

        Raises:
            ConfigError: there is no usable cookie, or a file that the configuration names cannot be used.
            TransportError, UnavailableError: there is no usable data directory.
        """
        cookie = cookie_of(config.node).get_secret_value()
        directory = DataDir(config.node.data_dir, wall=SystemClock().wall())
        try:
            node = cls.of(config, directory, cookie)
        except BaseException:
            directory.close()
            raise
        node._directory = directory
        return node

    @classmethod
    def of(cls, config: Config, directory: DataDir, cookie: str) -> Node:
        """A node in a directory that is open, and stays its opener's to close.

        Raises:
            ConfigError: a file that the configuration names cannot be used.
        """
        if problems := file_problems(config):
            raise ConfigError("configuration", problems)
        if (bits := cookie_bits(cookie)) < ENOUGH_BITS:
            advice = "whoever records a packet can guess it: openssl rand -hex 32, on all nodes"
            log.warning("cookie_weak", bits=bits, expected=ENOUGH_BITS, advice=advice)
        return cls(
            config, creation=directory.creation, cookie=cookie, data_dir=directory.path, fresh=directory.fresh
        )

    # -- life

    async def start(self) -> None:
        """Start everything, and come back once clients may connect.

        Raises:
            NodeFailedError: something could not start; nothing of the node is left running.
        """
        self.state = "starting"
        self.begun_at = self.clock.monotonic()
        log.info("node_starting", node=self.name, version=__version__, creation=self.creation)
        self._ended = self.runtime.loop.create_future()
        try:
            if self.config.audit.enable:
                self.auditor.check()
            if self.tracing is not None:
                self.tracing.check()
            self._root = await self.runtime.start(
                Supervisor,
                children_of(self, view=self.view, fatal=self.fail),
                intensity=20,
                period=10.0,
                name="node",
                label="node",
            )
            self.runtime.join(self._root).add_done_callback(self._root_ended)
            await self.feature_table.open(self.store, on_disc=self.on_disc)
            await _wait_for_cluster(self)
            self.feature_table.begin(fresh=self.fresh)
            await self.runtime.run(Supervisor.start_child, "node", consensus_spec(self))
            await self.runtime.run(
                Supervisor.start_child, "node", mqtt_spec(self.broker, lambda: self.reloadable)
            )
            # Tell the cluster of the ports that are open now.
            await self.runtime.call("gossip", UpdateMetadata(self.metadata()))
        except (StartFailed, UnavailableError, UsageError) as error:
            await self._clear()
            if isinstance(error, NodeFailedError):
                raise
            reason = root_cause(error.reason) if isinstance(error, StartFailed) else str(error)
            raise NodeFailedError(name=self.name, reason=reason) from error
        if self._ended.done():
            raise self._ended.result() or NodeFailedError(name=self.name, reason="stopped while it started")
        self.state = "left" if self.standalone.on else "running"
        log.info("node_running", node=self.name, creation=self.creation, **self.ports)

    async def stop(self) -> None:
        """Leave the cluster and end everything in order, children before parents."""
        if self.state in ("stopping", "stopped", "new"):
            return
        self.state = "stopping"
        self.broker.wills.closing = True
        log.info("node_stopping", node=self.name, connections=self.broker.stats()["connections"])
        if self._root is not None:
            try:
                await self.runtime.run(Supervisor.terminate_child, "node", "mqtt")
                await self._deliver_last()
                await self.runtime.run(Supervisor.terminate_child, "node", "discovery")
                async with asyncio.timeout(LEAVE_WAIT):
                    # One that keeps sessions on disc is expected back, and so is what is kept for them.
                    await self.runtime.call("gossip", Leave(returning=self.on_disc), timeout=LEAVE_WAIT)
            except (GossamerError, TimeoutError) as error:
                log.warning("leave_failed", node=self.name, error=str(error) or "no answer in time")
        await self._clear()
        log.info("node_stopped", node=self.name)

    async def _deliver_last(self) -> None:
        """Have at the others what clients sent: they close the link once they hear that this node leaves."""
        for _ in range(int(LAST_WAIT / 0.01)):
            links = self.router.forwarders().values()
            if not self.broker.wills.unsettled and all(one.idle or not one.up for one in links):
                return
            await asyncio.sleep(0.01)

    def crash(self) -> None:
        """End at once and tell nobody, as ``kill -9`` does; for simulations."""
        self.state = "stopped"
        self.runtime.halt()
        self.store.abandon()

    async def wait(self) -> NodeFailedError | None:
        """Wait until the node has stopped; why, when it was not told to."""
        assert self._ended is not None  # noqa: S101 - started before anybody waits
        return await asyncio.shield(self._ended)

    def fail(self, error: UnavailableError) -> None:
        """This node must not go on: end it and say why."""
        assert self._ended is not None  # noqa: S101
        if not self._ended.done():
            self._ended.set_result(NodeFailedError(name=self.name, reason=str(error)))
        if self._root is not None:
            self.runtime.exit(self._root, ("shutdown", str(error)))

    # -- the end

    def _root_ended(self, joined: asyncio.Future[Reason]) -> None:
        assert self._ended is not None  # noqa: S101
        if not self._ended.done():
            expected = self.state in ("stopping", "stopped")
            why = None if expected else root_cause(joined.result())
            self._ended.set_result(None if why is None else NodeFailedError(name=self.name, reason=why))

    async def _clear(self) -> None:
        self.state = "stopping"
        await self.runtime.stop()
        self.state = "stopped"
        if self._directory is not None:
            self._directory.close()
            self._directory = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def root_cause(reason: Reason) -> str:
    """The innermost part of a nested reason that says something to a person."""
    while isinstance(reason, tuple) and reason:
        reason = reason[-1]
    return str(reason) if isinstance(reason, Crash) else describe(reason)


async def _wait_for_cluster(node: NodeParts) -> None:
    """Wait for the cluster, a name of one's own, and the tables, before clients are let in.

    Every wait is bounded and what did not come is logged; a node serves with what it has rather than not at
    all. The exception is a name that a living member has: two nodes of one name undo each other's rows.

    Raises:
        UnavailableError: a living member has this node's name.
    """
    begun = node.clock.monotonic()
    if not await _joined(node):
        for seed, why in node.join_progress.rejections.items():
            if why == "name-taken":
                raise name_taken(node.name, seed)
        waited = round(node.clock.monotonic() - begun, 1)
        log.warning("started_alone", node=node.name, waited=waited, advice="seeds are tried forever")

    def peers() -> list[str]:
        return [m.name for m in node.members.members()[1:] if m.status is not Status.OFFLINE]

    try:
        await node.store.wait_for_tables(timeout=LOAD_WAIT, peers=peers)
        # Those that died before they could be met have told others what they wrote last.
        down = [m for m in node.members.members() if m.status is Status.OFFLINE and not m.left]
        node.store.ask_survivors({m.name: m.metadata.creation for m in down})
        await node.store.wait_for_tables(timeout=LOAD_WAIT, peers=peers)
    except TablesNotLoadedError as error:
        log.warning("tables_not_loaded", node=node.name, error=str(error))
    if node.broker.handoff is not None:
        try:
            async with asyncio.timeout(LOAD_WAIT):
                await node.broker.handoff.learned(peers())
        except TimeoutError:
            log.warning("absent_nodes_not_asked_for", node=node.name, waited=LOAD_WAIT)


async def _joined(node: NodeParts) -> bool:
    """Wait to be in a cluster, or to need none; longer while a seed is there that does not let this node in.

    Alone it would be a second cluster beside that of the seed.
    """
    begun, told = node.clock.monotonic(), False
    while not await _settled(node, JOIN_WAIT):
        seeds = node.join_progress.rejections
        limit = NAME_WAIT if "name-taken" in seeds.values() else node.config.cluster.join_timeout
        if not seeds or (limit is not None and node.clock.monotonic() - begun >= limit):
            return False
        if not told:
            told = True
            log.warning(
                "join_rejected",
                node=node.name,
                seeds=dict(seeds),
                serves_alone_after="never" if limit is None else limit,
                advice="tried again, and no client is let in meanwhile; cluster.join_timeout is the limit",
            )
    return True


async def _settled(node: NodeParts, within: float) -> bool:
    """Wait until ``node`` is in a cluster, or needs none."""
    try:
        async with asyncio.timeout(within):
            await node.runtime.call("discovery", "settled", timeout=None)
    except TimeoutError:
        return False
    return True
