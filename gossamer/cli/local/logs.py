"""Logging of a node: destination, format, fields of every line, and redaction of secrets.

It goes to standard error, for people on a terminal, as JSON otherwise. Secrets are kept out three times: by
the name of a field (``password``, ``token``, …), by how a value looks (a JSON Web Token, ``Bearer …``), and
by the secrets of this node's own configuration, wherever they stand.

Rules: 1. A log that cannot be written costs its lines and nothing else: on a full disc, the process that
wants to say so must not end of saying it.  2. Bytes are shown by their length, since nobody can tell what is
in them.  3. On a terminal a value is one line and moves nothing: client identifiers, topics and names are
shown, never obeyed.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import structlog
from pydantic import BaseModel, SecretStr
from structlog.typing import EventDict, Processor, WrappedLogger

from gossamer.config import LogConfig
from gossamer.supervisor import is_secret, log_process

HIDDEN = "***"
_SHORTEST = 8
"""A shorter secret is looked for nowhere: it would blot out words."""
_DEPTH = 4
_LOOKS_SECRET = re.compile(
    r"""eyJ[\w-]+\.[\w-]*\.[\w-]*                       # a JSON Web Token
    | (?<=Bearer\ )\S+ | (?<=Basic\ )[\w+/=]{8,}        # an Authorization header
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                   # user and password of a URL
    | (?<=[?&]token=)[^&\s]+ | (?<=[?&]access_token=)[^&\s]+
    | \$argon2\w*\$[^\s'"]+                             # a password's hash
    | -----BEGIN[ ][\w ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][\w ]*-----|$)
    """,
    re.VERBOSE | re.DOTALL,
)


def add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the current trace, if OpenTelemetry has one."""
    # A program with spans has imported it; others need not.
    api = sys.modules.get("opentelemetry.trace")
    if api is not None and "trace_id" not in event:
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            event["trace_id"] = f"{context.trace_id:032x}"
            event["span_id"] = f"{context.span_id:016x}"
    return event


def secrets_in(value: object) -> Iterator[str]:
    """Every secret of a configuration, or of a part of one."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel | dict):
        for _, inner in value.items() if isinstance(value, dict) else value:
            yield from secrets_in(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from secrets_in(inner)


def redact(secrets: Iterable[str] = ()) -> Processor:
    """Takes out what must not be read: goes last, when texts are what they will be."""
    known = sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def clean(value: object, depth: int) -> object:
        match value:
            case str():
                text = _LOOKS_SECRET.sub(HIDDEN, value)
                return text if pattern is None else pattern.sub(HIDDEN, text)
            case bool() | int() | float() | None:
                return value
            case bytes() | bytearray() | memoryview():
                return f"{len(value)} bytes"
            case dict() if depth:
                return {
                    key: HIDDEN if hides(key, inner) else clean(inner, depth - 1)
                    for key, inner in value.items()
                }
            case list() | tuple() | set() | frozenset() if depth:
                return [clean(inner, depth - 1) for inner in value]
            case _:
                return clean(str(value), 0)

    def hides(key: object, value: object) -> bool:
        return isinstance(value, (str, bytes, SecretStr)) and is_secret(str(key))

    def processor(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {
            key: value
            if key.startswith("_")
            else HIDDEN
            if key != "event" and hides(key, value)
            else clean(value, _DEPTH)
            for key, value in event.items()
        }

    return processor


class Unfailing:
    """Stream that drops text that it cannot write, and reports how much once it can again."""

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
        # A line that is about another node says that with the same word, and keeps it.
        *([lambda _logger, _method, event: {"node": node, **event}] if node is not None else ()),
        log_process,
        add_trace,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
        if for_people
        else structlog.processors.JSONRenderer()
    )
    last: list[Processor] = [structlog.processors.format_exc_info, redact(secrets)]
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


def _lay_out(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Lay out an event as text: without empty fields, and with tracebacks as lines below."""
    shown = {key: value for key, value in event.items() if value not in (None, "")}
    if "traceback" in shown:
        shown["exception"] = shown.pop("traceback").rstrip()
    return {key: _harmless(key, value) for key, value in shown.items()}


_LINES = frozenset({"exception", "stack"})
"""Fields of several lines."""


def _harmless(key: str, value: object) -> object:
    """Return ``value`` with escapes for whatever a terminal or a reader of lines would obey."""
    if not isinstance(value, str) or value.isprintable():
        return value
    kept = "\n" if key in _LINES else ""
    return "".join(one if one.isprintable() or one in kept else repr(one)[1:-1] for one in value)
