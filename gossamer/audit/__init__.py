"""The flow recorder: what happened to each message, as Parquet (``schema`` says what stands in it)."""

from gossamer.audit.files import EventFile, arrow_schema, partition_of

__all__ = ["EventFile", "arrow_schema", "partition_of"]
