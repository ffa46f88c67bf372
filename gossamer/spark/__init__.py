"""Audit jobs: what the recorders of all nodes wrote, joined by Spark or DuckDB into verdicts.

Stands beside the house: it runs in a process of its own, on a laptop or a cluster, and knows of the broker
only what ``gossamer.audit.schema`` says.
"""

from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.engine import open_engine
from gossamer.spark.engine.on_duckdb import DuckEngine
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.engine.session import open_session
from gossamer.spark.source.source import load

__all__ = ["DuckEngine", "SparkEngine", "load", "open_engine", "open_session", "verdicts"]
