"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows a password without sending it.

What the server keeps of a password is salted and hashed in a way that lets it check a proof but not make one.
:class:`Credential` is that, on one line of a file that ``gossamer passwd --scram`` writes; :class:`Scram` is
the method, :func:`credential_of` and :func:`client_proof` are the arithmetic, which clients need too.

Rules: 1. An unknown name goes the same way to the end as a known one, with a salt of its own that is always
the same, on all nodes and after a restart: it is made from their cookie.  2. Channel binding is not offered,
so a client that asks for it is refused, and so is one that wants to act as somebody else.  3. A message that
is not SCRAM is a refusal like any other.

Rejected: checking against the argon2 hashes of the password file, which only the password itself opens.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gossamer.errors import PeerError, UsageError
from gossamer.mqtt.auth.passwords import UserFile, line_of, read_users, rewrite, tenant_to_keep, with_tenant
from gossamer.mqtt.auth.sources import Challenge, Done, Login, Step, Verdict
from gossamer.mqtt.codec.reasons import ReasonCode

NAME = "SCRAM-SHA-256"
ITERATIONS = 16_384
"""RFC 7677 asks for 4096 at least; clients do this work once a connection."""
LONGEST = 4096
"""Bytes of one message of a client."""
_EXPECTED = "lines USER:CREDENTIAL as gossamer passwd --scram writes them"
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class Credential(msgspec.Struct, frozen=True):
    """Stored form of one password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    tenant: str | None = None

    def __repr__(self) -> str:  # enough to try passwords against
        return f"Credential(iterations={self.iterations})"

    def line(self) -> str:
        """As it stands in a file."""
        fields = (base64.b64encode(x).decode() for x in (self.salt, self.stored_key, self.server_key))
        return line_of(f"{NAME}${self.iterations}$" + "$".join(fields), self.tenant)

    @classmethod
    def parse(cls, text: str) -> Credential:
        """From a file; ValueError where it is something else, InvalidTenantError for the tenant behind it."""
        text, tenant = with_tenant(text.strip())
        name, iterations, *fields = text.split("$")
        salt, stored, server = (base64.b64decode(field, validate=True) for field in fields)
        if name != NAME or int(iterations) < 1 or len(stored) != 32 or len(server) != 32:
            raise ValueError("not a SCRAM-SHA-256 credential")
        return cls(int(iterations), salt, stored, server, tenant)


def saslprep(text: str) -> str:
    """RFC 4013: strings that look the same are the same. ValueError where one is not allowed."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in text if not stringprep.in_table_b1(c))
    found = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(c) for c in found for prohibited in _PROHIBITED):
        raise ValueError("it holds a character that names and passwords may not have")
    if any(map(stringprep.in_table_d1, found)) and (
        any(map(stringprep.in_table_d2, found))
        or not (stringprep.in_table_d1(found[0]) and stringprep.in_table_d1(found[-1]))
    ):
        raise ValueError("it mixes directions of writing")
    return found


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _salted(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)


