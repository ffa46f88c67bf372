"""The JVM of a local Spark, started so that it does not say what it says to everybody at every start.

Java tells of a module that Spark asks for, and Spark's launcher of log levels of a shell that this is not;
neither has a setting that turns it off. So the JVM gets a pipe as its standard error, of which a thread
passes on the rest.

Rules: 1. Only lines that are known to mean nothing are left out: whatever else a JVM has to say is shown, as
it dies above all.  2. What is passed on goes to ``sys.stderr`` as it is at that moment, so that bars of
progress are not broken by it.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

__all__ = ["launch", "means_nothing"]

_NOTHING = (
    "WARNING: Using incubator modules",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "Setting Spark log level to",
    "To adjust logging level use",
    "Picked up JAVA_TOOL_OPTIONS",
    "Picked up _JAVA_OPTIONS",
)


def means_nothing(line: str) -> bool:
    """Whether a line is one that every start brings."""
    return line.startswith(_NOTHING)


def launch(conf: Any) -> None:
    """Start the JVM that Spark's next session of this process is in; nothing where there is one already."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    ours, theirs = os.pipe()
    thread = threading.Thread(target=_pass_on, args=(ours,), name="what Java says", daemon=True)
    thread.start()
    try:
        gateway = launch_gateway(conf, {"stderr": theirs})  # type: ignore[no-untyped-call]
    finally:
        os.close(theirs)
    SparkContext._ensure_initialized(gateway=gateway)


def _pass_on(source: int) -> None:
    with open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not means_nothing(line):
                sys.stderr.write(line)
                sys.stderr.flush()
