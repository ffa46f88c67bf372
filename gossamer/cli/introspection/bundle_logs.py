"""Logs for ``gossamer support-bundle``: found where nodes say that they log to, redacted, with their crashes.

Rules: 1. Each node says where its log goes; a file is read only if it is that very file, not one of the same
path on another machine.  2. A node whose log is not taken stands in the manifest with the reason and what
to do about it.  3. A field called as a secret shows as ``***``, although it was redacted when it was written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import UsageError

__all__ = ["BundleError", "entries_of", "log_of", "named_log"]

LOG_END = 4 * 1024 * 1024
"""Bytes of the end of each log file that are taken."""

_NAME = re.compile(rb"""["']?([A-Za-z][\w-]*)["']?\s*[=:]\s*""")
_VALUE = re.compile(rb"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\])'"]+)""")
"""Of a field in a log line, as JSON or as people read it."""
_CRASH = re.compile(rb'"event": ?"crash"|\] crash\b')
_INDENTED = re.compile(rb"^\s+\S")
_ELSEWHERE = {
    "journal": "standard error is the journal: `journalctl _PID={process}` on its machine has it",
    "terminal": "standard error is a terminal, which keeps nothing",
    "pipe": "standard error is a pipe: `docker logs`, `kubectl logs` or what started the node has it",
    "null": "standard error is /dev/null: nothing is kept",
    "other": "standard error is no file",
}
_HAND_IN = "--log FILE adds a copy"


class BundleError(UsageError):
    """The file cannot be written, or a log not be read."""

    def __init__(self, *, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; name another file")


def log_of(told: Mapping[str, Any]) -> tuple[bytes | None, str]:
    """Return the end of a node's log, if it is here, and where it is from or why there is none.

    ``told`` is what the node says of it (``GET /api/v1/log``).
    """
    if told["kind"] != "file":
        why = _ELSEWHERE.get(told["kind"], _ELSEWHERE["other"]).format_map(told)
        return None, f"none: {why}; {_HAND_IN}"
    if told["path"] is None:
        return None, f"none: the file that it logs to was deleted; {_HAND_IN}"
    from gossamer.log_destination import identity_of

    file = Path(told["path"])
    try:
        if identity_of(file.stat()) == told["identity"]:
            with file.open("rb") as opened:
                return _end_of(opened), f"the last {LOG_END // 2**20} MiB at most of {file}"
    except FileNotFoundError:
        pass
    except OSError as error:
        return None, f"none: {file}: {error.strerror or error}; run this as who may read it, or {_HAND_IN}"
    return None, f"none: {file} is on another machine or in a container; {_HAND_IN}"


def named_log(file: Path) -> bytes:
    """Return the end of a log that was asked for by its path."""
    try:
        with file.open("rb") as opened:
            return _end_of(opened)
    except OSError as error:
        raise BundleError(path=file, problem=error.strerror or str(error)) from error


def entries_of(name: str, log: bytes) -> dict[str, bytes]:
    """Return what of a log is put into the bundle: itself, and its crash reports beside it."""
    text = redacted(log)
    crashes = crash_reports(text)
    return {f"logs/{name}": text, **({f"crashes/{name}": crashes} if crashes else {})}


def redacted(text: bytes) -> bytes:
    """Replace the values of fields whose names speak of a secret by ``***``."""
    # The command starts without loading what only this one needs.
    from gossamer.supervisor import is_secret

    parts: list[bytes] = []
    done = 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end()) if is_secret(name[1].decode()) else None
        if value is not None and name.start() >= done:
            parts += [text[done : name.end()], b"***"]
            done = value.end()
    return b"".join([*parts, text[done:]])


def crash_reports(text: bytes) -> bytes:
    """Return the crash reports of a log, each with the lines that are indented below it."""
    kept: list[bytes] = []
    inside = False
    for line in text.splitlines(keepends=True):
        inside = bool(_CRASH.search(line)) or (inside and bool(_INDENTED.match(line)))
        if inside:
            kept.append(line)
    return b"".join(kept)


def _end_of(opened: io.BufferedReader) -> bytes:
    size = opened.seek(0, io.SEEK_END)
    opened.seek(max(0, size - LOG_END))
    return opened.read(LOG_END)
