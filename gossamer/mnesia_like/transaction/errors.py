"""How a transaction can end other than well, each on the branch of the error tree that says what to do.

Rule: but for the one in doubt, whoever gets one of these may be sure that nothing changed.
"""

from __future__ import annotations

from gossamer.errors import UnavailableError, UsageError

__all__ = [
    "MAX_BYTES",
    "NotTransactionalError",
    "TransactionAbortedError",
    "TransactionInDoubtError",
    "TransactionOverError",
    "TransactionRefusedError",
    "TransactionTimeoutError",
    "TransactionTooLargeError",
]

MAX_BYTES = 4 * 1024 * 1024
"""What one transaction may write."""


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
            f"a transaction of {got} bytes, expected at most {MAX_BYTES}; write in several, or without one"
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
