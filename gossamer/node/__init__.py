"""One node of a cluster: everything below, put together into one supervision tree."""

from gossamer.node.configured_files import file_problems
from gossamer.node.datadir import DataDir, DataDirError, DataDirInUseError, next_creation
from gossamer.node.event_log import HAPPENINGS
from gossamer.node.node import Node, NodeFailedError, State
from gossamer.node.tree import ApplicationError

__all__ = [
    "HAPPENINGS",
    "ApplicationError",
    "DataDir",
    "DataDirError",
    "DataDirInUseError",
    "Node",
    "NodeFailedError",
    "State",
    "file_problems",
    "next_creation",
]
