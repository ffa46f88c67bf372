"""Replicated tables, in Mnesia's words: ``local`` to a node, ``owned`` row by row, or ``shared`` by all.

Reads are synchronous and from memory. See ``table`` for what a table offers, ``replication`` for how owned
rows travel, ``disc`` for what survives a crash, ``link`` for what carries frames.
"""

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import Disc
from gossamer.mnesia_like.disc.journal import Journal
from gossamer.mnesia_like.disc.queue import DiscBehindError
from gossamer.mnesia_like.errors import (
    BackupExistsError,
    BadFrameError,
    BadKeyError,
    BadTableError,
    BadValueError,
    CorruptTablesError,
    DiscError,
    DiscFullError,
    DiscLockedError,
    DiscReadOnlyError,
    NoSuchTableError,
    NotOwnerError,
    TableExistsError,
    TablesNotLoadedError,
)
from gossamer.mnesia_like.events import (
    CopyAdded,
    CopyDropped,
    InconsistentDatabase,
    Overload,
    SchemaConflict,
    StoreDown,
    StoreUp,
    SystemEvent,
    SystemSubscription,
    TableCreated,
    TableDeleted,
)
from gossamer.mnesia_like.exchange.replica import Change
from gossamer.mnesia_like.link import ReplicationLink, ReplicationSink
from gossamer.mnesia_like.schema.copies import DiscProcessMissingError
from gossamer.mnesia_like.schema.table import NotInSchemaError, SchemaWriteError
from gossamer.mnesia_like.shared.shared import Discarded
from gossamer.mnesia_like.store import Store
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.queries import ANY, IndexExistsError, NoSuchIndexError, NotOrderedError
from gossamer.mnesia_like.table.shared import NoMajorityError, SharedTable
from gossamer.mnesia_like.table.table import HistoryLostError, Subscription, TableEvent
from gossamer.mnesia_like.transaction.errors import (
    NotTransactionalError,
    TransactionAbortedError,
    TransactionInDoubtError,
    TransactionOverError,
    TransactionRefusedError,
    TransactionTimeoutError,
    TransactionTooLargeError,
)
from gossamer.mnesia_like.transactions import Transaction

__all__ = [
    "ANY",
    "BackupExistsError",
    "BadFrameError",
    "BadKeyError",
    "BadTableError",
    "BadValueError",
    "Change",
    "CopyAdded",
    "CopyDropped",
    "CorruptTablesError",
    "Disc",
    "DiscBehindError",
    "DiscError",
    "DiscFullError",
    "DiscLockedError",
    "DiscProcessMissingError",
    "DiscReadOnlyError",
    "Discarded",
    "HistoryLostError",
    "InconsistentDatabase",
    "IndexExistsError",
    "Journal",
    "LocalTable",
    "NoMajorityError",
    "NoSuchIndexError",
    "NoSuchTableError",
    "NotInSchemaError",
    "NotOrderedError",
    "NotOwnerError",
    "NotTransactionalError",
    "Overload",
    "OwnedTable",
    "ReplicationLink",
    "ReplicationSink",
    "SchemaConflict",
    "SchemaWriteError",
    "SharedTable",
    "Store",
    "StoreDown",
    "StoreUp",
    "Subscription",
    "SystemEvent",
    "SystemSubscription",
    "TableCreated",
    "TableDef",
    "TableDeleted",
    "TableEvent",
    "TableExistsError",
    "TablesNotLoadedError",
    "Transaction",
    "TransactionAbortedError",
    "TransactionInDoubtError",
    "TransactionOverError",
    "TransactionRefusedError",
    "TransactionTimeoutError",
    "TransactionTooLargeError",
]
