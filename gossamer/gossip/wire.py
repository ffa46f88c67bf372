"""The words members say to each other, and their bytes.

A packet's body is one msgpack array of messages; each message is an array that starts with its number.
Statements that wait in the broadcast queue are kept encoded, and a packet is their concatenation behind an
array header, so a statement is encoded once however often it is sent.

Rule: the decoder raises :class:`PacketRejected` and nothing else, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.errors import PeerError
from gossamer.gossip.member import MemberMetadata, Name, Number, Port

Id = Annotated[str, Meta(min_length=16, max_length=16)]
Host = Annotated[
    str, Meta(max_length=64, pattern=r"^(\d{1,3}(\.\d{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*(%\w+)?)$")
]
"""An IP literal: a name would make the receiver's loop wait for DNS."""
Sequence32 = Annotated[int, Meta(ge=0, lt=2**32)]


class PacketRejected(PeerError):  # noqa: N818 - named for what happened to the packet
    """Bytes from the network that are no packet of this cluster. ``reason`` is a word that is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"gossip packet rejected ({reason})" + (f": {detail}" if detail else ""))


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Are you there, and are you still the life ``target``?"""

    sequence: Sequence32
    target: Id


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=2):
    sequence: Sequence32


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A helper's word that it works, but got no answer from the target."""

    sequence: Sequence32


class PingRequest(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Ping ``target`` for me."""

    sequence: Sequence32
    target: Id
    host: Host
    port: Port


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The life you ask for is not here; another process has its address."""

    sequence: Sequence32


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A member's own statement about itself."""

    name: Name
    id: Id
    host: Host
    port: Port
    incarnation: Number
    metadata: MemberMetadata


class Suspect(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """``by`` got no answer; ``hard`` when its host refused a connection as well."""

    name: Name
    id: Id
    incarnation: Number
    by: Name
    hard: bool = False


class Dead(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """``by`` declares it down, or, with ``left``, gone; ``removed``: unless it says that it lives."""

    name: Name
    id: Id
    incarnation: Number
    by: Name
    left: bool = False
    removed: bool = False


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One row of a member's table.

    ``age``: seconds in ``state`` (0 alive, 1 suspect, 2 down, 3 left, 4 removed).
    """

    alive: Alive
    state: Annotated[int, Meta(ge=0, le=4)]
    age: Annotated[float, Meta(ge=0)]


class Sync(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Rows of a table, the sender's own first, and the marks of the rows wanted in return.

    ``join`` wants what there is; ``reply`` answers either.
    """

    kind: Literal["join", "sync", "reply"]
    records: list[Record]
    wants: bytes = b""


class Compare(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Is your table like mine? ``digest`` is that of all marks together."""

    me: Alive
    digest: Annotated[bytes, Meta(min_length=8, max_length=8)]


class Marks(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Eight bytes for each row; none when the tables are alike."""

    me: Alive
    marks: bytes


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """No exchange. ``reason``: ``left``, ``name-taken``, ``full``."""

    reason: Annotated[str, Meta(max_length=64)]


Message = (
    Ping | Ack | Nack | PingRequest | Stranger | Alive | Suspect | Dead | Sync | Refuse | Compare | Marks
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[Message])


def encode(message: Message) -> bytes:
    """One message, as it stands in a body."""
    return _encoder.encode(message)


def compound(parts: Sequence[bytes]) -> bytes:
    """A body out of encoded messages; at most three bytes longer than they are."""
    count = len(parts)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return head + b"".join(parts)


def decode(body: bytes) -> list[Message]:
    """The messages of a body.

    Raises:
        PacketRejected: the bytes are no body (reason ``malformed``).
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise PacketRejected("malformed", str(error)[:200]) from error
