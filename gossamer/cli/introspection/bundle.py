"""``gossamer support-bundle``: what somebody who helps wants to see, in one file.

Rules: 1. It holds what the API tells of each node, as it tells it, and the logs that can be read from
here: no secret, no payload.  2. What a node does not answer stands there as its error, and does not stop the
rest.  3. Names of clients and topics are in it only with ``--clients``, since they may tell of people.
4. Its manifest says of each node whether its log is in it, and why not.
"""

from __future__ import annotations

import io
import json as jsonlib
import tarfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.introspection.bundle_logs import BundleError, entries_of, log_of, named_log
from gossamer.cli.introspection.version import version_lines
from gossamer.cli.options import Api, Json
from gossamer.cli.render.output import emit_json, note
from gossamer.errors import GossamerError, TransportError, UnavailableError

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
    "log": "log",
}
CLIENTS = {"clients": "clients?scope=node&limit=10000", "topics": "topics?limit=10000"}


def support_bundle(
    out: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to (default: gossamer-DATE.tar.gz)")
    ] = None,
    api: Api = DEFAULT_API,
    clients: Annotated[bool, typer.Option("--clients", help="With names of clients and topics.")] = False,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", help="The end of this log file as well, of a node whose log is not found."),
    ] = None,
    json: Json = False,
) -> None:
    """Collect what a bug report needs from every node into one file: no secrets, no payloads."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = out or Path(f"gossamer-{stamp}.tar.gz")
    with ApiClient(api) as client:
        found = _gather(client, {**EACH, **(CLIENTS if clients else {})})
    logs = _add_logs(found)
    found["version.txt"] = "\n".join(version_lines()).encode()
    for file in log or []:
        found.update(entries_of(file.name, named_log(file)))
    found["manifest.txt"] = _manifest(found, logs)
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
        emit_json({"file": str(path), "entries": sorted(found), "logs": logs})
        return
    typer.echo(str(path))
    for name, source in logs.items():
        note(f"log of {name}: {source}")
    note(f"{len(found)} entries; look through it before you send it")


def _add_logs(found: dict[str, bytes]) -> dict[str, str]:
    """Add the logs that can be read from here; return where each is from, or why it is not in."""
    sources: dict[str, str] = {}
    for entry, content in sorted(found.items()):
        name, _, what = entry.partition("/")
        if what == "log.error":
            sources[name] = f"none: {content.decode()}; --log FILE adds it"
        elif what == "log.json":
            text, sources[name] = log_of(jsonlib.loads(content))
            if text is not None:
                found.update(entries_of(f"{name}.log", text))
    return sources


def _manifest(found: dict[str, bytes], logs: dict[str, str]) -> bytes:
    lines = [f"{len(content):>10}  {name}" for name, content in sorted(found.items())]
    lines += ["", "Logs:", *(f"  {name}: {source}" for name, source in logs.items())]
    return ("\n".join(lines) + "\n").encode()


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
