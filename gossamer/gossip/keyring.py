"""Envelope of every packet: cluster, authenticated sender and recipient, and replay protection.

::

    magic 2 | mode 1 | key 4 | env 4 | sender 8 | recipient 8 | number 8 | sent at 4 | body | tag 16

The mode is 2: AES-256-GCM, which authenticates the header too.

Rules: 1. AES keys are derived per sender, and the nonce is the sender's packet number, so a nonce repeats
only if two processes draw the same random 64-bit id.  2. Every installed key opens, the primary one seals:
install everywhere, use, remove, and no packet is lost meanwhile.  3. A packet number is admitted once per
sender. An unknown sender must have sent within ten minutes of this node's wall clock, so that a recorded
packet cannot be replayed to a node that has just started.  4. No key appears in any message.  5. A packet
opens for its recipient only: it cannot be forwarded to another node, whose answer would then pass for the
recipient's. A question is for the address it is sent to, which is all that is known of a seed, and where a
successor may have to answer for a dead instance. An answer is for the instance that asked, on a stream also
for its question: where questions seem to come from may be an address that their sender does not know of.

Rejected: swim-protocol's ``Signatures``: one key only, 48 bytes of overhead, no replay protection; a mode
that signs and does not encrypt, which is slower.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import struct
from collections import OrderedDict
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gossamer.errors import TransportError, UsageError
from gossamer.files import replace_file
from gossamer.gossip.wire import PacketRejected
from gossamer.network import Address

_MAGIC = b"g2"
_HEAD = struct.Struct(">2sB4s4s8s8sQI")
_TAG = 16
OVERHEAD = _HEAD.size + _TAG
"""Bytes that an envelope adds to a body."""

_AES_GCM = 2
_CIPHERS = 4096
_RECIPIENTS = 4096


def cluster_key(cookie: str) -> bytes:
    """Derive the gossip key of a cookie. It is as strong as the cookie: use a long random one."""
    return hmac.digest(b"gossamer gossip key", cookie.encode(), "sha256")


@lru_cache(maxsize=_RECIPIENTS)
def at_address(address: Address) -> bytes:
    """Return the recipient "the process at an IP address and port", however the address is written.

    Raises:
        ValueError: it is no IP address.
    """
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    return _recipient(f"address {getattr(ip, 'ipv4_mapped', None) or ip} {address[1]}")


@lru_cache(maxsize=_RECIPIENTS)
def instance(member_id: str) -> bytes:
    """Return the recipient "the instance of this id"."""
    return _recipient(f"instance {member_id}")


def answer_to(member_id: str, number: int) -> bytes:
    """Return the recipient "the instance of this id, for its packet ``number`` on a stream"."""
    return _recipient(f"answer {member_id} {number}")


def _recipient(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


class KeyringError(UsageError):
    """A change to the keyring that is invalid or would lose packets."""

    def __init__(self, action: str, key_id: str, problem: str) -> None:
        self.action = action
        self.key_id = key_id
        super().__init__(f"keys {action} {key_id}: {problem}")


class _Key(NamedTuple):
    """Cluster key, and the key derived from it that seals packets."""

    secret: bytes
    packets: bytes


@dataclass(frozen=True, slots=True)
class Opened:
    """Authenticated packet."""

    sender: str
    number: int
    sent_at: int
    body: bytes


class Keyring:
    """Seals and opens packets of one ``env``. The first key is the primary one."""

    def __init__(self, keys: Sequence[bytes], *, env: str) -> None:
        self._env = hmac.digest(b"gossamer env", env.encode(), "sha256")[:4]
        self.replace(keys)

    def copy(self) -> Keyring:
        """Return a copy with the same keys, to try a change on."""
        same = copy(self)
        same.replace(self.keys())
        return same

    def keys(self) -> list[bytes]:
        """Return the secret keys, the primary one first, only for storing them."""
        return [key.secret for key in self._keys.values()]

    def replace(self, keys: Sequence[bytes]) -> None:
        """Replace all keys; the first is the primary one."""
        if not keys:
            raise KeyringError("install", "-", "a keyring needs at least one key; give the cluster a cookie")
        self._keys: dict[bytes, _Key] = {}
        self._ciphers: OrderedDict[tuple[bytes, bytes], AESGCM] = OrderedDict()
        for key in keys:
            self.install(key)

    def key_ids(self) -> list[str]:
        """Return the names of the installed keys, the primary first. A name does not reveal its key."""
        return [key_id.hex() for key_id in self._keys]

    def install(self, key: bytes) -> str:
        """Accept packets sealed with ``key``; return its name."""
        key_id = hmac.digest(key, b"gossamer key id", "sha256")[:4]
        self._keys[key_id] = _Key(key, hmac.digest(key, b"gossamer packets", "sha256"))
        return key_id.hex()

    def use(self, key_id: str) -> None:
        """Seal with this key from now on."""
        known = self._known("use", key_id)
        self._keys = {known: self._keys[known], **self._keys}

    def remove(self, key_id: str) -> None:
        """Reject packets sealed with this key from now on."""
        known = self._known("remove", key_id)
        if known == next(iter(self._keys)):
            raise KeyringError("remove", key_id, "it is the key in use; use another one first")
        del self._keys[known]
        self._ciphers.clear()

    def seal(self, sender: str, number: int, sent_at: float, body: bytes, *, to: bytes) -> bytes:
        """Seal a packet for one recipient; ``number`` must never repeat for the id ``sender``."""
        origin, key_id = bytes.fromhex(sender), next(iter(self._keys))
        when = int(sent_at) & 0xFFFFFFFF
        head = _HEAD.pack(_MAGIC, _AES_GCM, key_id, self._env, origin, to, number, when)
        return head + self._cipher(key_id, origin).encrypt(number.to_bytes(12, "big"), body, head)

    def open(self, packet: bytes, *, own: Collection[bytes]) -> Opened:
        """Authenticate and open a packet for one of the recipients that this node is.

        Raises:
            PacketRejected: ``malformed``, ``version``, ``foreign-env``, ``unknown-key``, ``forged`` or
                ``misdirected``.
        """
        if len(packet) < OVERHEAD:
            raise PacketRejected("malformed", f"{len(packet)} bytes, expected at least {OVERHEAD}")
        magic, mode, key_id, env, origin, to, number, sent_at = _HEAD.unpack_from(packet)
        if magic != _MAGIC or mode != _AES_GCM:
            raise PacketRejected("version", "not a packet of this protocol")
        if env != self._env:
            raise PacketRejected("foreign-env", "a node of another env reaches this one")
        if key_id not in self._keys:
            raise PacketRejected("unknown-key", f"key {key_id.hex()} is not installed here")
        try:
            body = self._cipher(key_id, origin).decrypt(
                number.to_bytes(12, "big"), packet[_HEAD.size :], packet[: _HEAD.size]
            )
        except InvalidTag:
            raise PacketRejected("forged", "the seal does not match") from None
        if to not in own:
            raise PacketRejected(
                "misdirected",
                "sealed for another address or node; name seeds by an address of the node itself, not of a "
                "proxy or of address translation before it",
            )
        return Opened(origin.hex(), number, sent_at, body)

    def _cipher(self, key_id: bytes, origin: bytes) -> AESGCM:
        found = self._ciphers.get((key_id, origin))
        if found is None:
            found = AESGCM(hmac.digest(self._keys[key_id].packets, origin, "sha256"))
            self._ciphers[key_id, origin] = found
            if len(self._ciphers) > _CIPHERS:
                self._ciphers.popitem(last=False)
        return found

    def _known(self, action: str, key_id: str) -> bytes:
        for known in self._keys:
            if known.hex() == key_id:
                return known
        raise KeyringError(
            action, key_id, f"not installed; installed are {', '.join(self.key_ids())}. Install it first"
        )


class ReplayGuard:
    """Admits each packet number of a sender once; reordering is allowed within a window."""

    def __init__(self, *, window: int = 1024, horizon: float = 600.0, senders: int = 16_384) -> None:
        self._window = window
        self._mask = (1 << window) - 1
        self._horizon = horizon
        self._limit = senders
        self._seen: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def admit(self, packet: Opened, wall: float) -> None:
        """Record an authenticated packet.

        Raises:
            PacketRejected: ``replayed``, or ``stale`` for an unknown sender whose clock is far from ours.
        """
        known = self._seen.get(packet.sender)
        if known is None:
            if abs(packet.sent_at - wall) > self._horizon:
                raise PacketRejected(
                    "stale",
                    f"sent {wall - packet.sent_at:.0f} s before now by this node's clock, expected within "
                    f"{self._horizon:.0f} s; check time synchronisation on both nodes",
                )
            self._seen[packet.sender] = (packet.number, 1)
            if len(self._seen) > self._limit:
                self._seen.popitem(last=False)
            return
        highest, bits = known
        ahead = packet.number - highest
        if ahead > 0:
            bits = 1 if ahead >= self._window else ((bits << ahead) | 1) & self._mask
            self._seen[packet.sender] = (packet.number, bits)
        elif -ahead >= self._window or bits >> -ahead & 1:
            raise PacketRejected("replayed", f"number {packet.number} of {packet.sender} again")
        else:
            self._seen[packet.sender] = (highest, bits | 1 << -ahead)


_FILE_VERSION = 1
_LARGEST_FILE = 64 * 1024


class KeyFileError(TransportError):
    """The gossip keys cannot be read or stored. The message never shows the file's content."""

    def __init__(self, *, path: Path, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"gossip keys {path}: {problem}; {advice}")