def credential_of(password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> Credential:
    """Return the stored form of ``password``. Takes milliseconds."""
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = _salted(password, salt, iterations)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return Credential(iterations, salt, stored, _hmac(salted, b"Server Key"))


def client_proof(password: str, salt: bytes, iterations: int, auth_message: bytes) -> tuple[bytes, bytes]:
    """A client's proof, and the server's signature that it is to expect. Takes milliseconds."""
    salted = _salted(password, salt, iterations)
    key = _hmac(salted, b"Client Key")
    signature = _hmac(hashlib.sha256(key).digest(), auth_message)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return proof, _hmac(_hmac(salted, b"Server Key"), auth_message)


class Scram(UserFile[Credential]):
    """The users of a file, or of a mapping, as a :class:`~gossamer.mqtt.auth.sources.Method`."""

    name = NAME

    def __init__(
        self,
        users: Mapping[str, Credential] | Path,
        *,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
        cookie: str | None = None,
    ) -> None:
        """``cookie``: of the cluster; None: salts of unknown names change with each start."""
        super().__init__(users, _read)
        self.nonce = nonce
        material = secrets.token_bytes(32) if cookie is None else cookie.encode()
        self._salt_key = HKDF(SHA256(), 32, salt=None, info=b"gossamer SCRAM salts").derive(material)

    def begin(self, login: Login) -> _Exchange:
        return _Exchange(self, login)

    def find(self, username: str) -> tuple[Credential, bool]:
        """A user's credential, or one that nothing fits."""
        known = self._users.get(username)
        if known is not None:
            return known, True
        made = _hmac(self._salt_key, username.encode())
        return Credential(ITERATIONS, made[:16], made, made), False


class _RefusedError(PeerError):
    """Not SCRAM, or not as it is offered here."""

    def __init__(self) -> None:
        super().__init__("not a SCRAM-SHA-256 message; expected one of RFC 5802, without channel binding")


class _Exchange:
    """First message, challenge, proof, signature."""

    def __init__(self, method: Scram, login: Login) -> None:
        self._method = method
        self._login = login
        self._username = ""
        self._credential: Credential | None = None
        self._known = False
        self._gs2 = b""
        self._first = b""
        self._challenge = b""
        self._nonce = b""

    def step(self, data: bytes | None) -> Step:
        if data is None and self._credential is None:
            # It is the client's to begin; it did not in CONNECT.
            return Challenge(b"")
        try:
            if data is None or len(data) > LONGEST:
                raise _RefusedError
            return self._begin(data) if self._credential is None else self._finish(data, self._credential)
        except (_RefusedError, ValueError):  # ValueError: not UTF-8, not base64, not a name
            return self._refused()

    def _begin(self, data: bytes) -> Step:
        flag, _, rest = data.partition(b",")
        authzid, _, bare = rest.partition(b",")
        # "p=": a binding to the channel, which is not offered. "y": the client would, and believes us.
        if flag not in (b"n", b"y"):
            raise _RefusedError
        fields = bare.split(b",")
        # A first field "m=" is an extension that must be understood.
        if len(fields) < 2 or not fields[0].startswith(b"n=") or not fields[1].startswith(b"r="):
            raise _RefusedError
        self._username = saslprep(_saslname(fields[0][2:]))
        if not self._username or (authzid and authzid != b"a=" + fields[0][2:]):
            raise _RefusedError
        nonce = fields[1][2:]
        if not nonce or any(not 0x21 <= byte <= 0x7E for byte in nonce):
            raise _RefusedError
        self._gs2 = data[: len(flag) + len(authzid) + 2]
        self._first = bare
        self._credential, self._known = self._method.find(self._username)
        self._nonce = nonce + self._method.nonce().encode()
        salt = base64.b64encode(self._credential.salt)
        self._challenge = b"r=%s,s=%s,i=%d" % (self._nonce, salt, self._credential.iterations)
        return Challenge(self._challenge)

    def _finish(self, data: bytes, credential: Credential) -> Step:
        without, found, encoded = data.rpartition(b",p=")
        fields = without.split(b",")
        if not found or len(fields) < 2 or fields[0] != b"c=" + base64.b64encode(self._gs2):
            raise _RefusedError
        if fields[1] != b"r=" + self._nonce:
            raise _RefusedError
        proof = base64.b64decode(encoded, validate=True)
        message = b",".join((self._first, self._challenge, without))
        signature = _hmac(credential.stored_key, message)
        if len(proof) != len(signature):
            raise _RefusedError
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(key).digest(), credential.stored_key)
        if not (right and self._known) or (self._login.username or self._username) != self._username:
            raise _RefusedError
        verdict = Verdict(ReasonCode.SUCCESS, NAME, self._username, tenant=credential.tenant)
        return Done(verdict, b"v=" + base64.b64encode(_hmac(credential.server_key, message)))

    def _refused(self) -> Done:
        return Done(Verdict(ReasonCode.NOT_AUTHORIZED, NAME, self._username or None))


def _saslname(raw: bytes) -> str:
    """A user name, in which ``,`` and ``=`` are written as =2C and =3D."""
    parts = raw.decode().split("=")
    out = parts[0]
    for part in parts[1:]:
        if part[:2] not in ("2C", "3D"):
            raise _RefusedError
        out += ("," if part[:2] == "2C" else "=") + part[2:]
    return out


def _read(file: Path) -> dict[str, Credential]:
    why = "no user name and SCRAM-SHA-256 credential"
    return read_users(file, Credential.parse, why=why, expected=_EXPECTED)


class BadPasswordError(UsageError):
    """A password, or a user name, that SCRAM does not allow."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}; expected printable characters (RFC 4013): choose another one")


def set_scram_password(file: Path, username: str, password: str | None, *, tenant: str | None = None) -> bool:
    """Set a user's password and perhaps tenant, or with None delete the user; whether the user was there.
    Blocks.

    Raises:
        FileError: the file, or the name, cannot be used.
        BadPasswordError: the password, or the name, cannot be used.
        InvalidTenantError: ``tenant`` is no name of a tenant.
    """
    lines = {user: credential.line() for user, credential in _read(file).items()} if file.exists() else {}
    what = "user name"
    try:
        username = saslprep(username)
        what = "password"
        made = None if password is None else credential_of(password).line()
    except ValueError as error:
        raise BadPasswordError(what, str(error)) from None
    if made is not None:
        made = line_of(made, tenant_to_keep(tenant, lines.get(username, "")))
    return rewrite(file, lines, username, made)
