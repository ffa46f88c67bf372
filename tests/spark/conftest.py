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


@pytest.fixture(scope="session")
def shared(spark, tmp_path_factory):
    """One recording of several worlds, and them."""
    from gossamer.spark.source import load
    from tests.spark.together import write_together

    root = tmp_path_factory.mktemp("together")
    worlds = write_together(root)
    return load(spark, str(root)), worlds


@pytest.fixture(scope="session", params=[False, True], ids=["as it comes", "salted"])
def judged(request, shared):
    """Verdicts on all of them; also where every topic that has two messages in a slot is salted."""
    from gossamer.spark.completeness import verdicts
    from gossamer.spark.owed import SALTED_FROM
    from tests.spark.together import Together

    recording, worlds = shared
    found = verdicts(recording, salted_from=1 if request.param else SALTED_FROM).collect()
    return Together(worlds, recording, found)


@pytest.fixture(scope="session")
def holed(spark, tmp_path_factory):
    """Worlds of which something was not recorded, and what is judged of them."""
    from gossamer.spark.completeness import verdicts
    from gossamer.spark.source import load
    from tests.spark.together import Together, write_holed

    root = tmp_path_factory.mktemp("holed")
    worlds = write_holed(root)
    recording = load(spark, str(root))
    return Together(worlds, recording, verdicts(recording).collect())


def pytest_collection_modifyitems(items):
    """A JVM on a machine that others use too is slow, and not hung."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(600))
