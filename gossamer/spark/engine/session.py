"""A Spark session that suits the machine: tuned when it is local, the cluster's own settings otherwise.

Rules: 1. A local master gets a fixed amount of memory, listens on loopback only, and has no web page.
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
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gossamer.errors import UnavailableError, UsageError
from gossamer.spark.errors import NoDataError, missing_package

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAVA = 17
_LEAST, _MOST = 2**30, 8 * 2**30
"""Bytes of heap by default, at least and at most."""
JAVA_OPTIONS = f"-Xss4m -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
_LITTLE = 24 * 2**20
"""Bytes of files, one or two million events, up to which a JVM should not try to become fast."""
_SMALL = 200_000
_ROWS = 250_000
"""Events that a task of a shuffle should have, about: they fit into its share of the heap."""
_OVERHEAD = 512 * 2**20
"""Bytes of a JVM beside its heap."""
_SMALLEST = 512 * 2**20
_NOTHING = (
    "WARNING: Using incubator modules",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "Setting Spark log level to",
    "To adjust logging level use",
    "Picked up JAVA_TOOL_OPTIONS",
    "Picked up _JAVA_OPTIONS",
)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


def open_session(
    *,
    master: str | None = None,
    memory: str | None = None,
    brief: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on ``master`` (default: what spark-submit says, else every core of this machine).

    ``memory`` is the heap of a local master, as Spark writes sizes (``2g``, ``800m``); default: half of what
    the machine has free, between 1 and 8 GiB. ``brief``: a local JVM need not get faster, since what it reads
    is little (``is_little``). ``settings`` are Spark's own, and go before all others.

    Raises:
        UnavailableError: PySpark is not installed, there is no Java that is new enough, or ``memory`` does
            not fit into what is free.
    """
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise missing_package(error.name or "pyspark") from error
    below_submit = submitted()
    if master is None and not below_submit:
        master = "local[*]"
    wanted = {"spark.app.name": "gossamer audit", "spark.sql.session.timeZone": "UTC"}
    if master is not None:
        wanted["spark.master"] = master
    if master is not None and master.startswith("local") and not below_submit:
        check_java()
        memory = check_memory(memory)
        wanted |= _local_settings(memory, cores_of(master), brief=brief)
        # The workers must be the interpreter that runs this, not whatever python3 is first in PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif not below_submit:
        # As below, but before there is a session; how it logs otherwise is the cluster's operator's affair.
        wanted["spark.log.level"] = "ERROR"
    wanted |= settings or {}
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    if not below_submit:
        _launch(SparkConf(loadDefaults=False).setAll(list(wanted.items())))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def submitted() -> bool:
    """Return whether this program was started by ``spark-submit``."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def is_little(where: str) -> bool:
    """Return whether ``where`` is a local directory so small that a brief JVM is faster."""
    size = size_of(where, most=_LITTLE)
    return size is not None and size <= _LITTLE


def size_of(where: str, *, most: int) -> int | None:
    """Bytes of Parquet below a directory here, counted until there are more than ``most``; None: not here."""
    path = path_here(where)
    if path is None:
        return None
    size = 0
    for file in path.rglob("*.parquet"):
        try:
            size += file.stat().st_size
        except OSError:
            continue
        if size > most:
            break
    return size


def fit(session: SparkSession, events: int) -> None:
    """Set a local Spark to the size of what it works on; a cluster is its operator's.

    Large: shuffles in so many parts that each fits into a task's share of the heap. Small: what Spark does to
    be fast later (compiling each stage, planning anew after each) takes longer than the work.
    """
    if not (session.sparkContext.master or "").startswith("local"):
        return
    small = events < _SMALL
    parallel = session.sparkContext.defaultParallelism
    parts = parallel if small else max(2 * parallel, events // _ROWS)
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    asked = session.sparkContext.getConf()
    for key in ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"):
        session.conf.set(key, "false" if small else asked.get(key, "true"))


def cores_of(master: str) -> int:
    """Return the number of processors of a local master."""
    found = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


def _local_settings(memory: str, cores: int, *, brief: bool) -> dict[str, str]:
    # The second compiler takes as long as the work itself where that is a minute of one core.
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1" if brief else "-XX:+UseParallelGC"
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
        "spark.driver.extraJavaOptions": f"{java} {JAVA_OPTIONS}",
    }


def path_here(where: str) -> Path | None:
    """``where`` as a path of this machine; None: it is one of another file system."""
    place = urlsplit(where)
    if place.scheme not in ("", "file"):
        return None
    return Path(unquote(place.path) if place.scheme else where)


def check_files(where: str, *, yet: bool = False) -> None:
    """See that there is something to read, where that is a place on this machine; only Spark knows others.

    ``yet``: the directory is there, and files may still come.

    Raises:
        NoDataError: there is no such directory, or no file in it.
    """
    path = path_here(where)
    if path is None or "HADOOP_CONF_DIR" in os.environ:
        return
    if not path.exists():
        raise NoDataError(where=where, found="no such directory")
    if not path.is_dir() and path.suffix != ".parquet":
        raise NoDataError(where=where, found="a file that is not Parquet")
    if path.is_dir() and not yet and next(path.rglob("*.parquet"), None) is None:
        raise NoDataError(where=where, found="no Parquet files")


def check_java() -> None:
    """See that there is a Java that Spark takes.

    Raises:
        UnavailableError: there is none, or it is older.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        found = f"none at JAVA_HOME={home}" if home else "none in PATH"
    else:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
        version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
        if version is not None and int(version[1]) >= JAVA:
            return
        found = f"Java {version[1]} at {java}" if version else f"{java}, which does not say its version"
    raise UnavailableError(
        f"Spark needs Java {JAVA} or newer, found {found}; "
        "install one (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME to it"
    )


