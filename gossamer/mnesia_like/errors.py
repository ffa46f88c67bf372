"""What can go wrong with a table, each on the branch that says whose fault it is.

::

    UsageError        NoSuchTableError TableExistsError BadTableError BadKeyError BadValueError NotOwnerError
    PeerError         BadFrameError
    TransportError    DiscError: DiscFullError DiscReadOnlyError DiscLockedError CorruptTablesError
    UnavailableError  TablesNotLoadedError

Rule: whoever gets one of these may be sure that the table is as it was before the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.errors import PeerError, TransportError, UnavailableError, UsageError

__all__ = [
    "BackupExistsError",
    "BadFrameError",
    "BadKeyError",
    "BadTableError",
    "BadValueError",
    "CorruptTablesError",
    "DiscError",
    "DiscFullError",
    "DiscLockedError",
    "DiscReadOnlyError",
    "NoSuchTableError",
    "NotOwnerError",
    "TableExistsError",
    "TablesNotLoadedError",
]


class NoSuchTableError(UsageError):
    """The table was never created on this node."""

    def __init__(self, table: str, known: Sequence[str]) -> None:
        self.table = table
        self.known = tuple(known)
        super().__init__(
            f"no table {table!r} on this node; it has: {', '.join(known) or 'none'}; create it first"
        )


class TableExistsError(UsageError):
    """A table of that name exists with another definition."""

    def __init__(self, table: str, *, existing: str, asked: str) -> None:
        self.table = table
        self.existing = existing
        self.asked = asked
        super().__init__(
            f"table {table!r} exists as {existing}, asked for {asked}; "
            "use the same definition or another name"
        )


class BadTableError(UsageError):
    """A definition that cannot be."""

    def __init__(self, table: str, *, option: str, got: object, expected: str) -> None:
        self.table = table
        self.option = option
        self.got = got
        self.expected = expected
        super().__init__(f"table {table!r}: {option} is {got!r}, expected {expected}")


class BadKeyError(UsageError):
    """A key of a wrong type or too large."""

    def __init__(self, table: str, *, got: str, expected: str) -> None:
        self.table = table
        self.got = got
        self.expected = expected
        super().__init__(f"key for table {table!r}: got {got}; expected {expected}")


class BadValueError(UsageError):
    """A value that is not plain data, or too large. ``where`` is the path inside it."""

    def __init__(self, table: str, *, where: str, got: str, expected: str) -> None:
        self.table = table
        self.where = where
        self.got = got
        self.expected = expected
        super().__init__(f"{where} for table {table!r}: got {got}; expected {expected}")


class NotOwnerError(UsageError):
    """Only a row's owner may change it."""

    def __init__(self, table: str, *, owner: str, node: str) -> None:
        self.table = table
        self.owner = owner
        self.node = node
        super().__init__(
            f"a row of {owner!r} in table {table!r} cannot be changed by {node!r}; "
            f"send the change to a process on {owner!r}"
        )


class BadFrameError(PeerError):
    """A replication frame that makes no sense; it is dropped and what it carried is asked for again."""

    def __init__(self, peer: str, problem: str) -> None:
        self.peer = peer
        self.problem = problem
        super().__init__(f"replication frame from {peer!r}: {problem}; dropped")


class DiscError(TransportError):
    """The disc copy cannot be read or written. ``advice`` says what to do."""

    def __init__(self, path: str, *, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        super().__init__(f"disc copy {path}: {problem}; {advice}")


class DiscFullError(DiscError):
    """No space is left; writes to disc tables are refused until there is."""


class DiscReadOnlyError(DiscError):
    """The file or its directory cannot be written."""


class DiscLockedError(DiscError):
    """Another process has the file open."""


class CorruptTablesError(DiscError):
    """The file fails its own checks; it is left as it is."""


class BackupExistsError(UsageError):
    """A backup was to be written over a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path} exists, and stays as it is; name a file that does not")


class TablesNotLoadedError(UnavailableError):
    """Some tables still miss rows of living peers; ``missing`` says of whom and how much."""

    def __init__(self, missing: Sequence[str], *, waited: float) -> None:
        self.missing = tuple(missing)
        self.waited = waited
        lines = "".join(f"\n  {line}" for line in self.missing)
        super().__init__(
            f"after {waited:g} s still loading:{lines}\n"
            "the tables can be used with what they hold; they complete when the peers answer"
        )
