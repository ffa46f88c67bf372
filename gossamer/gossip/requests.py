"""What other processes say to the gossip server.

A caller's mistake (metadata too large, an unknown key) comes back as the answer: a ``UsageError``, not
raised.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gossamer.gossip.member import MemberMetadata
from gossamer.network import Address

__all__ = ["ForceLeave", "Join", "Keys", "Leave", "UpdateMetadata"]


class Join(Struct, frozen=True):
    """Call: exchange tables with these addresses. Answered with a :class:`~gossamer.gossip.JoinResult`."""

    addresses: tuple[Address, ...]


class Leave(Struct, frozen=True):
    """Call: tell everybody and be alone. Answered with None when it has spread.

    ``returning``: stopped, and expected back: the others hold it for down, not for gone.
    """

    returning: bool = False


class ForceLeave(Struct, frozen=True):
    """Call: remove a member for good. Answered with False where no such member is known.

    ``final`` False: only where it is down, and until it says that it lives.
    """

    name: str
    final: bool = True


class UpdateMetadata(Struct, frozen=True):
    """Call: say something new about this node. Answered with None, or the error."""

    metadata: MemberMetadata


class Keys(Struct, frozen=True):
    """Call: change the keyring of this node. Answered with the names of its keys, the one in use first, or
    with the error.

    ``key`` is 16 bytes or more for ``install``, and a key's name for ``use`` and ``remove``. Rotate without
    downtime: install everywhere, use everywhere, remove everywhere.
    """

    action: Literal["list", "install", "use", "remove"]
    key: bytes | str = ""
