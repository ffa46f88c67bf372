"""Where a node's log goes and how it looks: standard error, for people on a terminal, JSON otherwise.

Rule: a log that cannot be written costs its lines and nothing else. On a full disc, the process that wants to
say so must not end of saying it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import structlog

from gossamer.cli.local.log_fields import add_trace, name_node, redact
from gossamer.config import LogConfig
from gossamer.supervisor import log_process

__all__ = ["Unfailing", "set_up_logging"]


class Unfailing:
    """A stream that loses what it cannot write, and says how much once it can again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def write(self, text: str) -> int:
        """Write ``text``, or count it as lost."""
        try:
            if self.lost:
                self._stream.write(f"{self.lost} pieces of the log were lost, which could not be written\n")
                self.lost = 0
            return self._stream.write(text)
        except OSError:
            self.lost += 1
            return len(text)

    def flush(self) -> None:
        """Write out what waits, if that can be done."""
        try:
            self._stream.flush()
        except OSError:
            self.lost += 1


def set_up_logging(config: LogConfig, *, node: str | None = None, secrets: Iterable[str] = ()) -> None:
    """Point structlog, and libraries that use the standard library's logging, at standard error.

    ``node`` stands in every line, and none of ``secrets`` in any.
    """
    level = getattr(logging, config.level.upper())
    for_people = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *([name_node(node)] if node is not None else ()),
        log_process,
        add_trace,
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
        if for_people
        else structlog.processors.JSONRenderer()
    )
    last: list[Any] = [structlog.processors.format_exc_info, redact(secrets)]
    if for_people:
        last.append(_lay_out)
    structlog.configure(
        processors=[*shared, *last, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(Unfailing(sys.stderr)),  # type: ignore[arg-type]
        # Not kept by who logs, so that the level can change while the node runs.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.getLogger("gossamer").setLevel(level)
    # Libraries have little to say that a node does not say better.
    root.setLevel(max(level, logging.WARNING))


def _lay_out(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """For people: without fields that say nothing, and tracebacks as lines below the others."""
    shown = {key: value for key, value in event.items() if value not in (None, "")}
    if "traceback" in shown:
        shown["exception"] = shown.pop("traceback").rstrip()
    return shown
