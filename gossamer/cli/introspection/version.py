"""``gossamer --version``: what a bug report must tell.

The first line is the version alone. What is not installed is said so and not left out, for its absence
explains as much as its version.
"""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from gossamer import __version__
from gossamer.routes import KERNEL_REASON, kernel_name

__all__ = ["version_lines"]

_PACKAGES = ("uvloop", "grpcio", "pyroaring", "msgspec", "sqlite-utils")


def version_lines() -> Iterator[str]:
    """The lines to print."""
    yield f"gossamer {__version__} (Python {platform.python_version()}, {platform.system()})"
    for name, what in _parts():
        yield f"  {name:<13} {what}"


def _parts() -> Iterator[tuple[str, str]]:
    yield "python", f"{sys.implementation.name} {platform.python_version()}, {platform.python_compiler()}"
    yield "platform", platform.platform()
    yield "kernel", f"{kernel_name()} ({KERNEL_REASON})" if KERNEL_REASON else kernel_name()
    for package in _PACKAGES:
        yield package, _version_of(package)
    yield "sqlite", sqlite3.sqlite_version


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
