"""Audit jobs: what the recorders of all nodes wrote, joined by Spark or DuckDB into verdicts.

Stands beside the house: it runs in a process of its own, on a laptop or a cluster, and knows of the broker
only what ``gossamer.audit.schema`` says.
"""

from gossamer.spark.chosen import open_engine
from gossamer.spark.completeness import Terms, verdicts
from gossamer.spark.engine import Engine
from gossamer.spark.errors import EngineMissingError, JavaMissingError, NoDataError, TooLittleMemoryError
from gossamer.spark.files import FileProblem
from gossamer.spark.holes import Hole
from gossamer.spark.onduck import DuckEngine
from gossamer.spark.onspark import SparkEngine
from gossamer.spark.session import open_session
from gossamer.spark.source import Recording, load

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