def bytes_of(asked: str) -> int:
    """A size as Spark writes it.

    Raises:
        UsageError: it is none.
    """
    number = re.fullmatch(r"(\d+)([kmg])b?", asked.lower())
    if number is None:
        raise UsageError(f"--memory: got {asked!r}, expected a size as Spark writes it, such as 2g or 800m")
    return int(number.group(1)) * _UNITS[number.group(2)]


def check_memory(asked: str | None, *, meminfo: Path = Path("/proc/meminfo")) -> str:
    """The heap to take: ``asked``, or half of what is free; and that it fits into what is available.

    Raises:
        UsageError: ``asked`` is no size.
        UnavailableError: it does not fit.
    """
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text()) if meminfo.exists() else None
    free = int(found.group(1)) * 1024 if found else None
    if asked is None:
        wanted = _LEAST if free is None else max(_LEAST, min(_MOST, free // 2))
        asked = f"{wanted // 2**20}m"
    heap = bytes_of(asked)
    if heap < _SMALLEST:
        raise UsageError(f"--memory: got {asked!r}, expected 512m or more: Spark starts with no less")
    if free is not None and free < heap + _OVERHEAD:
        raise UnavailableError(
            f"a local Spark with --memory {asked} needs {(heap + _OVERHEAD) // 2**20} MiB, this machine has "
            f"{free // 2**20} MiB free; close something, give a smaller --memory, or another --master"
        )
    return asked


def means_nothing(line: str) -> bool:
    """Return whether a line appears at every start."""
    return line.startswith(_NOTHING)


def _launch(conf: SparkConf) -> None:
    """Start the JVM that Spark's next session of this process is in; nothing where there is one already.

    Java tells of a module that Spark asks for, and Spark's launcher of log levels of a shell that this is
    not; neither has a setting that turns it off. So the JVM gets a pipe as its standard error, of which a
    thread passes on the rest, to ``sys.stderr`` as it is at that moment. Only lines that are known to mean
    nothing are left out: whatever else a JVM has to say is shown, as it dies above all.
    """
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
    # Bars of progress are lines that end where they began.
    with open(source, encoding="utf-8", errors="replace", newline="") as lines:
        for line in lines:
            if not means_nothing(line):
                sys.stderr.write(line)
                sys.stderr.flush()
