"""The flow recorder: what happened to each message, as Parquet (``schema`` says what stands in it)."""

from gossamer.audit.files import EventFile, arrow_schema, partition_of
from gossamer.audit.recorder import Recorder
from gossamer.audit.tape import KINDS, Sampler, Tape
from gossamer.audit.writer import Limits

__all__ = ["KINDS", "EventFile", "Limits", "Recorder", "Sampler", "Tape", "arrow_schema", "partition_of"]
