"""The flow recorder: what happened to each message, as Parquet (``schema`` says what stands in it).

What is named here is imported when it is asked for: the writer's process needs little of it, and jobs on a
cluster without a broker nothing but the schema.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.audit.files import EventFile, arrow_schema, partition_of
    from gossamer.audit.offsets import CLOCK
    from gossamer.audit.recorder import Recorder
    from gossamer.audit.sampler import Sampler
    from gossamer.audit.service import Auditor, AuditUnavailableError, key_of
    from gossamer.audit.tape import KINDS, Tape
    from gossamer.audit.trail import Trail
    from gossamer.audit.watch import WATCH
    from gossamer.audit.writer import Limits

__all__ = [
    "CLOCK",
    "KINDS",
    "WATCH",
    "AuditUnavailableError",
    "Auditor",
    "EventFile",
    "Limits",
    "Recorder",
    "Sampler",
    "Tape",
    "Trail",
    "arrow_schema",
    "key_of",
    "partition_of",
]

_WHERE = {
    "CLOCK": "offsets",
    "KINDS": "tape",
    "WATCH": "watch",
    "AuditUnavailableError": "service",
    "Auditor": "service",
    "EventFile": "files",
    "Limits": "writer",
    "Recorder": "recorder",
    "Sampler": "sampler",
    "Tape": "tape",
    "Trail": "trail",
    "arrow_schema": "files",
    "key_of": "service",
    "partition_of": "files",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"gossamer.audit.{_WHERE[name]}"), name)