class KeyFile:
    """File in the data directory that stores the keys across restarts. It blocks: use a thread.

    Rules: 1. There is no file until the keys are changed; before that the key is derived from the cookie.
    Afterwards only the file counts, so that a removed key does not come back with the cookie.  2. A change is
    on disc before it takes effect: a node that dies during a rotation comes back with all keys that it
    confirmed.  3. The file is replaced atomically. If it is damaged, or readable by others, the node does not
    start: with wrong keys it would be cut off silently.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[bytes]:
        """Load the keys, the one in use first; empty if the keys were never changed.

        Raises:
            KeyFileError: the file is damaged, unreadable, or readable by others.
        """
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                text = file.read(_LARGEST_FILE)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(f"cannot be read ({error.strerror or error})") from error
        if mode & 0o077:
            raise self._unusable(f"got a file with mode {mode:04o}, expected one for its owner only (0600)")
        try:
            kept = json.loads(text)
            keys = [bytes.fromhex(key) for key in kept["keys"]]
        except (ValueError, KeyError, TypeError):
            # Without the cause, whose message would show the text.
            raise self._unusable("the file is damaged") from None
        if kept.get("version") != _FILE_VERSION or not keys:
            raise self._unusable(f"expected version {_FILE_VERSION} with at least one key")
        return keys

    def save(self, keys: Sequence[bytes]) -> None:
        """Store the keys; return once they would survive a crash.

        Raises:
            KeyFileError: they cannot be stored; the previous ones are still there.
        """
        content = json.dumps({"version": _FILE_VERSION, "keys": [key.hex() for key in keys]}).encode()
        try:
            replace_file(self.path, content)
        except OSError as error:
            raise KeyFileError(
                path=self.path,
                problem=f"cannot be written ({error.strerror or error})",
                advice="the keys of this node are as they were; make room in its data directory, try again",
            ) from error

    def _unusable(self, problem: str) -> KeyFileError:
        advice = "put it right, or remove it to begin with the key that belongs to node.cookie"
        return KeyFileError(path=self.path, problem=problem, advice=advice)
