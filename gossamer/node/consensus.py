"""The groups of replicas of a node's cluster: what runs them here, and the table in which every node finds
them.

Rule: they wait for their feature flags, so that a cluster can go back to a release without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from gossamer import basekv
from gossamer.basekv import BASEKV, KeyValueServer, RangeInfo, RangeKeeper, number_of
from gossamer.config import INBOX_STORE, Config, RaftGroupConfig, groups_of
from gossamer.distribution import RemoteProcesses
from gossamer.errors import UsageError
from gossamer.gossip import MembershipView
from gossamer.mnesia_like import SharedTable
from gossamer.node.parts import NodeParts
from gossamer.queues import KIND, QUEUES, QueueMachine, QueueServer, QueueWatch, Sink, Told, kind_of
from gossamer.raft import (
    COPIES,
    NAMES,
    RAFT,
    SETTINGS,
    TICK,
    UNIQUE_NAMES,
    ConsistentNames,
    DiscThread,
    GroupRow,
    NamesMachine,
    RaftServer,
    Settings,
    StateMachine,
    UniqueNames,
    current,
    kinds_in,
)
from gossamer.supervisor import Backoff, ChildSpec, Pid, Supervisor

TABLE = "consensus"


class GroupTable:
    """Register of groups: a row each. It is asked for several times for each request and each group."""

    def __init__(self, table: SharedTable) -> None:
        self._table = table
        self._read_at = -1
        self._groups: Mapping[int, GroupRow] = {}

    def groups(self) -> Mapping[int, GroupRow]:
        if self._read_at != self._table.seq:
            self._read_at = self._table.seq
            self._groups = {number: GroupRow(*row) for number, row in self._table.rows().items()}
        return self._groups

    def enter(self, group: int, row: GroupRow) -> None:
        # Releases before ranges that split know no fourth element.
        self._table.write(group, tuple(row) if row.detail else tuple(row)[:3])


class RangeDirectory:
    """Ranges of keys in the register of groups: of each its borders, its version, and about its size."""

    def __init__(self, register: GroupTable) -> None:
        self._register = register

    def ranges(self) -> list[RangeInfo]:
        rows = self._register.groups().values()
        return [RangeInfo(number_of(row.kind) or 0, *row.detail[:3]) for row in rows if row.detail]

    def sizes(self) -> dict[int, int]:
        rows = [row for row in self._register.groups().values() if row.detail and row.voters]
        return {number_of(row.kind) or 0: row.detail[3] for row in rows}

    def enter(self, info: RangeInfo, size: int) -> None:
        group = current(self._register, basekv.kind_of(info.number))
        if group:
            row = self._register.groups()[group]
            detail = (info.start, info.end, info.version, size)
            self._register.enter(group, row._replace(detail=detail))

    def is_gone(self, number: int) -> bool:
        rows = [row for row in self._register.groups().values() if row.kind == basekv.kind_of(number)]
        return bool(rows) and not any(row.voters > 0 for row in rows)


class NamedGroups:
    """Replication groups that the configuration names: asked for by each group each second, and found once
    for each configuration, which may declare a thousand queues."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self._config: Config | None = None
        self._groups: Mapping[str, RaftGroupConfig] = {}

    def __call__(self) -> Mapping[str, RaftGroupConfig]:
        config = self._node.config
        if self._config is not config:
            self._config, self._groups = config, groups_of(config.cluster.raft, config.queues)
        return self._groups


def consensus_spec(node: NodeParts) -> ChildSpec:
    """Return the spec of the server of replicas, and of the names that rest on them."""
    router = node.runtime.remote
    if isinstance(router, RemoteProcesses):
        router.consistent = ConsistentNames()
    children = [
        ChildSpec(RAFT, partial(_start_raft, node)),
        ChildSpec("names", partial(UniqueNames.start_link, name=UNIQUE_NAMES, label=UNIQUE_NAMES)),
        ChildSpec(BASEKV, partial(_start_basekv, node)),
        ChildSpec(
            "range_keeper",
            partial(
                RangeKeeper.start_link,
                node.consensus,
                partial(range_directory, node),
                changes=partial(_changes_ranges, node),
                label="keeper of ranges",
            ),
        ),
        ChildSpec(QUEUES, partial(_start_queues, node)),
        ChildSpec(
            "queue_watch", partial(QueueWatch.start_link, node.queues, node.consensus, label="queue watch")
        ),
    ]
    # A disc that refuses writes must not end the node, which serves clients all the same: the waits are so
    # long that the intensity is never reached.
    patience = {"intensity": 20, "period": 10.0, "backoff": Backoff(initial=0.5)}
    start = partial(Supervisor.start_link, children, **patience, label="consensus")
    return ChildSpec("consensus", start, type="supervisor")


