"""Messages between members, and their encoding.

A packet's body is one msgpack array of messages; each message is an array that starts with its number.
Statements in the broadcast queue are kept encoded, and a packet is their concatenation after an array header,
so a statement is encoded once however often it is sent.

Rule: the decoder raises only :class:`PacketRejected`, whatever the bytes.
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
"""IP literal: a host name would make the receiver's loop wait for DNS."""
Sequence32 = Annotated[int, Meta(ge=0, lt=2**32)]


class PacketRejected(PeerError):  # noqa: N818 - named for what happened to the packet
    """Bytes from the network that are no packet of this cluster. ``reason`` is also the counter's name."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"gossip packet rejected ({reason})" + (f": {detail}" if detail else ""))


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Question whether the receiver is up, and still the instance ``target``."""

    sequence: Sequence32
    target: Id


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=2):
    sequence: Sequence32


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Helper's answer that it is up, but got no answer from the target."""

    sequence: Sequence32


class PingRequest(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Request to ping ``target`` for the sender."""

    sequence: Sequence32
    target: Id
    host: Host
    port: Port


class Mismatch(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Answer to a Ping for another instance: this process has its address now."""

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
    """Suspicion by ``by``, which got no answer; ``hard``: the host also refused a connection."""

    name: Name
    id: Id
    incarnation: Number
    by: Name
    hard: bool = False


class Dead(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Report by ``by`` that it is down, or with ``left`` has left; ``removed``: unless it refutes."""

    name: Name
    id: Id
    incarnation: Number
    by: Name
    left: bool = False
    removed: bool = False


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Row of a member's table.

    ``age``: seconds in ``state`` (0 alive, 1 suspect, 2 down, 3 left, 4 removed).
    """

    alive: Alive
    state: Annotated[int, Meta(ge=0, le=4)]
    age: Annotated[float, Meta(ge=0)]


class Sync(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Rows of a table, the sender's own first, and the hashes of the rows wanted in return.

    ``join`` wants all rows; ``reply`` answers either.
    """

    kind: Literal["join", "sync", "reply"]
    records: list[Record]
    wants: bytes = b""


class Compare(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Question whether the tables are equal, by the ``digest`` of all hashes."""

    me: Alive
    digest: Annotated[bytes, Meta(min_length=8, max_length=8)]


class RowHashes(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Eight bytes for each row; none if the tables are equal."""

    me: Alive
    hashes: bytes


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Refusal of an exchange. ``reason``: ``left``, ``name-taken``, ``full``."""

    reason: Annotated[str, Meta(max_length=64)]


Message = (
    Ping | Ack | Nack | PingRequest | Mismatch | Alive | Suspect | Dead | Sync | Refuse | Compare | RowHashes
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[Message])


def encode(message: Message) -> bytes:
    """Encode one message of a body."""
    return _encoder.encode(message)


def compound(parts: Sequence[bytes]) -> bytes:
    """Join encoded messages into a body, at most three bytes longer than they are."""
    count = len(parts)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return head + b"".join(parts)


def decode(body: bytes) -> list[Message]:
    """Decode the messages of a body.

    Raises:
        PacketRejected: the bytes are no body (reason ``malformed``).
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise PacketRejected("malformed", str(error)[:200]) from error
