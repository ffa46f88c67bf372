"""Configuration of replication groups: how many copies, what is acknowledged, who takes and who delivers.

``cluster.raft`` has the settings of all groups, and ``cluster.raft.groups.NAME`` those in which one differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from gossamer.config.queues import DEFAULT_GROUP, QueueDeclaration, QueueName
from gossamer.config.units import Duration
from gossamer.config.values import Blank, Numeral, Positive, Section
from gossamer.errors import ConfigProblem

_LOCAL = (
    "forward or reject: local would acknowledge what one node has, and what a quorum has not is lost with "
    "that node; a queue that is to be written where it is led is written by reject"
)
_SYNC = (
    "always: all groups of a node are one log, which is synced once for all that has come meanwhile; what is "
    "acknowledged before that is lost when the nodes lose their power, so nothing else is offered"
)


def _write_policy(value: object) -> object:
    if value == "local":
        raise PydanticCustomError("wanted", _LOCAL)
    return value


def _sync_mode(value: object) -> str:
    if value is True or (isinstance(value, str) and value.strip().lower() in {"always", "true", "on", "yes"}):
        return "always"
    raise PydanticCustomError("wanted", _SYNC)


class RaftGroupConfig(Section):
    """A replication group: a Raft group of its own, on the links and in the log that all groups of a node
    share, so it needs no address and no directory. What is not set is as in ``cluster.raft``."""

    replication_factor: Annotated[Literal[1, 3, 5, 7], Numeral] = 3
    """Nodes that have its queues, where there are so many."""
    min_in_sync_replicas: Positive | None = None
    """A message is acknowledged once so many of these have it on disc, and refused while fewer can be reached
    and keep up; from a majority of ``replication_factor`` to all of it. Nothing: a majority of those that
    there are."""
    ack_timeout: Annotated[Duration, Field(ge=0.1, le=60)] = 5.0
    """A publisher whose message is not acknowledged by then is told that it failed. It may be in the queue,
    and is there twice where it is published again: at least once."""
    write_policy: Annotated[Literal["forward", "reject"], BeforeValidator(_write_policy)] = "forward"
    """What a node that does not lead the group does with a message. forward: has the leader take it. reject:
    refuses it, and names the leader (PUBACK 0x83)."""
    distribution_mode: Literal["replicate", "forward"] = "replicate"
    """Who sends messages to a consumer's node. replicate: it has them from its own replica, or, without one,
    from the leader. forward: the leader sends them."""
    heartbeat: Annotated[Duration, Field(ge=0.1, le=5)] = 0.5
    """Interval of heartbeats while nothing is written, in steps of 100 ms: at most half of
    ``election_timeout``."""
    election_timeout: Annotated[Duration, Field(ge=0.5, le=60)] = 1.0
    """Time without its leader after which another one may be elected, which takes up to twice that; in steps
    of 100 ms."""

    @property
    def majority(self) -> int:
        """Replicas without which nothing is acknowledged."""
        return self.replication_factor // 2 + 1


class RaftConfig(RaftGroupConfig):
    """Replication groups of queues."""

    sync_mode: Annotated[
        Literal["always"],
        BeforeValidator(_sync_mode),
        WithJsonSchema({"enum": ["always", True]}),
    ] = "always"
    """always: what is acknowledged is synced to the discs of a quorum. Nothing else is offered."""
    auto_provision_groups: bool = True
    """Make the group that a queue names and that is not in ``groups``, and end one that no queue is in and no
    configuration names; off: it is an error to name one."""
    groups: dict[QueueName, Annotated[RaftGroupConfig, Blank]] = Field(default_factory=dict)
    """Replication groups by name; ``default`` is always there."""

    @field_validator("groups")
    @classmethod
    def _filled(cls, groups: dict[str, RaftGroupConfig], info: ValidationInfo) -> dict[str, RaftGroupConfig]:
        """Have what a group does not say as it is for all, so that an export of it says so."""
        base = {key: info.data[key] for key in RaftGroupConfig.model_fields if key in info.data}
        filled = {}
        for name, group in groups.items():
            own = {key: getattr(group, key) for key in group.model_fields_set}
            filled[name] = RaftGroupConfig.model_construct(**(base | own))
        return filled


def groups_of(raft: RaftConfig, queues: Sequence[QueueDeclaration]) -> dict[str, RaftGroupConfig]:
    """Return the replication groups of a configuration.

    Raises PydanticCustomError where a queue names a group that there is not.
    """
    found: dict[str, RaftGroupConfig] = {DEFAULT_GROUP: raft} | raft.groups
    for queue in queues:
        group = queue.replication.group
        if group not in found and not raft.auto_provision_groups:
            raise PydanticCustomError(
                "wanted",
                "a section cluster.raft.groups.{group}, which queue {queue} names in replication.group, or "
                "cluster.raft.auto_provision_groups: true",
                {"group": group, "queue": queue.name},
            )
        found.setdefault(group, raft)
    return found


def group_conflicts(raft: RaftConfig) -> Iterator[ConfigProblem]:
    """Yield the settings of groups that are right one by one but not together."""
    named: Mapping[str, RaftGroupConfig] = {"cluster.raft": raft} | {
        f"cluster.raft.groups.{name}": group for name, group in raft.groups.items()
    }
    for key, group in named.items():
        least, most, factor = group.min_in_sync_replicas, group.replication_factor, group.majority
        if least is not None and not factor <= least <= most:
            yield ConfigProblem(
                f"{key}.min_in_sync_replicas",
                str(least),
                f"from {factor}, a majority of the {most} of replication_factor, to {most}",
            )
        if 2 * group.heartbeat > group.election_timeout:
            yield ConfigProblem(
                f"{key}.heartbeat",
                f"{group.heartbeat:g} s",
                f"at most half of {key}.election_timeout, {group.election_timeout:g} s",
            )
