"""A Spark session that suits the machine: tuned when it is local, the cluster's own settings otherwise.

Rules: 1. A local master gets memory it is told and no more, listens on loopback only, and has no web page.
2. For any other master, or below ``spark-submit``, nothing is set that an operator may have set: only the
time zone, which the jobs' results depend on.  3. What is missing (Java, memory) is found before the JVM is
started, since its own way to say so is a page of trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gossamer.spark.errors import JavaMissingError, SparkMissingError, TooLittleMemoryError

__all__ = ["open_session"]

JAVA = 17
_OVERHEAD = 512 * 2**20
"""Bytes of a JVM beside its heap."""
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


def open_session(
    *, master: str | None = None, memory: str = "2g", name: str = "gossamer audit", cores: int | None = None
) -> Any:
    """A session on ``master`` (default: what spark-submit says, else every core of this machine).

    ``memory`` is the heap of a local master, as Spark writes sizes (``2g``, ``800m``).

    Raises:
        SparkMissingError: PySpark is not installed.
        JavaMissingError: there is no Java, or it is too old.
        TooLittleMemoryError: ``memory`` does not fit into what is free.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise SparkMissingError(missing=error.name or "pyspark") from error
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = "local[*]"
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local") and not submitted:
        check_java()
        check_memory(memory)
        for key, value in _local_settings(memory, cores or _cores(master)).items():
            builder = builder.config(key, value)
        # The workers must be the interpreter that runs this, not whatever python3 is first in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


def _local_settings(memory: str, cores: int) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Adaptive execution joins partitions that turn out small; many of them keep each within the heap.
        "spark.sql.shuffle.partitions": str(max(8, 8 * cores)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.skewJoin.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.maxPartitionBytes": "64m",
        "spark.sql.autoBroadcastJoinThreshold": "32m",
        "spark.driver.extraJavaOptions": (
            "-XX:+UseParallelGC -Xss4m"
            f" -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
        ),
    }


def check_java() -> int:
    """The major version of the Java that Spark will use.

    Raises:
        JavaMissingError: there is none, or it is older than Spark takes.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise JavaMissingError(found=f"none at JAVA_HOME={home}" if home else "none in PATH", needed=JAVA)
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        raise JavaMissingError(found=f"{java}, which does not say its version", needed=JAVA)
    major = int(found.group(1))
    if major < JAVA:
        raise JavaMissingError(found=f"Java {major} at {java}", needed=JAVA)
    return major


def check_memory(asked: str, *, meminfo: Path = Path("/proc/meminfo")) -> None:
    """See that a heap of ``asked`` fits into what is available.

    Raises:
        TooLittleMemoryError: it does not.
    """
    number = re.fullmatch(r"(\d+)([kmg])b?", asked.lower())
    if number is None or not meminfo.exists():
        return
    needed = int(number.group(1)) * _UNITS[number.group(2)] + _OVERHEAD
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
    if found and int(found.group(1)) * 1024 < needed:
        raise TooLittleMemoryError(free=int(found.group(1)) * 1024, needed=needed, asked=asked)
