"""Which process says something: two fields of every log line that is written inside one.

``process`` is its pid, ``process_name`` the name it is registered under, or what else it is called. Lines
that are about some other process name that as ``pid``.
"""

from __future__ import annotations

from typing import Any

from gossamer.supervisor.process import current

__all__ = ["log_process"]


def log_process(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Add the pid and the name of the running process to a log event; a processor for structlog."""
    entry = current.get(None)
    if entry is not None:
        event["process"] = str(entry.pid)
        event["process_name"] = entry.name or entry.label
    return event
