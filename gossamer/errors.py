"""The one error tree: the branch says whose fault an error is, and so what a caller can do about it.

::

    GossamerError
    ├── UsageError        the caller's mistake: correct the call, the file or the packet
    │   ├── ConfigError   a key of the configuration is missing, unknown or wrong
    │   ├── NotFoundError   nothing has the name or identifier that was given
    │   └── WrongValueError  a value that cannot be right, whatever the state of things is
    ├── PeerError         the other side broke a protocol or may not do this: drop it, inform its operator
    ├── TransportError    bytes stopped flowing: reconnect and retry
    └── UnavailableError  correct, but not possible right now: wait, or ask another node

Rules: 1. Every error of the project descends from one of the four branches; leaves live beside the code
that raises them.  2. An error carries structured fields and builds its own message out of them: what was
expected, what came, where, and what to do next.  3. No field ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra; no index has gossamer, so it names the wheel or the sources."""
    return f"pip install 'PATH[{extra}]', where PATH is gossamer's wheel or source directory"


class GossamerError(Exception):
    """Whatever gossamer raises on purpose."""


class UsageError(GossamerError):
    """The caller's mistake; trying again without a change fails again."""


class NotFoundError(UsageError):
    """Nothing has the given name or identifier."""


class WrongValueError(UsageError):
    """A value that cannot be right, whatever there is in the cluster: its form is wrong, or its range."""


class PeerError(GossamerError):
    """The other side broke a protocol, or may not do what it tried."""


class TransportError(GossamerError):
    """A connection, a socket or a disc stopped carrying bytes."""


class UnavailableError(GossamerError):
    """A correct request that cannot be served now."""


Wrong = TypeVar("Wrong", bound=UsageError)


def mismatch(kind: type[Wrong], key: str, got: str, expected: str) -> Wrong:
    """Build the error of one value, ``key``, that is not what was expected."""
    return kind(f"{key}: got {got}, expected {expected}")


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Wrong key: its place, its value, and the expected one."""

    key: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"{self.key}: got {self.got}; expected {self.expected}"


class ConfigError(UsageError):
    """The configuration cannot be used; names every problem at once."""

    def __init__(self, source: str, problems: Sequence[ConfigProblem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{source}: {count}{lines}")
