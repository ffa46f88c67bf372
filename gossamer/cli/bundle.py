"""``gossamer support-bundle``: what somebody who helps wants to see, in one file.

Rules: 1. It holds what the API tells of each node, as it tells it: no secret, no payload. Logs are redacted
when they are written, and once more here: a field called as a secret shows as ``***``.  2. What a node does
not answer stands there as its error, and does not stop the rest.  3. Names of clients and topics are in
it only with ``--clients``, since they may tell of people.
"""

from __future__ import annotations

import io
import json as jsonlib
import re
import tarfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json
from gossamer.cli.output import emit_json, note
from gossamer.cli.version import version_lines
from gossamer.errors import GossamerError, TransportError, UnavailableError, UsageError

__all__ = ["support_bundle"]

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
}
CLIENTS = {"clients": "clients?scope=node&limit=10000", "topics": "topics?limit=10000"}
LOG_END = 4 * 1024 * 1024
"""Bytes of the end of each log file that are taken."""


_NAME = re.compile(rb"""["']?([A-Za-z][\w-]*)["']?\s*[=:]\s*""")
_VALUE = re.compile(rb"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\])'"]+)""")
"""Of a field in a log line, as JSON or as people read it."""
_CRASH = re.compile(rb'"event": ?"crash"|\] crash\b')
_INDENTED = re.compile(rb"^\s+\S")


class BundleError(UsageError):
    """The file cannot be written, or a log not be read."""

    def __init__(self, *, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; name another file")


def support_bundle(
    out: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to (default: gossamer-DATE.tar.gz)")
    ] = None,
    api: Api = DEFAULT_API,
    clients: Annotated[bool, typer.Option("--clients", help="With names of clients and topics.")] = False,
    log: Annotated[
        list[Path] | None, typer.Option("--log", help="The end of this log file as well; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Gather what a bug report needs from every node into one file: no secrets, no payloads."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = out or Path(f"gossamer-{stamp}.tar.gz")
    with ApiClient(api) as client:
        found = _gather(client, {**EACH, **(CLIENTS if clients else {})})
    found["version.txt"] = "\n".join(version_lines()).encode()
    for file in log or []:
        text = redacted(_end_of(file))
        found[f"logs/{file.name}"] = text
        if crashes := crash_reports(text):
            found[f"crashes/{file.name}"] = crashes
    try:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in sorted(found.items()):
                entry = tarfile.TarInfo(f"gossamer-{stamp}/{name}")
                entry.size = len(content)
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(content))
    except OSError as error:
        raise BundleError(path=path, problem=error.strerror or str(error)) from error
    if json:
        emit_json({"file": str(path), "entries": sorted(found)})
        return
    typer.echo(str(path))
    note(f"{len(found)} entries; look through it before you send it")


def _gather(client: ApiClient, wanted: dict[str, str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    nodes: list[dict[str, Any]] = client.get("/api/v1/nodes")
    for node in nodes:
        if node["status"] == "left":
            continue
        name, silent = node["name"], ""
        for what, path in wanted.items():
            if silent:
                found[f"{name}/{what}.error"] = silent.encode()
                continue
            try:
                answer = client.get(f"/api/v1/nodes/{name}/{path}")
            except GossamerError as error:
                found[f"{name}/{what}.error"] = str(error).encode()
                # Any node that lives answers the first; who does not is not waited for again and again.
                if what == next(iter(wanted)) and isinstance(error, UnavailableError | TransportError):
                    silent = str(error)
            else:
                found[f"{name}/{what}.json"] = jsonlib.dumps(answer, indent=1).encode()
        if not silent:
            found.update(_metrics(client, name))
    return found


def _metrics(client: ApiClient, name: str) -> dict[str, bytes]:
    """What Prometheus would read of a node, from its own API."""
    try:
        here = client.document("/api/v1/status")["name"] == name
        return {f"{name}/metrics.txt": (client if here else client.direct(name)).page("/metrics")}
    except GossamerError as error:
        return {f"{name}/metrics.error": str(error).encode()}


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


def _end_of(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(max(0, size - LOG_END))
            return opened.read()
    except OSError as error:
        raise BundleError(path=file, problem=error.strerror or str(error)) from error
