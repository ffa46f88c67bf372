"""Files replaced whole: a reader, at any moment and after a crash, finds the old content or the new one.

And the error of a file that the configuration names and that cannot be used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gossamer.errors import UsageError


class FileError(UsageError):
    """A file that the configuration names and that cannot be used, in one line or at all."""

    def __init__(
        self, file: Path, why: str | Exception, *, expected: str, line: int = 0, of: str = ""
    ) -> None:
        self.file = file
        self.line = line
        self.why = why if isinstance(why, str) else getattr(why, "strerror", None) or str(why)
        where = f"{file}:{line}" if line else str(file)
        super().__init__(f"{of and of + ': '}{where}: {self.why}; expected {expected}")


@contextmanager
def replacing(path: Path, *, mode: int = 0o600, durable: bool = True) -> Iterator[Path]:
    """Give an empty file of that mode (less the umask) to write; it becomes ``path`` if nothing is raised.

    ``durable``: by the end it would survive a crash, and so would its name.

    Raises:
        OSError: it cannot be written; ``path`` is as it was.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield draft
        if durable:
            _sync(draft)
        draft.replace(path)
        if durable:
            _sync(path.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Put ``content`` into ``path``, all of it or nothing; see :func:`replacing`."""
    with replacing(path, mode=mode, durable=durable) as draft:
        draft.write_bytes(content)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
