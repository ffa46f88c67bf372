"""Audit jobs: what the recorders of all nodes wrote, joined by Spark or DuckDB into verdicts.

Stands beside the house: it runs in a process of its own, on a laptop or a cluster, and knows of the broker
only what ``gossamer.audit.schema`` says.
"""

from gossamer.spark.analyses.completeness import Terms, verdicts
from gossamer.spark.engine.chosen import open_engine
from gossamer.spark.engine.engine import Engine
from gossamer.spark.engine.on_duckdb import DuckEngine
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.engine.session import open_session
from gossamer.spark.errors import EngineMissingError, JavaMissingError, NoDataError, TooLittleMemoryError
from gossamer.spark.source.files import FileProblem
from gossamer.spark.source.holes import Hole
from gossamer.spark.source.source import Recording, load

__all__ = [
    "DuckEngine",
    "Engine",
    "EngineMissingError",
    "FileProblem",
    "Hole",
    "JavaMissingError",
    "NoDataError",
    "Recording",
    "SparkEngine",
    "Terms",
    "TooLittleMemoryError",
    "load",
    "open_engine",
    "open_session",
    "verdicts",
]
