"""Shell completion: names of nodes, clients, topics … from the API, and the scripts that shells load.

Rules: 1. On any failure nothing is offered and nothing printed: the prompt is no place for errors.  2. It
takes half a second at most, however a host name is resolved.  3. urllib reads the API here, since httpx
takes longer to import than a node to answer.  4. The scripts are Typer's, but for bash: Typer's reads words
as bash breaks them, and names of nodes hold ``@``. Ours passes the line as it stands, by the protocol that
Typer has for fish, and offers what follows the last break. In zsh Typer's script, loaded by ``compinit``,
would only begin to complete with the second TAB.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import typer

from gossamer.cli.client import DEFAULT_API, Row, credentials, full_url, trusted
from gossamer.cli.errors import FileError, OptionError
from gossamer.cli.root import example

TIMEOUT = 0.5
MAX_BYTES = 4 << 20
MAX_VALUES = 500
"""Values that are fetched; a user with more types another character."""

Values = Iterable[tuple[str, str]]
"""Each with its help."""
Get = Callable[[str], Any]
"""The answer to a GET of a path below ``/api/v1/``."""
Complete = Callable[..., object]
"""Called by Typer with the context and what is typed, whichever of them it names."""


def known(*values: str) -> Complete:
    """Complete one of a fixed set of values."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def _from_api(find: Callable[[Get, str], Values], *, of_node: bool = False) -> Complete:
    """Complete what ``find`` reads from the API; with ``of_node`` from that of the node at ``--node``."""

    def complete(ctx: typer.Context, incomplete: str) -> Values:
        url = ctx.params.get("api") or os.environ.get("GOSSAMER_API") or DEFAULT_API
        node = ctx.params.get("node") if of_node else None
        found: list[tuple[str, str]] = []

        def ask() -> None:
            with suppress(Exception):
                found.extend(find(lambda path: get(url, path, node=node), incomplete))

        # In a thread, because a name lookup may take any time.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(TIMEOUT)
        candidates = [] if asking.is_alive() else found
        return [(value, says) for value, says in candidates if value.startswith(incomplete)]

    return complete


class _Stay(HTTPRedirectHandler):
    """Follows nothing: urllib would give the token to whichever host it is sent to."""

    def redirect_request(self, *_: object) -> None:
        return None


def get(url: str, path: str, *, node: str | None = None) -> object:
    """Return the answer to a GET of ``path`` below ``/api/v1/``, of ``node`` through the one at ``url``."""
    below = f"nodes/{quote(node, safe='@')}/{path}" if node else path
    base = full_url(url)
    secure = [HTTPSHandler(context=trusted())] if base.startswith("https://") else []
    request = Request(f"{base}/api/v1/{below}", headers=credentials())  # noqa: S310 - as the user says
    with build_opener(ProxyHandler({}), _Stay, *secure).open(request, timeout=TIMEOUT) as answer:
        return json.loads(answer.read(MAX_BYTES))


def _listed(path: str, name: str, says: str = "", *, paged: bool = False, of_node: bool = False) -> Complete:
    """Complete the field ``name`` of the rows at ``path``; ``says`` is a format over a row."""

    def find(get: Get, incomplete: str) -> Values:
        rows = _page(get, path, incomplete) if paged else _items(get(path))
        return ((row[name], says.format_map(row)) for row in rows)

    return _from_api(find, of_node=of_node)


def _items(answer: Any) -> list[Row]:
    items: list[Row] = answer["items"] if isinstance(answer, dict) else answer
    return items


def _page(get: Get, path: str, incomplete: str) -> list[Row]:
    """The part of a long list that begins with ``incomplete``."""
    after = base64.urlsafe_b64encode(json.dumps([incomplete]).encode()).decode()
    return _items(
        get(f"{path}?{urlencode({'limit': MAX_VALUES, **({'after': after} if incomplete else {})})}")
    )


def _topics(get: Get, incomplete: str) -> Iterator[tuple[str, str]]:
    """Topics of retained messages, and filters without wildcards."""
    names = {row["topic"] for row in _page(get, "retained", incomplete)}
    for row in _page(get, "topics", incomplete):
        if not set(row["filter"]) & set("+#") and not row["filter"].startswith("$share/"):
            names.add(row["filter"])
    yield from ((name, "") for name in sorted(names))


def _processes(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        says = " ".join(filter(None, (row["label"], row["note"])))
        if row["name"]:
            yield row["name"], says
        yield row["pid"].strip("<>").rpartition(".")[2], says
        yield from _processes(row["children"])


nodes = _listed("nodes", "name", "{status}")
clients = _listed("clients", "client", "on {node}", paged=True)
filters = _listed("topics", "filter", paged=True)
retained = _listed("retained", "topic", paged=True)
topics = _from_api(_topics)
tables = _listed("tables", "name", "{rows} rows")
tokens = _listed("tokens", "id", "{name}, {role}")
queues = _listed("queues", "name", "{depth} messages")
tenants = _listed("tenants", "tenant", "at {node}", paged=True)
features = _listed("features", "name", "{does}")
keys = _from_api(lambda get, _: ((name, "") for name in get("cluster/keys")["keys"]))
quarantined = _listed(f"autoheal/quarantine?limit={MAX_VALUES}", "id", "{table} {key}")
alarms = _listed(f"alarms?limit={MAX_VALUES}", "name", "{text}")
drills = _listed("drills", "id", "{state}", of_node=True)
audits = _listed("audit/reports", "id", "{state}", of_node=True)
processes = _from_api(lambda get, _: _processes(get("processes?fold=20")), of_node=True)


# -- the scripts

_TYPER = "typer.completion"
SHELLS = ("bash", "zsh", "fish")

_ZSH_AUTOLOADED = '\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _gossamer_completion "$@"\n'


@example("--install", "bash > gossamer.bash")
def completion(
    shell: str | None = typer.Argument(
        None, metavar="SHELL", help="bash, zsh or fish (default: yours).", autocompletion=known(*SHELLS)
    ),
    install: bool = typer.Option(False, "--install", help="Install it for this user instead of printing it."),
) -> None:
    """Print or install the completion script of a shell."""
    name = shell or _shell_of_user()
    if name not in SHELLS:
        raise OptionError("SHELL", got=name, expected=f"one of {', '.join(SHELLS)}")
    if not install:
        sys.stdout.write(_script(name))
        return
    try:
        _, path = import_module(_TYPER).install(shell=name, prog_name="gossamer")
        path.write_text(_script(name), encoding="utf-8")
    except OSError as error:
        advice = "put the output of `gossamer completion SHELL` there yourself"
        raise FileError(str(error.filename), error, advice=advice) from error
    typer.echo(path)
    typer.echo(f"installed for {name}; open a new shell and press TAB after gossamer", err=True)


def _script(shell: str) -> str:
    if shell == "bash":
        return (files("gossamer.cli") / "completion.bash").read_text(encoding="utf-8")
    make: Callable[..., str] = import_module(_TYPER).get_completion_script
    script = make(prog_name="gossamer", complete_var="_GOSSAMER_COMPLETE", shell=shell)
    return script + (_ZSH_AUTOLOADED if shell == "zsh" else "\n")


def _shell_of_user() -> str:
    detection = import_module("shellingham")
    try:
        return str(detection.detect_shell()[0])
    except detection.ShellDetectionFailure:
        return ""
