"""Views of a node for the API: reads and commands, answered from what its processes publish."""

from gossamer.node.views.view import View

__all__ = ["View"]
