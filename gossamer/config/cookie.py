"""The cookie: the secret that every node of a cluster shares, from the configuration or from a file.

As with Erlang's ``~/.erlang.cookie``: a node without a configured one reads it from its data directory, and
creates one there if it is the first. The file must belong to the node's user or
root, and be readable by nobody else.

Gossip keys are derived from it without stretching, so that whoever records a packet can test guesses as
fast as machines go. :func:`cookie_bits` therefore estimates from above how hard it is to guess; a node whose
cookie has fewer than :data:`ENOUGH_BITS` starts, and warns.
"""

from __future__ import annotations

import math
import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from gossamer.config.model import NodeConfig
from gossamer.errors import ConfigError, ConfigProblem

COOKIE_FILE = ".cookie"
ENOUGH_BITS = 96
"""Thirty-two random hexadecimal digits have more, and so have twenty-seven letters and digits."""


def cookie_bits(cookie: str) -> int:
    """Return how many random bits ``cookie`` has at most: its length by the variety of its characters."""
    return int(len(cookie) * math.log2(len(set(cookie)))) if cookie else 0


def cookie_of(node: NodeConfig) -> SecretStr:
    """The cookie of this node; reads or makes the file where the configuration names none (blocking).

    Raises:
        ConfigError: the file is empty, unreadable, or open to others.
    """
    if node.cookie is not None and node.cookie.get_secret_value():
        return node.cookie
    path = node.data_dir / COOKIE_FILE
    try:
        node.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_cookie(path, secrets.token_urlsafe(32))
    except FileExistsError:
        pass
    except OSError as error:
        raise _problem(path, error.strerror or "an error") from error
    return _read(path)


def write_cookie(path: Path, cookie: str) -> None:
    """Make the file, for its owner only. Raises FileExistsError rather than replace one."""
    # Written aside and linked into place, so that a reader never sees half of it.
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(cookie)
        os.link(aside, path)
    finally:
        aside.unlink()


def _read(path: Path) -> SecretStr:
    try:
        with path.open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            text = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _problem(path, getattr(error, "strerror", None) or "text that is not ASCII") from error
    if status.st_mode & 0o077:
        raise _problem(path, f"a file with mode {status.st_mode & 0o777:04o}")
    if status.st_uid not in (0, os.geteuid()):
        raise _problem(path, f"a file of another user (uid {status.st_uid})")
    if not text:
        raise _problem(path, "an empty file")
    return SecretStr(text)


def _problem(path: Path, got: str) -> ConfigError:
    expected = "a cookie in node.cookie, or this file, readable by its owner only (chmod 600)"
    return ConfigError(str(path), [ConfigProblem("node.cookie", got, expected)])
