"""The flow recorder: what happened to each message, as Parquet (``schema`` says what stands in it).

What is named here is imported when it is asked for: the writer's process needs little of it, and jobs on a
cluster without a broker nothing but the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.audit.event_buffer import KINDS, EventBuffer, Row
    from gossamer.audit.files import EventFile
    from gossamer.audit.flow_recorder import FlowRecorder
    from gossamer.audit.queue_events import QueueEvents
    from gossamer.audit.recorder import Recorder
    from gossamer.audit.sampler import Sampler
    from gossamer.audit.service import Auditor, key_of
    from gossamer.audit.watch import CLOCK, WATCH
    from gossamer.audit.writer import Limits

__all__ = [
    "CLOCK",
    "KINDS",
    "WATCH",
    "Auditor",
    "EventBuffer",
    "EventFile",
    "FlowRecorder",
    "Limits",
    "QueueEvents",
    "Recorder",
    "Row",
    "Sampler",
    "key_of",
]

__getattr__, __dir__ = lazy(__name__)
