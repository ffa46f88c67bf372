"""Which pages there are, and whether those in a directory are what the code says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from script.references.cli import cli_page
from script.references.config import config_page
from script.references.events import events_page
from script.references.http import http_page
from script.references.metrics import metrics_page
from script.references.node import a_node
from script.references.python import python_page
from script.references.supervisor import supervisor_page

_NOTE = "<!-- Made from the code by `python -m script.references`; edit that, not this. -->"


def pages() -> Mapping[str, str]:
    """The text of each page by its file's name."""
    node = a_node()
    made: dict[str, Callable[[], str]] = {
        "config.md": config_page,
        "cli.md": cli_page,
        "http.md": lambda: http_page(node.app),
        "metrics.md": lambda: metrics_page(node.metrics),
        "events.md": events_page,
        "python.md": python_page,
        "supervisor.md": supervisor_page,
    }
    return {name: f"{_NOTE}\n\n{page().strip()}\n" for name, page in made.items()}


def stale(directory: Path) -> list[str]:
    """The pages that ``directory`` does not have as they are."""
    return [name for name, text in pages().items() if _text(directory / name) != text]


def write(directory: Path) -> list[str]:
    """Make those as they are; which ones were not."""
    made = pages()
    changed = [name for name, text in made.items() if _text(directory / name) != text]
    for name in changed:
        (directory / name).write_text(made[name], encoding="utf-8")
    return changed


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None
