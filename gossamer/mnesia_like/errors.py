"""Errors of tables and transactions, each on the branch that says whose fault it is.

::

    UsageError        NoSuchTableError TableExistsError BadTableError BadRowError BackupExistsError
                      TransactionAbortedError TransactionOverError
    PeerError         BadFrameError
    TransportError    DiscError: CorruptTablesError
    UnavailableError  TablesNotLoadedError DiscBehindError DiscProcessMissingError HistoryLostError
                      NoMajorityError TransactionTimeoutError TransactionRefusedError TransactionInDoubtError

Rule: after any of these the table is as it was before the call; except after the last one: the outcome of a
transaction in doubt is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.errors import PeerError, TransportError, UnavailableError, UsageError


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
    """An invalid definition, or a table of another kind than the call needs."""

    def __init__(self, table: str, *, option: str, got: object, expected: str) -> None:
        self.table = table
        self.option = option
        self.got = got
        self.expected = expected
        super().__init__(f"table {table!r}: {option} is {got!r}, expected {expected}")


class BadRowError(UsageError):
    """An unsupported or too large key or value. ``where``: ``key``, ``value``, or the path in it."""

    def __init__(self, table: str, *, where: str, got: str, expected: str) -> None:
        self.table = table
        self.where = where
        self.got = got
        self.expected = expected
        super().__init__(f"{where} for table {table!r}: got {got}; expected {expected}")


class BadFrameError(PeerError):
    """An invalid replication frame; it is dropped and its contents are requested again."""

    def __init__(self, peer: str, problem: str) -> None:
        self.peer = peer
        self.problem = problem
        super().__init__(f"replication frame from {peer!r}: {problem}; dropped")


class DiscError(TransportError):
    """The disc copy cannot be read or written; ``advice`` says what to do."""

    def __init__(self, path: str, *, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        super().__init__(f"disc copy {path}: {problem}; {advice}")


class CorruptTablesError(DiscError):
    """The file fails its checks; it is left as it is."""


class BackupExistsError(UsageError):
    """The backup's path names an existing file."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path} exists, and stays as it is; name a file that does not")


class TablesNotLoadedError(UnavailableError):
    """Some tables still lack rows of live peers; ``missing`` says which and how many."""

    def __init__(self, missing: Sequence[str], *, waited: float) -> None:
        self.missing = tuple(missing)
        self.waited = waited
        lines = "".join(f"\n  {line}" for line in self.missing)
        super().__init__(
            f"after {waited:g} s still loading:{lines}\n"
            "the tables can be used with what they hold; they complete when the peers answer"
        )


class NoMajorityError(UnavailableError):
    """A write to a table with ``majority=True`` where most of its nodes are unreachable."""

    def __init__(self, table: str, *, reachable: int, nodes: int) -> None:
        self.table = table
        self.reachable = reachable
        self.nodes = nodes
        super().__init__(
            f"table {table!r} needs a majority: {reachable} of its {nodes} nodes can be reached, expected at "
            f"least {nodes // 2 + 1}; write on the other side of the split, or wait until it heals"
        )


class HistoryLostError(UnavailableError):
    """A subscription asked for changes that the table no longer keeps, or never had."""

    def __init__(self, table: str, *, asked: int, oldest: int, newest: int) -> None:
        self.table = table
        self.asked = asked
        self.oldest = oldest
        self.newest = newest
        super().__init__(
            f"table {table!r} cannot go on after change {asked}, expected {oldest} to {newest}; subscribe "
            "with snapshot=True to get all rows, or create the table with a longer history"
        )


class DiscBehindError(UnavailableError):
    """More rows wait for the disc than the bound allows."""

    def __init__(self, waiting: int, bound: int) -> None:
        self.waiting = waiting
        self.bound = bound
        super().__init__(
            f"{waiting} rows wait to be written to disc, expected at most {bound}; write slower, or await "
            "durable() now and then"
        )


class DiscProcessMissingError(UnavailableError):
    """A table with a disc copy was requested while the store's disc process does not run."""

    def __init__(self, table: str, *, configured: bool) -> None:
        self.table = table
        self.configured = configured
        what = "start the store's child_spec() first" if configured else "make the store with disc=Disc(path)"
        super().__init__(f"table {table!r} keeps a disc copy and no disc process runs; {what}")


class TransactionAbortedError(UsageError):
    """The function called ``tx.abort(reason)``; nothing changed."""

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(f"the transaction was aborted by its own function: {reason!r}; nothing changed")


class TransactionOverError(UsageError):
    """Use of a ``tx`` after its transaction ended."""

    def __init__(self) -> None:
        super().__init__("this transaction has ended, expected use inside its function; begin another")


class TransactionTimeoutError(UnavailableError):
    """The transaction did not end in time; nothing changed, and its locks are free."""

    def __init__(self, *, waited: float, attempts: int, why: str) -> None:
        self.waited = waited
        self.attempts = attempts
        self.why = why
        super().__init__(
            f"the transaction did not end within {waited:g} s and {attempts} attempts ({why}), nothing "
            "changed; try again, touch fewer rows, or allow it more time"
        )


class TransactionRefusedError(UnavailableError):
    """A node that has a copy cannot write it; nothing changed."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the transaction was refused by {why}; nothing changed; mend that and try again")


class TransactionInDoubtError(UnavailableError):
    """This node lost its peers during the vote: they may have committed the transaction."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"the outcome of the transaction is not known here ({why}); read its rows once the nodes are "
            "connected again before you repeat it"
        )
