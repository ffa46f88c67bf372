"""A replication group that has one queue."""

import pytest

from tests.queues.replica import Group


@pytest.fixture
def group():
    made = Group()
    made.define(limits={"max_depth": 5})
    return made
