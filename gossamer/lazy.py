"""Names of a package that are imported when they are first used, from modules that its front door tells.

The command answers in a tenth of a second only if it does not load what links nodes; so packages of which it
needs a little have such a door. For type checkers, a door imports the same names under ``TYPE_CHECKING``;
tests/test_front_door.py holds the two against each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy"]


def lazy(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``; ``names`` are those of each of its modules."""
    homes = {name: f"{package}.{module}" for module, held in names.items() for name in held}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names_of
