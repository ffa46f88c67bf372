"""``gossamer support-bundle``: everything for a support request, in one file; and ``--version``.

Rules: 1. It holds what the API tells of each node, as it tells it, and the logs that can be read from
here: no secret.  2. What a node does not answer stands there as its error, and does not stop the
rest.  3. Lists of clients and topics are in it only with ``--clients``, as they may tell of people; a log
may name some, and a crash report quotes a message, so who sends it is told to look.  4. Its
manifest says of each node whether its log is in it, and why not.  5. Each node says where its log goes; a
file is read only if it is that very file, not one of the same path on another machine.  6. A field called as
a secret shows as ``***``, although it was redacted when it was written.
"""

from __future__ import annotations

import io
import json
import platform
import re
import sqlite3
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gossamer import __version__
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import argument, asks, option
from gossamer.cli.errors import FileError
from gossamer.cli.render.show import Note, Part, Report
from gossamer.errors import GossamerError, TransportError, UnavailableError
from gossamer.routes import KERNEL_REASON, kernel_name

EACH = {
    "status": "status",
    "members": "members",
    "nodes": "nodes",
    "tables": "tables",
    "processes": "processes?fold=5",
    "events": "events?limit=10000",
    "alarms": "alarms?limit=1000",
    "autoheal": "autoheal",
    "heals": "autoheal/history",
    "config": "config",
    "pulse": "pulse",
    "log": "log",
}
CLIENTS = {"clients": "clients?scope=node&limit=10000", "topics": "topics?limit=10000"}
LOG_END = 4 * 1024 * 1024
"""Bytes of the end of each log file that are taken."""

_NAME = re.compile(rb"""["']?([A-Za-z][\w-]*)["']?\s*[=:]\s*""")
_VALUE = re.compile(rb"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\])'"]+)""")
"""Value of a field in a log line, as JSON or as text."""
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
_PACKAGES = ("uvloop", "grpcio", "pyroaring", "msgspec", "sqlite-utils")
_OTHER_FILE = "name another file"


@asks("", "--log /var/log/gossamer.log")
def support_bundle(
    client: ApiClient,
    out: Path | None = argument(None, "FILE", "Where to (default: gossamer-DATE.tar.gz)"),
    clients: bool = option(False, "--clients", "With names of clients and topics."),
    log: list[Path] | None = option(
        None, "--log", "The end of this log file as well, of a node whose log is not found."
    ),
) -> Report:
    """Collect what a bug report needs, without secrets.

    What every node tells, and the logs that can be read from here. A log is as its node wrote it, less
    what is named as a secret: it may name clients and topics, and a crash report quotes a message.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = out or Path(f"gossamer-{stamp}.tar.gz")
    found = _gather(client, {**EACH, **(CLIENTS if clients else {})})
    logs = _add_logs(found)
    found["version.txt"] = "\n".join(version_lines()).encode()
    for file in log or []:
        try:
            found.update(_entries_of(file.name, _end_of(file)))
        except OSError as error:
            raise FileError(file, error, advice=_OTHER_FILE) from error
    found["manifest.txt"] = _manifest(found, logs)
    try:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in sorted(found.items()):
                entry = tarfile.TarInfo(f"gossamer-{stamp}/{name}")
                entry.size = len(content)
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(content))
    except OSError as error:
        raise FileError(path, error, advice=_OTHER_FILE) from error

    logs_in = any(name.startswith("logs/") for name in found)

    def parts() -> Iterable[Part]:
        yield str(path)
        for name, source in logs.items():
            yield Note(f"log of {name}: {source}")
        quoted = "; logs may name clients and quote messages" if logs_in else ""
        yield Note(f"{len(found)} entries{quoted}: look through it before you send it")

    return Report({"file": str(path), "entries": sorted(found), "logs": logs}, parts)


