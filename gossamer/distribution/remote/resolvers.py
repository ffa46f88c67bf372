"""Two processes hold one global name after a split: which of them keeps it, and what becomes of the other.

A registration says how (OTP's ``global`` has the same choices):

=============  ==============================  ======================
``resolve=``   who keeps the name              the other
=============  ==============================  ======================
exit           the older registration          is killed
random_exit    one of them, by lot             is killed
notify         the older registration          is told, and lives
random_notify  one of them, by lot             is told, and lives
notify_all     nobody                          both are told
a resolver     whom the function names         is told, and lives
=============  ==============================  ======================

Rules: 1. Where the two differ, the younger registration's choice holds.  2. The lot falls the same on every
node that draws it.  3. A resolver is a function that both nodes know by a name (:func:`register_resolver`);
it runs in the server of names, so it must be quick and must not wait. One that raises, names somebody else or
is not known here counts as ``exit``, and that is logged: a conflict must end.
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
"""Given the name, the older holder and the younger: who keeps it, None for nobody."""


class NameConflict(Struct, frozen=True):
    """Told to who lost ``name`` in a conflict: ``winner`` has it now, None where nobody has."""

    name: str
    winner: Pid | None


register_message(NameConflict, "global.NameConflict")


class Verdict(NamedTuple):
    """Who keeps the name, and whether who does not is killed."""

    keeps: Pid | None
    kill: bool


BUILT_IN: dict[str, Callable[[Pid, Pid], Verdict]] = {
    "exit": lambda older, _lot: Verdict(older, kill=True),
    "random_exit": lambda _older, lot: Verdict(lot, kill=True),
    "notify": lambda older, _lot: Verdict(older, kill=False),
    "random_notify": lambda _older, lot: Verdict(lot, kill=False),
    "notify_all": lambda _older, _lot: Verdict(None, kill=False),
}
"""Given the older holder and the one on which the lot falls."""

_resolvers: dict[str, Resolver] = {}


def register_resolver(name: str, resolver: Resolver) -> None:
    """Let registrations say ``resolve=name``; do so on every node, with the same function.

    Raises:
        UsageError: the name is one of the built-in choices, or another function's.
    """
    known = _resolvers.get(name)
    if name in BUILT_IN or (known is not None and known is not resolver):
        raise UsageError(f"register_resolver() got {name!r}; expected a name that is not taken yet")
    _resolvers[name] = resolver


def check_resolve(resolve: str) -> None:
    """Raise UsageError where ``resolve`` means nothing on this node."""
    if resolve not in BUILT_IN and resolve not in _resolvers:
        expected = ", ".join([*BUILT_IN, *_resolvers])
        raise UsageError(
            f"register_name() got resolve={resolve!r}; expected one of {expected}, "
            "or give the function to register_resolver() first"
        )


def judge(resolve: str, name: str, older: Pid, younger: Pid) -> Verdict:
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
        return Verdict(older, kill=True)
    return Verdict(keeps, kill=False)
