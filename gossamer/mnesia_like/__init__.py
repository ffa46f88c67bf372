"""Replicated tables, in Mnesia's words: ``local`` to a node, ``owned`` row by row, or ``shared`` by all.

Reads are synchronous and from memory. See ``table`` for what a table offers, ``replication`` for how owned
rows travel, ``shared`` for the others, ``disc`` for what survives a crash; errors are in ``errors``, and the
events of ``Store.subscribe`` in ``events``.
"""

from gossamer.mnesia_like.core import ReplicationLink, ReplicationSink
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import Disc
from gossamer.mnesia_like.disc.queue import Journal
from gossamer.mnesia_like.errors import DiscError, TablesNotLoadedError
from gossamer.mnesia_like.events import InconsistentDatabase
from gossamer.mnesia_like.replication.replica import Change
from gossamer.mnesia_like.shared.versions import Discarded
from gossamer.mnesia_like.store import Store
from gossamer.mnesia_like.table.local import LocalTable
from gossamer.mnesia_like.table.owned import OwnedTable
from gossamer.mnesia_like.table.queries import ANY
from gossamer.mnesia_like.table.quorum import QuorumTable
from gossamer.mnesia_like.table.shared import SharedTable
from gossamer.mnesia_like.transactions import Transaction

__all__ = [
    "ANY",
    "Change",
    "Disc",
    "DiscError",
    "Discarded",
    "InconsistentDatabase",
    "Journal",
    "LocalTable",
    "OwnedTable",
    "QuorumTable",
    "ReplicationLink",
    "ReplicationSink",
    "SharedTable",
    "Store",
    "TableDef",
    "TablesNotLoadedError",
    "Transaction",
]
