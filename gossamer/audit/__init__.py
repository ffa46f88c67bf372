"""The flow recorder: what happened to each message, as Parquet (``schema`` says what stands in it)."""

from gossamer.audit.files import EventFile, arrow_schema, partition_of
from gossamer.audit.recorder import Recorder
from gossamer.audit.sampler import Sampler
from gossamer.audit.tape import KINDS, Tape
from gossamer.audit.trail import Trail
from gossamer.audit.writer import Limits

__all__ = [
    "KINDS",
    "EventFile",
    "Limits",
    "Recorder",
    "Sampler",
    "Tape",
    "Trail",
    "arrow_schema",
    "partition_of",
]
