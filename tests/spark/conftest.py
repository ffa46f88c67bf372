"""One local Spark for all tests of the jobs: a JVM takes ten seconds to start."""

import pytest

pytest.importorskip("pyspark")


@pytest.fixture(scope="session")
def spark():
    from gossamer.spark.session import open_session

    session = open_session(master="local[2]", memory="1g", name="tests")
    # Small histories: partitions cost more than what is in them.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield session
    session.stop()
