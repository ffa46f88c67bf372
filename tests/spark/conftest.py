"""One local Spark for all tests of the jobs, since a JVM takes ten seconds to start; and DuckDB beside it."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")

ON_SPARK = pytest.mark.spark


@pytest.fixture(scope="session")
def spark():
    from gossamer.spark import SparkEngine, open_session

    engine = SparkEngine(open_session(master="local[2]", memory="1g", brief=True))
    engine.fit(0)
    # Small histories: partitions cost more than what is in them.
    engine.session.conf.set("spark.sql.shuffle.partitions", "2")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def duck():
    from gossamer.spark import DuckEngine

    engine = DuckEngine(memory="1g")
    yield engine
    engine.close()


@pytest.fixture(scope="session", params=["duck", pytest.param("spark", marks=ON_SPARK)])
def engine(request):
    """Each of the two: a test that takes it holds both to the same."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def together(tmp_path_factory):
    """Where one recording of several worlds is, and them."""
    from tests.spark.together import write_together

    root = tmp_path_factory.mktemp("together")
    return root, write_together(root)


@pytest.fixture(
    scope="session",
    params=["duck", pytest.param("spark", marks=ON_SPARK), pytest.param("salted", marks=ON_SPARK)],
)
def judged(request, together):
    """Verdicts on all of them; also where every topic that has two messages in a slot is salted."""
    from gossamer.spark import load, verdicts
    from gossamer.spark.analyses.owed import SALTED_FROM
    from tests.spark.together import Together

    salted = request.param == "salted"
    engine = request.getfixturevalue("spark" if salted else request.param)
    root, worlds = together
    recording = load(engine, str(root))
    found = engine.rows(verdicts(recording, salted_from=1 if salted else SALTED_FROM))
    return Together(worlds, recording, found)


@pytest.fixture(scope="session")
def holed(engine, tmp_path_factory):
    """Worlds of which something was not recorded, and what is judged of them."""
    from gossamer.spark import load, verdicts
    from tests.spark.together import Together, write_holed

    root = tmp_path_factory.mktemp("holed")
    worlds = write_holed(root)
    recording = load(engine, str(root))
    return Together(worlds, recording, engine.rows(verdicts(recording)))


def pytest_collection_modifyitems(items):
    """A JVM on a machine that others use too is slow, and not hung."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(900))
