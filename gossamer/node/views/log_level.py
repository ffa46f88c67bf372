"""How much this process logs, changed while it runs. Several nodes in one process share it."""

from __future__ import annotations

import logging

import structlog

__all__ = ["log_level"]

_WORDS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning", logging.ERROR: "error"}


def log_level(level: str | None = None) -> str:
    """The level, after ``level`` was made it: debug, info, warning or error."""
    root = logging.getLogger("gossamer")
    if level is not None:
        number = logging.getLevelNamesMapping()[level.upper()]
        root.setLevel(number)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))
    return _WORDS.get(root.getEffectiveLevel(), "info")