async def _start_raft(node: NodeParts) -> Pid:
    storage = "disc_copies" if node.on_disc else "ram_copies"
    thread = None if node.faults is None else node.faults.disc.thread("gossamer-raft")
    table = await node.store.create_table(TABLE, replication="shared", storage=storage)
    register, named, disc = GroupTable(table), NamedGroups(node), None
    if node.data_dir is not None:
        syncs = node.consensus.syncs
        disc = DiscThread(node.data_dir / "raft", thread, syncs=syncs, now=node.clock.monotonic)
    return await RaftServer.start_link(
        node.distribution,
        disc=disc,
        register=register,
        members=partial(_members, node.members),
        kinds=partial(_kinds, node, register, named),
        machines=partial(_machine_of, node, named),
        wall=node.clock.wall,
        rng=node.rng,
        status=node.consensus,
        settings=partial(_settings_of, node),
        name=RAFT,
        label=RAFT,
    )


async def _start_basekv(node: NodeParts) -> Pid:
    changes = partial(_changes_ranges, node)
    return await KeyValueServer.start_link(node.rng, changes=changes, name=BASEKV, label=BASEKV)


def _changes_ranges(node: NodeParts) -> bool:
    return "ranges" in node.features.enabled


def _groups(node: NodeParts) -> GroupTable | None:
    """Return the register of groups; None: it is not there yet."""
    try:
        table = node.store.table(TABLE)
    except UsageError:
        # It is created once the other tables are there.
        return None
    assert isinstance(table, SharedTable)  # noqa: S101 - it was created as one
    return GroupTable(table)


def range_directory(node: NodeParts) -> RangeDirectory | None:
    """Return the ranges as their leaders have told every node; None: the table is not there yet."""
    register = _groups(node)
    return None if register is None else RangeDirectory(register)


async def _start_queues(node: NodeParts) -> Pid:
    return await QueueServer.start_link(
        node.queues,
        node.distribution,
        node.consensus,
        node.config.cluster.raft,
        name=QUEUES,
        label=QUEUES,
    )


def _machine_of(node: NodeParts, named: NamedGroups, kind: str) -> StateMachine:
    if kind.startswith(KIND):
        group = kind.removeprefix(KIND)

        def listens() -> Sink | None:
            recorder = node.queues.recorder
            return None if recorder is None or kind not in node.consensus.leading else recorder.gone

        replicas = _group(node, kind).min_in_sync_replicas or 0
        return QueueMachine(
            lambda index, given: node.runtime.send(QUEUES, Told(group, index, given)),
            listens,
            replicas,
            stays=lambda: group in named(),
        )
    return basekv.machine_of(kind) or NamesMachine(node.clock.monotonic)


def _group(node: NodeParts, kind: str) -> RaftGroupConfig:
    raft = node.config.cluster.raft
    return raft.groups.get(kind.removeprefix(KIND), raft)


def _settings_of(node: NodeParts, kind: str) -> Settings:
    """Limits and times of the groups of a kind."""
    if not kind.startswith(KIND):
        return SETTINGS
    group = _group(node, kind)
    return replace(
        SETTINGS,
        election_ticks=round(group.election_timeout / TICK),
        idle_heartbeat_ticks=round(group.heartbeat / TICK),
    )


def _kinds(node: NodeParts, register: GroupTable, named: NamedGroups) -> dict[str, int]:
    """The groups that the cluster should have, each with how many voters, and those that were made for a
    queue; each waits for the flag of what rests on it."""
    enabled = node.features.enabled
    if "consensus" not in enabled:
        return {}
    wanted = node.config.mqtt.sessions.replication
    copies = wanted if isinstance(wanted, int) else COPIES
    kinds = {NAMES: COPIES}
    if "basekv" in enabled:
        known = {
            row.kind
            for row in register.groups().values()
            if row.voters > 0 and number_of(row.kind) is not None
        }
        kinds |= dict.fromkeys((*basekv.KINDS, *known), copies)
    if "queues" in enabled:
        made = (kind for kind in kinds_in(register) if kind.startswith(KIND))
        kinds |= dict.fromkeys(made, node.config.cluster.raft.replication_factor)
        kinds |= {kind_of(group): one.replication_factor for group, one in named().items()}
    return kinds


def has_enough_replicas(node: NodeParts) -> bool:
    """Return whether each range of keys has the replicas that outlive one node."""
    register = _groups(node)
    if register is None:
        return False
    voters: dict[str, int] = {}
    for row in register.groups().values():
        if number_of(row.kind) is not None:
            voters[row.kind] = max(row.voters, voters.get(row.kind, 0))
    # One whose keys are another's by now has none.
    return set(basekv.KINDS) <= voters.keys() and not any(0 < count < COPIES for count in voters.values())


def _members(view: MembershipView) -> dict[str, str]:
    """The nodes with a store that have not left the cluster, up or down, with their racks."""
    members = [member for member in view.members() if not member.left]
    return {one.name: one.metadata.rack for one in members if INBOX_STORE not in one.metadata.off}
