"""One node of a cluster: everything below, put together into one supervision tree."""

from gossamer.node.configured_files import file_problems
from gossamer.node.datadir import DataDir, NewerDataError
from gossamer.node.history import HAPPENINGS
from gossamer.node.node import Node, NodeFailedError
from gossamer.node.parts import State

__all__ = [
    "HAPPENINGS",
    "DataDir",
    "NewerDataError",
    "Node",
    "NodeFailedError",
    "State",
    "file_problems",
]
