from pathlib import Path

import pytest

from real.harness import Cluster


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes that all tests of a module share, and leave as they found them."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
