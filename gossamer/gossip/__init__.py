"""Cluster membership by gossip."""

from swimprotocol.status import Status

from gossamer.gossip.keyring import KeyFile, KeyFileError, Keyring, KeyringError, cluster_key
from gossamer.gossip.member import (
    ForcedOut,
    LinkEvidence,
    LoopLag,
    Member,
    MemberAlive,
    MemberDown,
    MemberEvent,
    MemberLeft,
    MemberMetadata,
    MemberSuspect,
    MemberUp,
    MemberUpdated,
    MetadataTooLargeError,
    NameConflict,
    PartitionHint,
)
from gossamer.gossip.server import GossipServer
from gossamer.gossip.steps import ForceLeave, Join, JoinResult, Keys, Leave, UpdateMetadata
from gossamer.gossip.swim.hints import explain
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.transport import GossipAddressError, local_host
from gossamer.gossip.view import MembershipView
from gossamer.gossip.wire import PacketRejected

__all__ = [
    "ForceLeave",
    "ForcedOut",
    "GossipAddressError",
    "GossipServer",
    "Join",
    "JoinResult",
    "KeyFile",
    "KeyFileError",
    "Keyring",
    "KeyringError",
    "Keys",
    "Leave",
    "LinkEvidence",
    "LoopLag",
    "Member",
    "MemberAlive",
    "MemberDown",
    "MemberEvent",
    "MemberLeft",
    "MemberMetadata",
    "MemberSuspect",
    "MemberUp",
    "MemberUpdated",
    "MembershipView",
    "MetadataTooLargeError",
    "NameConflict",
    "PacketRejected",
    "PartitionHint",
    "Status",
    "Swim",
    "UpdateMetadata",
    "cluster_key",
    "explain",
    "local_host",
]
