"""Audit jobs: what the recorders of all nodes wrote, joined by Spark into verdicts.

Stands beside the house: it runs in a process of its own, on a laptop or a cluster, and knows of the broker
only what ``gossamer.audit.schema`` says.
"""

from gossamer.spark.completeness import Terms, verdicts
from gossamer.spark.errors import JavaMissingError, NoDataError, SparkMissingError, TooLittleMemoryError
from gossamer.spark.files import FileProblem
from gossamer.spark.holes import Hole
from gossamer.spark.session import fit, open_session
from gossamer.spark.source import Recording, load

__all__ = [
    "FileProblem",
    "Hole",
    "JavaMissingError",
    "NoDataError",
    "Recording",
    "SparkMissingError",
    "Terms",
    "TooLittleMemoryError",
    "fit",
    "load",
    "open_session",
    "verdicts",
]
