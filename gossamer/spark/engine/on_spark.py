"""The jobs asked of Spark, on this machine or on a cluster of them; files are those that Hadoop reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import Row
from gossamer.spark.engine.session import fit
from gossamer.spark.errors import UnreadableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBERS = count(1)
"""Views are the session's, of which there may be several engines."""


class SparkEngine:
    """See ``Engine``."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._jvm: Any = session._jvm
        self._names: list[str] = []

    def list_files(self, where: str) -> list[str]:
        path, system = self._place(where)
        if not system.exists(path):
            return []
        found = system.listFiles(path, True)
        files = []
        while found.hasNext():
            file = found.next().getPath()
            # Names with a dot or an underscore in front are under way, or other programs' marks.
            if not file.getName().startswith((".", "_")) and file.getName().endswith(".parquet"):
                files.append(file.toString())
        return sorted(files)

    def metadata(self, path: str, names: Iterable[str]) -> dict[str, str]:
        from py4j.protocol import Py4JJavaError

        jvm, conf = self._jvm, self.session._jsc.hadoopConfiguration()
        try:
            file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
                jvm.org.apache.hadoop.fs.Path(path), conf
            )
            reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
            try:
                # Asked key by key: a whole map costs a call to the JVM for each of its entries and parts.
                told = reader.getFileMetaData().getKeyValueMetaData()
                return {key: value for key in names if (value := told.get(key)) is not None}
            finally:
                reader.close()
        except Py4JJavaError as error:
            raise UnreadableError(path=path, why=_why(error)) from error

    def ends(self, path: str) -> tuple[int, bytes, bytes]:
        from py4j.protocol import Py4JJavaError

        place, system = self._place(path)
        try:
            size = int(system.getFileStatus(place).getLen())
            stream = system.open(place)
            try:
                few = min(4, size)
                first, last = bytearray(few), bytearray(few)
                # A byte at a time: an array that Java fills does not come back over the bridge.
                for at, part in ((0, first), (size - few, last)):
                    stream.seek(at)
                    part[:] = bytes(stream.read() for _ in range(few))
                return size, bytes(first), bytes(last)
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise UnreadableError(path=path, why=_why(error)) from error

    def events(self, paths: Sequence[str]) -> str:
        # Columns that a file of an older minor version lacks come as null.
        frame = self.session.read.schema(schema.spark_schema()).parquet(*paths)
        return f"SELECT * FROM {self._named(frame)}"

    def literal(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def structs(self, rows: Sequence[Mapping[str, int | str]]) -> str:
        def written(value: int | str) -> str:
            return self.literal(value) if isinstance(value, str) else f"CAST({value} AS BIGINT)"

        each = (", ".join(f"'{key}', {written(value)}" for key, value in row.items()) for row in rows)
        return f"array({', '.join(f'named_struct({one})' for one in each)})"

    def view(self, question: str) -> str:
        return self._named(self.session.sql(question))

    def keep(self, question: str, *, large: bool = False) -> str:
        from pyspark import StorageLevel

        level = StorageLevel.DISK_ONLY if large else StorageLevel.MEMORY_AND_DISK_DESER
        return self._named(self.session.sql(question).persist(level))

    def table(self, columns: str, rows: Sequence[Sequence[object]]) -> str:
        return self._named(self.session.createDataFrame([tuple(row) for row in rows], columns))

    def rows(self, question: str) -> list[Row]:
        return [
            {name: _known(value) for name, value in row.asDict().items()}
            for row in self.session.sql(question).collect()
        ]

    def save(self, question: str, path: str) -> str:
        self.session.sql(question).write.mode("overwrite").parquet(path)
        return self.saved(path)

    def saved(self, path: str) -> str:
        """A name for what was written before."""
        return self._named(self.session.read.parquet(path))

    def write_text(self, path: str, text: str) -> None:
        target, system = self._place(path)
        stream = system.create(target, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def read_text(self, path: str) -> str | None:
        source, system = self._place(path)
        if not system.exists(source):
            return None
        stream = system.open(source)
        try:
            # As a string: bytes would come over the bridge as signed numbers.
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def fit(self, events: int) -> None:
        fit(self.session, events)

    def clear(self) -> None:
        self.session.catalog.clearCache()

    def forget(self) -> None:
        """Drop all views, and what was kept: one that goes on for days makes more and more of them."""
        self.clear()
        for name in self._names:
            self.session.catalog.dropTempView(name)
        self._names.clear()

    def close(self) -> None:
        self.session.stop()

    def remove(self, path: str) -> None:
        """A file or a directory with all that is in it, if it is there."""
        place, system = self._place(path)
        system.delete(place, True)

    def _named(self, frame: DataFrame) -> str:
        name = f"audit_{next(_NUMBERS)}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def _place(self, where: str) -> tuple[object, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(where)
        return path, path.getFileSystem(self.session._jsc.hadoopConfiguration())


def _why(error: Any) -> str:
    """The first line of what Java says."""
    return str(error.java_exception.getMessage() or error.java_exception).splitlines()[0]


def _known(value: object) -> object:
    # Spark hands times over in the zone of this process, without a word on it.
    return value.astimezone(UTC) if isinstance(value, datetime) else value
