"""Queues in the configuration: what is wrong is said with the key that is to be corrected."""

import pytest

from gossamer.config import config_from, groups_of, to_plain
from gossamer.errors import ConfigError


def factors(config):
    groups = groups_of(config.cluster.raft, config.queues)
    return {name: group.replication_factor for name, group in groups.items()}


def test_a_queue_needs_a_name_alone():
    config = config_from({"queues": [{"name": "jobs"}]})
    assert config.queues[0].limits.max_depth == 100_000
    assert factors(config) == {"default": 3}


def test_queues_are_declared_by_environment():
    environ = {"GOSSAMER_QUEUES": '[{"name": "jobs"}]', "GOSSAMER_QUEUES__0__TYPE": "stream"}
    assert [(one.name, one.type) for one in config_from({}, environ=environ).queues] == [("jobs", "stream")]


def test_the_group_of_a_queue_is_made_unless_that_is_off():
    queues = [{"name": "jobs", "replication": {"group": "hot"}}]
    groups = {"cold": {"replication_factor": 5}}
    config = config_from({"queues": queues, "cluster": {"raft": {"groups": groups}}})
    assert factors(config) == {"default": 3, "cold": 5, "hot": 3}
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


def raft_of(raft, **environ):
    return config_from({"cluster": {"raft": raft}}, environ=environ)


def test_what_a_group_does_not_say_is_as_for_all_groups_and_so_is_it_exported():
    config = raft_of(
        {
            "replication_factor": 5,
            "ack_timeout": "2s",
            "groups": {"hot": {"min_in_sync_replicas": 4, "write_policy": "reject"}},
        },
        GOSSAMER_CLUSTER__RAFT__DISTRIBUTION_MODE="forward",
        GOSSAMER_CLUSTER__RAFT__GROUPS__HOT__ELECTION_TIMEOUT="3s",
    )
    exported = to_plain(config)["cluster"]
    assert config.cluster.raft == config_from({"cluster": exported}).cluster.raft
    hot = config.cluster.raft.groups["hot"]
    assert (hot.replication_factor, hot.min_in_sync_replicas, hot.ack_timeout) == (5, 4, 2.0)
    assert (hot.write_policy, hot.distribution_mode, hot.election_timeout) == ("reject", "forward", 3.0)


@pytest.mark.parametrize("word", ["always", "true", True])
def test_sync_mode_is_always_in_other_words_too(word):
    assert raft_of({"sync_mode": word}).cluster.raft.sync_mode == "always"


@pytest.mark.parametrize(
    ("raft", "key", "said"),
    [
        ({"min_in_sync_replicas": 4}, "cluster.raft.min_in_sync_replicas", "from 2, a majority"),
        (
            {"groups": {"hot": {"replication_factor": 5, "min_in_sync_replicas": 2}}},
            "cluster.raft.groups.hot.min_in_sync_replicas",
            "from 3, a majority of the 5 of replication_factor, to 5",
        ),
        (
            {
                "replication_factor": 5,
                "min_in_sync_replicas": 5,
                "groups": {"hot": {"replication_factor": 3}},
            },
            "cluster.raft.groups.hot.min_in_sync_replicas",
            "got 5; expected from 2",
        ),
        ({"heartbeat": "1s"}, "cluster.raft.heartbeat", "at most half of cluster.raft.election_timeout, 1 s"),
        (
            {"groups": {"hot": {"election_timeout": "100ms"}}},
            "cluster.raft.groups.hot.election_timeout",
            "0.5",
        ),
        ({"ack_timeout": 0}, "cluster.raft.ack_timeout", "0.1 or more"),
        (
            {"write_policy": "local"},
            "cluster.raft.write_policy",
            "forward or reject: local would",
        ),
        ({"sync_mode": "batch"}, "cluster.raft.sync_mode", "nothing else is offered"),
        ({"sync_mode": False}, "cluster.raft.sync_mode", "nothing else is offered"),
        ({"groups": {"hot": {"sync_mode": "always"}}}, "cluster.raft.groups.hot.sync_mode", "an unknown key"),
        ({"distribution_mode": "local"}, "cluster.raft.distribution_mode", "'replicate' or 'forward'"),
        ({"replication_factor": 2}, "cluster.raft.replication_factor", "1, 3, 5 or 7"),
    ],
)
def test_what_is_wrong_with_a_replication_group_is_said_with_its_key(raft, key, said):
    with pytest.raises(ConfigError) as wrong:
        raft_of(raft)
    assert f"{key}: " in str(wrong.value)
    assert said in str(wrong.value)
