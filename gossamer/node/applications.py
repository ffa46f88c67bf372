"""What users run on a node: their own supervised children, beside the broker and below one supervisor.

``node.applications`` names functions as ``package.module:function``. Each is given the node and returns child
specs; it may also offer functions to the other nodes (``node.functions["name"] = ...``), since what peers may
run is decided here and never by what they send.

Their supervisor allows more restarts than the default. When it gives up it is restarted by the node, whose
own patience is the last bound.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial

from gossamer.errors import UsageError
from gossamer.node.parts import NodeParts
from gossamer.supervisor import ChildSpec, Supervisor

__all__ = ["ApplicationError", "applications_spec", "load_application"]

NAME = "applications"


class ApplicationError(UsageError):
    """A name in ``node.applications`` does not lead to child specs."""

    def __init__(self, *, application: str, reason: str) -> None:
        self.application = application
        self.reason = reason
        super().__init__(
            f"node.applications: got {application!r} ({reason}); expected package.module:function, which "
            "takes the node and returns child specs, in a module that can be imported (PYTHONPATH)"
        )


def load_application(application: str) -> Callable[[NodeParts], Iterable[ChildSpec]]:
    """The function that a name stands for. Raises ApplicationError."""
    module, _, function = application.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ApplicationError(application=application, reason=str(error)) from error
    if not callable(found):
        raise ApplicationError(application=application, reason=f"a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def applications_spec(node: NodeParts, names: Iterable[str], children: Iterable[ChildSpec]) -> ChildSpec:
    """All of it as one child of the node. Raises ApplicationError."""
    specs = list(children)
    for name in names:
        made = list(load_application(name)(node))
        if strange := [spec for spec in made if not isinstance(spec, ChildSpec)]:
            raise ApplicationError(application=name, reason=f"it returned a {type(strange[0]).__name__}")
        specs += made
    start = partial(Supervisor.start_link, specs, intensity=10, period=10.0, name=NAME, label=NAME)
    return ChildSpec(NAME, start, type="supervisor")
