"""One local Spark for all tests of the jobs: a JVM takes ten seconds to start."""

import pytest

pytest.importorskip("pyspark")


@pytest.fixture(scope="session")
def spark():
    from gossamer.spark.session import fit, open_session

    session = open_session(master="local[2]", memory="1g", name="tests", brief=True)
    fit(session, 0)
    # Small histories: partitions cost more than what is in them.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """A JVM on a machine that others use too is slow, and not hung."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(600))
