"""Password files: lines ``user:hash`` with argon2 hashes, and the checking of passwords against them.

Behind the hash may stand the user's tenant, after a space.

argon2 takes tens of milliseconds and 64 MiB a check, on purpose: checks run in threads, few at once, and the
addresses that clients come from take turns (:mod:`gossamer.mqtt.auth.turns`).

Rules: 1. An unknown name takes as long as a known one.  2. A file is replaced whole, readable by its owner
alone.  3. More than :data:`BACKLOG` checks waiting, or :data:`BACKLOG_EACH` of one address, and the client
that waits longest is told that the server is busy.  4. A turn ends with its check, also if its client has
gone: threads have no queue of their own to fill.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gossamer.files import FileError
from gossamer.mqtt.auth.sources import Answer, Login, Verdict
from gossamer.mqtt.auth.turns import Turns
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.tenants import DEFAULT, InvalidTenantError, checked

T = TypeVar("T")

BACKLOG = 1000
BACKLOG_EACH = 250
THREADS = 2

_EXPECTED = "lines USER:HASH as gossamer passwd writes them"


def read_users(file: Path, parse: Callable[[str], T], *, why: str, expected: str) -> dict[str, T]:
    """Return what ``parse`` makes of each line ``USER:REST`` of a file, by user; it may raise ValueError.

    Raises:
        FileError: the file cannot be read, or a line is something else, for ``why``.
    """
    users: dict[str, T] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(file, error, expected=expected) from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.rpartition(":")
        try:
            if not name:
                raise ValueError
            users[name] = parse(rest.strip())
        except ValueError:
            raise FileError(file, why, expected=expected, line=number) from None
        except InvalidTenantError as error:
            raise FileError(file, error, expected=expected, line=number) from None
    return users


class UserFile(Generic[T]):
    """Users by name: of a file, which may change (see :mod:`gossamer.mqtt.auth.files`), or of a mapping."""

    def __init__(self, users: Mapping[str, T] | Path, read: Callable[[Path], dict[str, T]]) -> None:
        self._file = users if isinstance(users, Path) else None
        self._read_file = read
        self._users = read(users) if isinstance(users, Path) else dict(users)

    def files(self) -> Iterable[Path]:
        return () if self._file is None else (self._file,)

    def load(self) -> None:
        if self._file is not None:
            self._users = self._read_file(self._file)


def with_tenant(text: str) -> tuple[str, str | None]:
    """Return what stands in front of the first space of a line's rest, and the tenant behind it, if any.

    Raises:
        InvalidTenantError: that is no name of a tenant.
    """
    kept, space, tenant = text.partition(" ")
    return kept, (checked(tenant.strip(), "tenant") or DEFAULT) if space else None


def line_of(kept: str, tenant: str | None) -> str:
    """Return the rest of a line as :func:`with_tenant` reads it."""
    return kept if tenant is None else f"{kept} {tenant}"


def _hash(text: str) -> str:
    if not text.startswith("$argon2"):
        raise ValueError
    return line_of(*with_tenant(text))


def _read(file: Path) -> dict[str, str]:
    return read_users(file, _hash, why="no user name and argon2 hash", expected=_EXPECTED)


def set_password(file: Path, username: str, password: str | None, *, tenant: str | None = None) -> bool:
    """Set a user's password and perhaps tenant, or with None delete the user; whether the user was there.
    Blocks.

    Raises:
        FileError: the file, or the name, cannot be used.
        InvalidTenantError: ``tenant`` is no name of a tenant.
    """
    hashes = _read(file) if file.exists() else {}
    line = None
    if password is not None:
        kept = tenant_to_keep(tenant, hashes.get(username, ""))
        line = line_of(PasswordHasher().hash(password), kept)
    return rewrite(file, hashes, username, line)


def tenant_to_keep(tenant: str | None, line: str) -> str | None:
    """Return the tenant of a user whose password changes: the given one, or that of the ``line`` so far."""
    return with_tenant(line)[1] if tenant is None else checked(tenant, "tenant") or DEFAULT


def rewrite(file: Path, lines: dict[str, str], username: str, line: str | None) -> bool:
    """Write ``lines`` by user name, with ``line`` for one of them (None: without); return whether it was
    there.

    Raises:
        FileError: the file, or the name, cannot be used.
    """
    if not username or username.startswith("#") or any(c in username for c in "\r\n\0"):
        raise FileError(file, f"user name {username!r} does not fit on a line", expected=_EXPECTED)
    known = username in lines
    if line is None:
        lines.pop(username, None)
    else:
        lines[username] = line
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.writelines(f"{user}:{hashed}\n" for user, hashed in lines.items())
        Path(name).replace(file)
    except OSError as error:
        raise FileError(file, error, expected=_EXPECTED) from None
    return known


class PasswordFile(UserFile[str]):
    """A source of :mod:`gossamer.mqtt.auth.sources`: users and their hashes."""

    def __init__(self, users: Mapping[str, str] | Path) -> None:
        super().__init__(users, _read)
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="mqtt-passwords")
        self._hasher = PasswordHasher()
        self._nobody = self._hasher.hash("nobody")
        self._turns = Turns(THREADS, total=BACKLOG, each=BACKLOG_EACH)

    def ask(self, login: Login) -> Answer | Awaitable[Answer]:
        if login.username is None or login.password is None:
            return None
        return self._ask(login.username, login.password, login.host)

    async def _ask(self, username: str, password: bytes, host: str) -> Answer:
        if not await self._turns.take(host):
            return Verdict(ReasonCode.SERVER_BUSY, "password_file")
        line = self._users.get(username)
        known, tenant = (None, None) if line is None else with_tenant(line)
        loop = asyncio.get_running_loop()
        check = loop.run_in_executor(self._executor, self._verify, known, password)
        check.add_done_callback(lambda _check: self._turns.give())
        right = await asyncio.shield(check)
        if known is None:
            # Perhaps another source knows the name.
            return None
        reason = ReasonCode.SUCCESS if right else ReasonCode.BAD_USER_NAME_OR_PASSWORD
        return Verdict(reason, "password_file", username, tenant=tenant)

    def _verify(self, known: str | None, password: bytes) -> bool:
        try:
            return self._hasher.verify(known or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return False
