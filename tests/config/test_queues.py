"""Queues in the configuration: what is wrong is said with the key that is to be corrected."""

import pytest

from gossamer.config import config_from, factors_of
from gossamer.errors import ConfigError


def test_a_queue_needs_a_name_alone():
    config = config_from({"queues": [{"name": "jobs"}]})
    assert config.queues[0].limits.max_depth == 100_000
    assert factors_of(config.cluster.raft, config.queues) == {"default": 3}


def test_queues_are_declared_by_environment():
    environ = {"GOSSAMER_QUEUES": '[{"name": "jobs"}]', "GOSSAMER_QUEUES__0__TYPE": "stream"}
    assert [(one.name, one.type) for one in config_from({}, environ=environ).queues] == [("jobs", "stream")]


def test_the_group_of_a_queue_is_made_unless_that_is_off():
    queues = [{"name": "jobs", "replication": {"group": "hot"}}]
    groups = {"cold": {"replication_factor": 5}}
    config = config_from({"queues": queues, "cluster": {"raft": {"groups": groups}}})
    assert factors_of(config.cluster.raft, config.queues) == {"default": 3, "cold": 5, "hot": 3}
    with pytest.raises(ConfigError) as wrong:
        config_from({"queues": queues, "cluster": {"raft": {"auto_provision_groups": False}}})
    assert "cluster.raft.groups.hot" in str(wrong.value)
    assert "queue jobs" in str(wrong.value)


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ([{"name": "a/b"}], "a name of letters"),
        (
            [{"name": "a", "replication": {"group": "hot"}}, {"name": "a.dlq"}],
            "queue a and a.dlq, which its dead letters go to, in one replication.group",
        ),
        ([{"name": "a"}, {"name": "a"}], "each queue once; a is there twice"),
        ([{"name": "a", "max_age": "1h"}], "max_age where type is stream"),
        ([{"name": "a", "limits": {"max_bytes": 1024}}], "limits.max_bytes of limits.max_message_size"),
        ([{"name": "a", "typ": "stream"}], "queues[0].typ"),
        ([{"name": "a", "topics": ["a/#/b"]}], "a topic filter such as"),
        ([{"name": "a", "topics": [""]}], "a topic filter such as"),
        ([{"name": "a", "topics": ["$share/g/a"]}], "a topic filter such as"),
    ],
)
def test_what_is_wrong_is_said(queues, said):
    with pytest.raises(ConfigError) as wrong:
        config_from({"queues": queues})
    assert said in str(wrong.value)
