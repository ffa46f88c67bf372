"""Numbers of the gossip layer that no operator sets; those that one may are in
:class:`gossamer.config.GossipConfig`.
"""

from __future__ import annotations

import msgspec

from gossamer.errors import UsageError
from gossamer.gossip.member import MemberMetadata

__all__ = [
    "GOSSIP_TO_DEAD",
    "LAG_THRESHOLD",
    "MAX_FRAME",
    "MAX_MEMBERS",
    "MAX_METADATA",
    "STREAM_TIMEOUT",
    "MetadataTooLargeError",
    "check_metadata",
]

GOSSIP_TO_DEAD = 30.0
"""A down member still receives gossip for this many seconds, so that it can refute."""
LAG_THRESHOLD = 0.15
"""A timer that fires later than this says that this process, not its peers, is slow."""
STREAM_TIMEOUT = 3.0
MAX_FRAME = 8 * 1024 * 1024
"""Largest stream frame."""
MAX_MEMBERS = 10_000
MAX_METADATA = 512
"""Bytes, encoded. The smallest ``cluster.gossip.mtu`` has room for as much and a full member record."""


class MetadataTooLargeError(UsageError):
    """Metadata of a member that no packet has room for."""

    def __init__(self, *, got: int) -> None:
        self.got = got
        super().__init__(
            f"member metadata: got {got} bytes encoded, expected at most {MAX_METADATA}; "
            "name fewer services or ports"
        )


def check_metadata(metadata: MemberMetadata) -> None:
    """Raise MetadataTooLargeError where a packet has no room for ``metadata``."""
    size = len(msgspec.msgpack.encode(metadata))
    if size > MAX_METADATA:
        raise MetadataTooLargeError(got=size)
