"""The underlay: who is in the cluster, told by gossip."""

from gossamer.gossip.keyring import Keyring, KeyringError, cluster_key
from gossamer.gossip.member import (
    ForcedOut,
    LinkEvidence,
    Member,
    MemberAlive,
    MemberDown,
    MemberEvent,
    MemberLeft,
    MemberMetadata,
    MemberSuspect,
    MemberUp,
    MemberUpdated,
    NameConflict,
    PartitionHint,
    Status,
)
from gossamer.gossip.settings import GossipSettings, InvalidSettingError
from gossamer.gossip.steps import JoinResult
from gossamer.gossip.swim import Swim
from gossamer.gossip.wire import PacketRejected

__all__ = [
    "ForcedOut",
    "GossipSettings",
    "InvalidSettingError",
    "JoinResult",
    "Keyring",
    "KeyringError",
    "LinkEvidence",
    "Member",
    "MemberAlive",
    "MemberDown",
    "MemberEvent",
    "MemberLeft",
    "MemberMetadata",
    "MemberSuspect",
    "MemberUp",
    "MemberUpdated",
    "NameConflict",
    "PacketRejected",
    "PartitionHint",
    "Status",
    "Swim",
    "cluster_key",
]
