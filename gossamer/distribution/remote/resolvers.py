"""Resolution of name conflicts after a split: which holder keeps the name, and what happens to the other.

A registration selects the resolver (OTP's ``global`` has the same choices):

=============  ==============================  ======================
``resolve=``   keeps the name                  the other
=============  ==============================  ======================
exit           the older registration          is killed
random_exit    one of them, at random          is killed
notify         the older registration          is notified
random_notify  one of them, at random          is notified
notify_all     neither                         both are notified
a resolver     the function's result           is notified
=============  ==============================  ======================

Rules: 1. If the two differ, the younger registration's choice applies.  2. The random choice is the same on
every node.  3. A resolver is a function registered under one name on both nodes (:func:`register_resolver`);
it runs in the name server, so it must be fast and must not wait. One that raises, returns another pid or is
not registered here counts as ``exit``, and that is logged: a conflict must end.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import structlog
from msgspec import Struct

from gossamer.distribution.remote.terms import register_message
from gossamer.errors import UsageError
from gossamer.supervisor import Pid

log = structlog.get_logger(__name__)

Resolver = Callable[[str, Pid, Pid], Pid | None]
"""Called with the name, the older holder and the younger; returns the one that keeps it, or None."""


class NameConflict(Struct, frozen=True):
    """Message to a process that lost ``name`` in a conflict: ``winner`` has it now, None: no process."""

    name: str
    winner: Pid | None


register_message(NameConflict, "global.NameConflict")


class Resolution(NamedTuple):
    """Holder that keeps the name, and whether the loser is killed."""

    keeps: Pid | None
    kill: bool


BUILT_IN: dict[str, Callable[[Pid, Pid], Resolution]] = {
    "exit": lambda older, _lot: Resolution(older, kill=True),
    "random_exit": lambda _older, lot: Resolution(lot, kill=True),
    "notify": lambda older, _lot: Resolution(older, kill=False),
    "random_notify": lambda _older, lot: Resolution(lot, kill=False),
    "notify_all": lambda _older, _lot: Resolution(None, kill=False),
}
"""Called with the older holder and the randomly chosen one."""

_resolvers: dict[str, Resolver] = {}


def register_resolver(name: str, resolver: Resolver) -> None:
    """Register a resolver for ``resolve=name``; do so on every node, with the same function.

    Raises:
        UsageError: the name is one of the built-in choices, or another function's.
    """
    known = _resolvers.get(name)
    if name in BUILT_IN or (known is not None and known is not resolver):
        raise UsageError(f"register_resolver() got {name!r}; expected a name that is not taken yet")
    _resolvers[name] = resolver


def check_resolve(resolve: str) -> None:
    """Raise UsageError if ``resolve`` is unknown on this node."""
    if resolve not in BUILT_IN and resolve not in _resolvers:
        expected = ", ".join([*BUILT_IN, *_resolvers])
        raise UsageError(
            f"register_name() got resolve={resolve!r}; expected one of {expected}, "
            "or give the function to register_resolver() first"
        )


def resolve_conflict(resolve: str, name: str, older: Pid, younger: Pid) -> Resolution:
    """Decide between two holders, by the younger one's ``resolve``."""
    if resolve in BUILT_IN:
        lot = (older, younger)[zlib.crc32(f"{name} {older} {younger}".encode()) % 2]
        return BUILT_IN[resolve](older, lot)
    try:
        if resolve not in _resolvers:
            raise UsageError(f"no resolver {resolve!r} is known here; register_resolver() on every node")
        keeps = _resolvers[resolve](name, older, younger)
        if keeps not in (older, younger, None):
            raise UsageError(f"the resolver chose {keeps}; expected {older}, {younger} or None")
    except Exception:
        log.exception("resolver_failed", name=name, resolver=resolve)
        return Resolution(older, kill=True)
    return Resolution(keeps, kill=False)
