"""What can go wrong with a table or a transaction, each on the branch that says whose fault it is.

::

    UsageError        NoSuchTableError TableExistsError BadTableError BadKeyError BadValueError
                      NotOrderedError BackupExistsError NotInSchemaError SchemaWriteError
                      TransactionAbortedError TransactionOverError TransactionTooLargeError
                      NotTransactionalError
    PeerError         BadFrameError
    TransportError    DiscError: DiscFullError DiscReadOnlyError DiscLockedError CorruptTablesError
    UnavailableError  TablesNotLoadedError DiscBehindError DiscProcessMissingError HistoryLostError
                      NoMajorityError TransactionTimeoutError TransactionRefusedError TransactionInDoubtError

Rule: whoever gets one of these may be sure that the table is as it was before the call; all but the last: of
a transaction in doubt nobody here can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gossamer.errors import PeerError, TransportError, UnavailableError, UsageError

MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
"""What one transaction may write."""


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


class NoMajorityError(UnavailableError):
    """A table created with ``majority=True`` was written where most of its nodes cannot be reached."""

    def __init__(self, table: str, *, reachable: int, nodes: int) -> None:
        self.table = table
        self.reachable = reachable
        self.nodes = nodes
        super().__init__(
            f"table {table!r} needs a majority: {reachable} of its {nodes} nodes can be reached, expected at "
            f"least {nodes // 2 + 1}; write on the other side of the split, or wait until it heals"
        )


class HistoryLostError(UnavailableError):
    """Changes were asked for that the table does not keep any more, or never had."""

    def __init__(self, table: str, *, asked: int, oldest: int, newest: int) -> None:
        self.table = table
        self.asked = asked
        self.oldest = oldest
        self.newest = newest
        super().__init__(
            f"table {table!r} cannot go on after change {asked}, expected {oldest} to {newest}; subscribe "
            "with snapshot=True to be told all rows, or make the table with a longer history"
        )


class NotOrderedError(UsageError):
    """Order was asked of a table that keeps none."""

    def __init__(self, table: str, kind: str) -> None:
        self.table = table
        self.kind = kind
        super().__init__(f"table {table!r} is of type {kind}, expected ordered_set; create it with that type")


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
    """A table with a disc copy was asked of a store whose disc process does not run."""

    def __init__(self, table: str, *, configured: bool) -> None:
        self.table = table
        self.configured = configured
        what = "start the store's child_spec() first" if configured else "make the store with disc=Disc(path)"
        super().__init__(f"table {table!r} keeps a disc copy and no disc process runs; {what}")


class NotInSchemaError(UsageError):
    """Something was asked of a table for all nodes that only the schema's tables can do."""

    def __init__(self, table: str, known: Iterable[str]) -> None:
        self.table = table
        self.known = tuple(known)
        super().__init__(
            f"table {table!r} is not in the schema, which has: {', '.join(self.known) or 'none'}; a table "
            "that each node makes for itself goes by del_table_copy there, and comes into the schema by "
            "create_table with nodes"
        )


class SchemaWriteError(UsageError):
    """Somebody wrote to the schema as if it were a table of theirs."""

    def __init__(self) -> None:
        super().__init__(
            "table 'schema' is written by create_table, delete_table, add_table_copy, del_table_copy and "
            "set_master_nodes; use these"
        )


class TransactionAbortedError(UsageError):
    """The function asked for it by ``tx.abort(reason)``; nothing changed."""

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(f"the transaction was aborted by its own function: {reason!r}; nothing changed")


class TransactionOverError(UsageError):
    """A ``tx`` was used after its transaction had ended."""

    def __init__(self) -> None:
        super().__init__("this transaction has ended, expected use inside its function; begin another")


class TransactionTooLargeError(UsageError):
    """A transaction wrote more than the bound allows."""

    def __init__(self, got: int) -> None:
        self.got = got
        super().__init__(
            f"a transaction of {got} bytes, expected at most {MAX_TRANSACTION_BYTES}; write in several, or "
            "without one"
        )


class NotTransactionalError(UsageError):
    """The table is owned: each row has one writer, so that there is nothing to agree upon."""

    def __init__(self, table: str, replication: str) -> None:
        self.table = table
        self.replication = replication
        super().__init__(
            f"table {table!r} is {replication}, transactions take shared and local ones; use its own read "
            "and write"
        )


class TransactionTimeoutError(UnavailableError):
    """It did not come to its end in time; nothing changed, and its locks are free."""

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
    """It was being voted on when this node lost sight of the others: they may have committed it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"the outcome of the transaction is not known here ({why}); read its rows once the nodes are "
            "connected again before you repeat it"
        )
