"""Lazy imports of a package's names on first use, from the modules that its ``__init__`` lists.

The command answers in a tenth of a second only if it does not load the distribution, so packages of which it
needs a little are lazy. The names are listed under ``TYPE_CHECKING``, for type checkers and for this.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import sys
from collections.abc import Callable


def lazy(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``, for what it imports under ``TYPE_CHECKING``."""
    spec = sys.modules[package].__spec__
    assert spec is not None  # noqa: S101 - it is being imported
    assert isinstance(spec.loader, importlib.abc.InspectLoader)  # noqa: S101
    source = spec.loader.get_source(package) or ""
    homes = {
        alias.name: statement.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names_of