def _add_logs(found: dict[str, bytes]) -> dict[str, str]:
    """Add the logs that can be read from here; return where each is from, or why it is not in."""
    sources: dict[str, str] = {}
    for entry, content in sorted(found.items()):
        name, _, what = entry.partition("/")
        if what == "log.error":
            sources[name] = f"none: {content.decode()}; --log FILE adds it"
        elif what == "log.json":
            text, sources[name] = _log_of(json.loads(content))
            if text is not None:
                found.update(_entries_of(f"{name}.log", text))
    return sources


def _manifest(found: dict[str, bytes], logs: dict[str, str]) -> bytes:
    lines = [f"{len(content):>10}  {name}" for name, content in sorted(found.items())]
    lines += ["", "Logs:", *(f"  {name}: {source}" for name, source in logs.items())]
    return ("\n".join(lines) + "\n").encode()


def _gather(client: ApiClient, wanted: dict[str, str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for node in client.rows("nodes"):
        if node["status"] == "left":
            continue
        name, silent = node["name"], ""
        for what, path in wanted.items():
            if silent:
                found[f"{name}/{what}.error"] = silent.encode()
                continue
            try:
                answer = client.answer(f"nodes/{name}/{path}")
            except GossamerError as error:
                found[f"{name}/{what}.error"] = str(error).encode()
                # Any node that lives answers the first; who does not is not waited for again and again.
                if what == next(iter(wanted)) and isinstance(error, UnavailableError | TransportError):
                    silent = str(error)
            else:
                found[f"{name}/{what}.json"] = json.dumps(answer, indent=1).encode()
        if not silent:
            found.update(_metrics(client, node))
    return found


def _metrics(client: ApiClient, node: Row) -> dict[str, bytes]:
    """Return the metrics of a node, from its own API."""
    name = node["name"]
    try:
        peer = client if node["link"] == "self" else client.direct(node)
        return {f"{name}/metrics.txt": peer.page("/metrics")}
    except GossamerError as error:
        return {f"{name}/metrics.error": str(error).encode()}


def _log_of(told: Row) -> tuple[bytes | None, str]:
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
            return _end_of(file), f"the last {LOG_END // 2**20} MiB at most of {file}"
    except FileNotFoundError:
        pass
    except OSError as error:
        return None, f"none: {file}: {error.strerror or error}; run this as who may read it, or {_HAND_IN}"
    return None, f"none: {file} is on another machine or in a container; {_HAND_IN}"


def _entries_of(name: str, log: bytes) -> dict[str, bytes]:
    """Return what of a log is put into the bundle: itself, and its crash reports beside it."""
    text = _redacted(log)
    crashes = _crash_reports(text)
    return {f"logs/{name}": text, **({f"crashes/{name}": crashes} if crashes else {})}


def _redacted(text: bytes) -> bytes:
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


def _crash_reports(text: bytes) -> bytes:
    """Return the crash reports of a log, each with the lines that are indented below it."""
    kept: list[bytes] = []
    inside = False
    for line in text.splitlines(keepends=True):
        inside = bool(_CRASH.search(line)) or (inside and bool(_INDENTED.match(line)))
        if inside:
            kept.append(line)
    return b"".join(kept)


def _end_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        size = opened.seek(0, io.SEEK_END)
        opened.seek(max(0, size - LOG_END))
        return opened.read(LOG_END)


def version_lines() -> Iterator[str]:
    """Yield the versions for a bug report; the first line is the version alone.

    Missing packages are listed too: their absence explains as much as their version.
    """
    yield f"gossamer {__version__} (Python {platform.python_version()}, {platform.system()})"
    compiler = platform.python_compiler()
    parts = {
        "python": f"{sys.implementation.name} {platform.python_version()}, {compiler}",
        "platform": platform.platform(),
        "kernel": f"{kernel_name()} ({KERNEL_REASON})" if KERNEL_REASON else kernel_name(),
        **{package: _version_of(package) for package in _PACKAGES},
        "sqlite": sqlite3.sqlite_version,
    }
    for name, what in parts.items():
        yield f"  {name:<13} {what}"


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
