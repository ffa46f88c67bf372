"""State machine of the simulation: texts by key, with each client's last request, so that none counts twice.

Its snapshots carry a checksum and what its copy is, so that parts of two copies' snapshots make none.
"""

from __future__ import annotations

import hashlib
from random import Random

import msgspec

from gossamer.raft import DamagedLogError, Entry, Kind
from gossamer.testing.raft.linearizability import Op, step


class Command(msgspec.Struct, frozen=True, array_like=True):
    """Request of a client; the same ``sequence`` again is the same request."""

    client: int
    sequence: int
    op: Op
    key: str
    value: str = ""
    expected: str = ""


class _Image(msgspec.Struct, array_like=True):
    applied: int
    chain: bytes
    values: dict[str, str]
    last: dict[int, tuple[int, str]]
    padding: bytes


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Command).decode
_image = msgspec.msgpack.Decoder(_Image).decode


class Machine:
    """The state up to the entry ``applied``; ``chain`` is a digest of all entries up to there."""

    def __init__(self) -> None:
        self.applied = 0
        self.chain = b""
        self.values: dict[str, str] = {}
        self.last: dict[int, tuple[int, str]] = {}

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        self.applied = entry.index
        head = f"{entry.index} {entry.term} {entry.kind} ".encode()
        self.chain = hashlib.blake2b(self.chain + head + entry.data, digest_size=16).digest()
        if entry.kind is not Kind.DATA or not entry.data:
            return
        command = decode(entry.data)
        if self.last.get(command.client, (0, ""))[0] < command.sequence:
            before = self.values.get(command.key, "")
            after = step(before, command.op, command.value, command.expected)
            self.values[command.key] = after
            self.last[command.client] = command.sequence, after

    def snapshot(self, rng: Random) -> bytes:
        """Return everything; two copies' snapshots of one state differ."""
        padding = rng.randbytes(rng.randrange(3000))
        image = _Image(self.applied, self.chain, self.values, self.last, padding)
        body = msgspec.msgpack.encode(image)
        return hashlib.blake2b(body, digest_size=16).digest() + body

    @classmethod
    def restored(cls, data: bytes, where: str) -> Machine:
        """Return the machine of a snapshot.

        Raises:
            DamagedLogError: it is not one.
        """
        if hashlib.blake2b(data[16:], digest_size=16).digest() != data[:16]:
            raise DamagedLogError(where, got="another checksum", expected="the snapshot that was stored")
        image = _image(data[16:])
        machine = cls()
        machine.applied, machine.chain = image.applied, image.chain
        machine.values, machine.last = image.values, image.last
        return machine
