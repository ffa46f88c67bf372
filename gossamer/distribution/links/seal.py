"""Encryption and authentication of the messages of one channel, from the Proof of its handshake on.

Each side draws an X25519 key for this channel alone. From the shared secret of the two keys, the cookie, and
the messages before, both derive an AES-256-GCM key for each direction. This is pattern NNpsk0 of the Noise
protocol framework (revision 34, section 9.4), except for the Hello, which is readable. A recorded channel
stays secret if the cookie leaks later. An attacker between two nodes can end a channel, but cannot read,
change, repeat, reorder or add messages.

Nonces count the messages of a direction, so that both sides know them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import count

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gossamer.distribution.wire import KEY_SIZE

BrokenSeal = InvalidTag
"""Raised for a message that the other side of the channel has not sealed, or not as its next one."""


class Seal:
    """Seal of one side of a channel.

    On the path of every frame :meth:`close` and :meth:`open` are inlined: a short message is sealed in half a
    microsecond, without a Python call.
    """

    __slots__ = ("decrypt", "encrypt", "received", "sent")

    def __init__(self, outward: bytes, inward: bytes) -> None:
        self.encrypt = AESGCM(outward).encrypt
        self.decrypt = AESGCM(inward).decrypt
        self.sent, self.received = _nonces(), _nonces()
        """Next nonces, of 12 bytes."""

    def close(self, message: bytes) -> bytes:
        """Return ``message`` sealed, which makes it 16 bytes longer."""
        return self.encrypt(next(self.sent), message, None)

    def open(self, message: bytes) -> bytes:
        """Return the next message of the other side. Raises BrokenSeal if it is not authentic."""
        return self.decrypt(next(self.received), message, None)


class ChannelKey:
    """This side's key of one channel; ``random`` are 32 fresh bytes, which are kept secret."""

    def __init__(self, random: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(random)
        self.public = self._private.public_key().public_bytes_raw()
        """Public key, sent to the other side."""

    def seals(self, public: bytes, cookie_key: bytes, *said: bytes) -> tuple[Seal, Seal]:
        """Return the seal of the calling and of the called side, given the other's ``public`` key.

        ``said`` is what both sides must agree on. Raises ValueError where ``public`` makes no secret.
        """
        transcript = hashlib.sha256()
        for part in said:
            transcript.update(len(part).to_bytes(4, "big"))
            transcript.update(part)
        secret = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        derived = HKDF(SHA256(), 2 * KEY_SIZE, salt=cookie_key, info=transcript.digest()).derive(secret)
        there, back = derived[:KEY_SIZE], derived[KEY_SIZE:]
        return Seal(there, back), Seal(back, there)


def _nonces() -> Iterator[bytes]:
    return map(partial(int.to_bytes, length=12, byteorder="big"), count())
