"""What all tests share: fixtures of the simulator and of processes, the same examples in CI."""

import os

import pytest
import structlog
from hypothesis import settings

pytest_plugins = ["gossamer.testing.plugin", "tests.supervisor.harness"]

# At a desk every run tries new examples, and what it finds is kept as a test. Continuous integration judges
# the change at hand, so there the examples are always the same.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _logging_stays():
    """What a test, or what it runs, sets up of the log is gone with it: others read theirs."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
