"""Audit jobs: recordings of all nodes, joined by Spark or DuckDB into verdicts.

It is separate from the broker: it runs in a process of its own, on a laptop or a cluster, and depends only on
``gossamer.audit.schema``.
"""

from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.engine import open_engine
from gossamer.spark.engine.on_duckdb import DuckEngine
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.engine.session import open_session
from gossamer.spark.source.source import load

__all__ = ["DuckEngine", "SparkEngine", "load", "open_engine", "open_session", "verdicts"]
