"""Reading a configuration: file, environment, defaults, and every mistake at once."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from gossamer.config import (
    Config,
    Endpoint,
    config_from,
    json_schema,
    load_config,
    to_plain,
)
from gossamer.errors import ConfigError, UsageError


def problems(tree, environ=None):
    with pytest.raises(ConfigError) as caught:
        config_from(tree, environ=environ)
    return {problem.key: problem for problem in caught.value.problems}


def write(directory: Path, text: str) -> Path:
    path = directory / "node.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_nothing_at_all_is_a_node_that_runs_for_this_machine_only():
    config = load_config()
    assert config == Config()
    assert config.node.name == "node1@127.0.0.1"
    assert {config.cluster.host, config.distribution.host, config.api.host} == {"127.0.0.1"}
    assert [listener.host for listener in config.mqtt.server.listeners] == ["127.0.0.1"]
    assert config.mqtt.auth.allow_anonymous is False


def test_the_file_of_the_design_reads_as_it_stands(tmp_path):
    path = write(
        tmp_path,
        """
        node: {name: node1@127.0.0.1, cookie: secret, data_dir: data}
        cluster:
          env: Test
          host: 127.0.0.1
          port: 7946
          seed_endpoints: [127.0.0.1:7946]
          domain_name: ""
          discovery: {strategy: static}
          autoheal: on
          autoclean: 5m
        distribution: {host: 127.0.0.1, port: 4370}
        mqtt: {server: {enable: true, listeners: [{type: tcp, port: 1883}]}}
        api: {enable: true, port: 8091}
        audit: {enable: false, dir: audit, sample: 1.0}
        """,
    )
    config = load_config(path)
    assert config.cluster.env == "Test"
    assert config.cluster.seed_endpoints == (Endpoint("127.0.0.1", 7946),)
    assert config.cluster.autoheal == 15.0
    assert config.cluster.autoclean == 300.0
    assert config.node.cookie is not None
    assert config.node.cookie.get_secret_value() == "secret"


def test_the_seed_only_file_of_another_broker_reads(tmp_path):
    path = write(
        tmp_path,
        """
        clusterConfig:
          env: Test
          host:
          port:
          clusterDomainName: seeds.example
          seedEndpoints: 10.0.0.2:9000,10.0.0.3:9000
        mqttServiceConfig:
          server:
            enable: false
        apiServerConfig:
          enable: false
        """,
    )
    config = load_config(path)
    assert (config.cluster.host, config.cluster.port) == ("", 0)
    assert config.cluster.domain_name == "seeds.example"
    assert config.cluster.seed_endpoints == (Endpoint("10.0.0.2", 9000), Endpoint("10.0.0.3", 9000))
    assert not config.mqtt.server.enable
    assert not config.api.enable


def test_dotted_keys_are_sections():
    config = config_from({"cluster.autoheal": False, "cluster.autoclean": "off", "cluster": {"env": "x"}})
    assert config.cluster.autoheal is None
    assert config.cluster.autoclean is None
    assert config.cluster.env == "x"


def test_a_key_spelt_in_two_ways_is_a_problem():
    assert "it once" in problems({"cluster.env": "a", "cluster": {"env": "b"}})["cluster.env"].expected


@pytest.mark.parametrize(
    ("text", "delay"), [("on", 15.0), ("off", None), ("20s", 20.0), (True, 15.0), (False, None)]
)
def test_autoheal_is_a_switch_or_a_delay(text, delay):
    assert config_from({"cluster": {"autoheal": text}}).cluster.autoheal == delay


def test_the_environment_wins_over_the_file():
    environ = {
        "GOSSAMER_CLUSTER__AUTOHEAL": "off",
        "GOSSAMER_CLUSTER__SEED_ENDPOINTS": "10.0.0.1:7946,[::1]:7947",
        "GOSSAMER_MQTT__SERVER__LISTENERS__0__PORT": "1999",
        "GOSSAMER_MQTT__LIMITS__MAX_PACKET_SIZE": "64KiB",
        "GOSSAMER_NODE__COOKIE": "0123",
        "GOSSAMER_LOG": "not a key, as it holds no double underscore",
        "HOME": "/",
    }
    config = config_from(
        {"cluster": {"autoheal": "on"}, "mqtt": {"server": {"listeners": [{"port": 1}]}}}, environ=environ
    )
    assert config.cluster.autoheal is None
    assert config.cluster.seed_endpoints == (Endpoint("10.0.0.1", 7946), Endpoint("::1", 7947))
    assert config.mqtt.server.listeners[0].port == 1999
    assert config.mqtt.limits.max_packet_size == 65536
    assert config.node.cookie is not None
    assert config.node.cookie.get_secret_value() == "0123"


def test_every_mistake_is_named_at_once():
    found = problems(
        {
            "clustr": {},
            "node": {"name": "x", "nme": "y"},
            "mqtt": {"server": {"listeners": [{"port": 70000}], "enable": "maybe"}},
            "audit": {"sample": 2},
            "distribution": ["a"],
        },
        {"GOSSAMER_CLUSTER__AUTOHEEL": "on", "GOSSAMER_API__PORT": "zz", "GOSSAMER_APY__PORT": "1"},
    )
    assert set(found) == {
        "clustr",
        "node.name",
        "node.nme",
        "mqtt.server.listeners[0].port",
        "mqtt.server.enable",
        "audit.sample",
        "distribution",
        "cluster.autoheel (from GOSSAMER_CLUSTER__AUTOHEEL)",
        "api.port (from GOSSAMER_API__PORT)",
        "apy",
    }
    assert "'cluster'" in found["clustr"].expected
    assert "'autoheal'" in found["cluster.autoheel (from GOSSAMER_CLUSTER__AUTOHEEL)"].expected
    assert found["mqtt.server.listeners[0].port"].got == "70000"
    assert "1 to 65535" in found["mqtt.server.listeners[0].port"].expected
    assert found["mqtt.server.enable"].expected == "on or off"
    assert found["distribution"].expected == "a section with keys of its own"


def test_keys_that_do_not_go_together_are_both_named_and_chosen_ports_always_do():
    found = problems(
        {"api": {"port": 4370}, "cluster": {"gossip": {"probe_interval": "1s", "probe_timeout": "2s"}}}
    )
    assert found["api.port"].expected == "a port of its own; distribution.port takes this one"
    assert found["cluster.gossip.probe_timeout"].expected.startswith(
        "less than cluster.gossip.probe_interval"
    )
    config_from({"api": {"port": 0}, "cluster": {"port": 0}, "distribution": {"port": 0}})


@pytest.mark.parametrize("wrong", [{"probe_timeout": 0}, {"mtu": 600}, {"gossip_interval": 0}])
def test_gossip_settings_that_cannot_work_are_refused(wrong):
    assert list(problems({"cluster": {"gossip": wrong}})) == [f"cluster.gossip.{next(iter(wrong))}"]


def listening(*sources):
    return {"mqtt": {"server": {"listeners": [{"proxy_sources": list(sources)}]}}}


@pytest.mark.parametrize("wrong", [10, True, "10.0.0.0/33", "balancer.example", ["10.0.0.7"]])
def test_what_is_no_network_is_told_as_such(wrong):
    (problem,) = problems(listening("10.0.0.7", wrong)).values()
    assert problem.key == "mqtt.server.listeners[0].proxy_sources[1]"
    assert problem.expected == "an address or network such as 10.0.0.7 or 10.0.0.0/8"


def test_a_network_may_have_blanks_around_it():
    (listener,) = config_from(listening(" 10.0.0.0/8 ", "::1")).mqtt.server.listeners
    assert [str(source) for source in listener.proxy_sources] == ["10.0.0.0/8", "::1/128"]
    told = json_schema()["$defs"]["ListenerConfig"]["properties"]["proxy_sources"]["items"]
    assert re.match(told["pattern"], "10.0.0.0/8")


def test_the_message_names_source_key_got_and_expected(tmp_path):
    path = write(tmp_path, "api: {port: many}")
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert str(caught.value) == (
        f"{path}: 1 problem\n  api.port: got 'many'; expected a port from 1 to 65535, or 0 to have one chosen"
    )


@pytest.mark.parametrize(
    "tree", [{"node": {"cookie": ["hunter2"]}}, {"node": ["hunter2"]}, {"node": {"cookie": 7}}]
)
def test_no_error_shows_a_secret(tree):
    with pytest.raises(ConfigError) as caught:
        config_from(tree)
    assert "hunter2" not in str(caught.value)
    assert "7" not in str(caught.value)


def test_no_output_shows_a_secret():
    config = config_from({"node": {"cookie": "hunter2"}})
    for text in (repr(config), str(to_plain(config)), config.model_dump_json()):
        assert "hunter2" not in text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- a", "sections"),
        ("api: {port: 1\n", "line 2"),
        ("api: {port: 1, port: 2}", "again in line 1"),
        ("a: \x07", "YAML"),
    ],
)
def test_a_file_that_is_no_configuration_says_where(tmp_path, text, wanted):
    path = tmp_path / "node.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=wanted):
        load_config(path)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml")


def test_an_empty_file_is_all_defaults(tmp_path):
    assert load_config(write(tmp_path, "")) == Config()
    assert load_config(write(tmp_path, "api:\nmqtt:\n  server:\n")) == Config()


def test_a_configuration_cannot_be_changed():
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.cluster.env = "other"  # type: ignore[misc]


def test_what_is_written_out_reads_back_the_same():
    config = config_from({"cluster": {"seed_endpoints": ["[::1]:1"], "autoheal": "off"}, "api": {"port": 0}})
    assert config_from(yaml.safe_load(yaml.safe_dump(to_plain(config)))) == config
    assert config_from(to_plain(config, changed_only=True)) == config


def test_the_schema_describes_every_key():
    schema = json_schema()
    assert set(schema["properties"]) == set(Config.model_fields)
    cluster = schema["$defs"]["ClusterConfig"]
    assert cluster["additionalProperties"] is False
    assert cluster["properties"]["env"]["description"] == "Nodes of another env are ignored."


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://user:hunter2@auth.test:81/ask?a=b@c", "http://**********@auth.test:81/ask?a=b@c"),
        ("https://token@auth.test", "https://**********@auth.test"),
        ("http://auth.test/a@b", "http://auth.test/a@b"),
    ],
)
def test_what_stands_before_the_host_of_a_url_is_not_shown(given, shown):
    config = config_from({"mqtt": {"auth": {"http": {"url": given}}}})
    assert config.mqtt.auth.http.url == given
    assert to_plain(config)["mqtt"]["auth"]["http"]["url"] == shown
