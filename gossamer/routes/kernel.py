"""Choice of the filter index and topic book of this process: the compiled kernel, or its twins in Python.

The kernel (``csrc/``) is built when the package is installed and a C compiler is found; without one,
everything works the same and matching is slower. ``GOSSAMER_KERNEL=python`` chooses the twin;
``GOSSAMER_KERNEL=compiled`` fails without a kernel.

mypyc over the twin was measured and rejected: 0.57 M matches a second among a million filters, where the twin
has 0.48 M and the kernel several times that, since it cannot ask memory for all shapes at once and keeps
Python's dictionaries and tuples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Self, cast

from gossamer.errors import UsageError
from gossamer.routes.index.book import TopicBook
from gossamer.routes.index.filters import SHAPE_LIMIT, FilterIndex, FilterTrie

VERSION = 3
CHOICE = "GOSSAMER_KERNEL"


class KernelUnavailableError(UsageError):
    """The compiled kernel was asked for and cannot run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{CHOICE}: expected a compiled kernel, got none ({reason}); install a C compiler and gossamer "
            f"again, or unset {CHOICE}"
        )


try:
    from gossamer.routes._kernel import VERSION as _BUILT
    from gossamer.routes._kernel import Book, Index
    from gossamer.routes._kernel import is_filter as _is_filter
except ImportError as _error:
    _missing = f"not built here: {_error}"
else:
    _missing = "" if _BUILT == VERSION else "built for another version of gossamer"


if not _missing:

    class _CompiledIndex(Index):
        """The kernel, and what is simpler said in Python; see :class:`FilterIndex`."""

        __slots__ = ("_trie",)
        _trie: FilterTrie[object]

        def __new__(cls, trie: FilterTrie[object], shape_limit: int) -> Self:
            index = super().__new__(cls, trie, shape_limit)
            index._trie = trie
            return index

        def items(self) -> Iterator[tuple[str, object]]:
            """Every filter with its value."""
            yield from self.walk_items()
            yield from self._trie.items()

        def filters(self) -> Iterator[str]:
            """Every filter; the index may change meanwhile, then some changes are seen and some are not."""
            yield from self.walk_filters()
            for topic_filter, _ in list(self._trie.items()):
                yield topic_filter


def compiled_index(*, shape_limit: int = SHAPE_LIMIT) -> FilterIndex[object]:
    """Return an index of the compiled kernel, whatever was chosen.

    Raises:
        KernelUnavailableError: there is none.
    """
    if _missing:
        raise KernelUnavailableError(_missing)
    # Not a subclass, but the same in everything; the tests run on both.
    return cast("FilterIndex[Any]", _CompiledIndex(FilterTrie(), shape_limit))


def compiled_book(shape_limit: int, filed_limit: int) -> TopicBook:
    """Return a topic book of the compiled kernel, whatever was chosen.

    Raises:
        KernelUnavailableError: there is none.
    """
    if _missing:
        raise KernelUnavailableError(_missing)
    return cast("TopicBook", Book(shape_limit, filed_limit))


def _choose(choice: str) -> str:
    """Return why the twin runs; empty: the kernel does."""
    if choice == "python":
        return f"{CHOICE}=python"
    if choice == "compiled" and _missing:
        raise KernelUnavailableError(_missing)
    return _missing


KERNEL_REASON = _choose(os.environ.get(CHOICE, ""))
"""Reason why the twin in Python runs; empty: the compiled kernel does."""


def filter_index() -> FilterIndex[Any]:
    """Return an empty index of the chosen kind."""
    return FilterIndex() if KERNEL_REASON else compiled_index()


def _parse_it(text: str, max_bytes: int, max_levels: int, /) -> bool:
    return False


is_filter: Callable[[str, int, int], bool] = _parse_it if KERNEL_REASON else _is_filter
"""Returns whether a text is an ordinary filter within limits; False: it may be one, and must be parsed."""


def topic_book(shape_limit: int, filed_limit: int) -> TopicBook:
    """Return an empty topic book of the chosen kind."""
    return (TopicBook if KERNEL_REASON else compiled_book)(shape_limit, filed_limit)


def kernel_part(constant: str, version: int) -> Any:
    """Return the kernel for a part of it that has a version of its own; None: there is none, or it is not to
    run."""
    if KERNEL_REASON:
        return None
    from gossamer.routes import _kernel

    return _kernel if getattr(_kernel, constant, None) == version else None


def kernel_name() -> str:
    """Return ``compiled`` or ``python``."""
    return "python" if KERNEL_REASON else "compiled"
