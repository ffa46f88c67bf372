"""Errors that keep an audit job from running, each with what to do about it."""

from __future__ import annotations

from gossamer.errors import UnavailableError, UsageError, how_to_install


def missing_package(name: str, *, extra: str = "spark") -> UnavailableError:
    """A package of Python's that the jobs need is not installed."""
    return UnavailableError(f"audit jobs need {name}, which is not installed; {how_to_install(extra)}")


class UnreadableError(UnavailableError):
    """A file that cannot be read at all."""

    def __init__(self, *, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}")


class SparkFailedError(UnavailableError):
    """Spark, or what it stands on, gave up: no such cluster, no driver for a file system."""

    def __init__(self, *, why: str) -> None:
        self.why = why
        advice = (
            "Check --master, the paths of --dir and --out, and the settings of Spark for them; "
            "--trace prints where it happened"
        )
        if "Class org.apache.hadoop.fs." in why and "not found" in why:
            advice = (
                "Spark has no driver for that file system; --conf spark.jars.packages=GROUP:NAME:VERSION "
                "brings one (for s3a: org.apache.hadoop:hadoop-aws of the version of Spark's own Hadoop)"
            )
        if "stopped SparkContext" in why:
            why = "it ended as soon as it began, as it does when no master answers at --master"
        super().__init__(f"Spark gave up: {why}. {advice}")


class NoDataError(UsageError):
    """Nothing was recorded at the given place or time."""

    def __init__(self, *, where: str, found: str) -> None:
        self.where = where
        self.found = found
        super().__init__(
            f"no recorded events in {where}; found {found}. "
            "Expected what recorders write: day=…/hour=…/node=…/*.parquet below audit.dir of each node. "
            "Check --dir, --from and --to, and that audit.enable is on"
        )
