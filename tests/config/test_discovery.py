"""The strategies of discovery: each has its own keys, and every wrong one is named."""

import pytest

from gossamer.config import config_from, json_schema, to_plain
from gossamer.config.discovery import (
    DnsDiscovery,
    EtcdDiscovery,
    K8sDiscovery,
    ManualDiscovery,
    SingletonDiscovery,
    StaticDiscovery,
    etcd_name,
)
from gossamer.errors import ConfigError


def discovery(value, environ=None, **cluster):
    return config_from({"cluster": {"discovery": value, **cluster}}, environ=environ).cluster.discovery


def problems(value, **cluster):
    with pytest.raises(ConfigError) as caught:
        discovery(value, **cluster)
    assert "hunter2" not in str(caught.value)
    return {problem.key.removeprefix("cluster."): problem for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("manual", ManualDiscovery),
        ("static", StaticDiscovery),
        ("dns", DnsDiscovery),
        ("etcd", EtcdDiscovery),
        ("k8s", K8sDiscovery),
        ("singleton", SingletonDiscovery),
    ],
)
def test_a_name_alone_is_a_strategy_with_its_defaults(name, section):
    domain = {"domain_name": "seeds.example"} if name == "dns" else {}
    assert discovery(name, **domain) == discovery({"strategy": name}, **domain) == section(strategy=name)


def test_without_a_strategy_it_is_static():
    assert discovery(None) == discovery({}) == StaticDiscovery()
    assert discovery({"retry_interval": "2s"}).retry_interval == 2


def test_embedded_etcd_has_the_keys_of_the_seed():
    keys = {
        "embedded": True,
        "data_dir": "/tmp/fluxmq/etcd",
        "bind_addr": "0.0.0.0:2380",
        "client_addr": "0.0.0.0:2379",
        "initial_cluster": "node1=http://0.0.0.0:2380",
        "bootstrap": True,
    }
    etcd = discovery({"strategy": "etcd", "etcd": keys}).etcd
    assert (str(etcd.data_dir), str(etcd.bind_addr), etcd.bootstrap) == (
        "/tmp/fluxmq/etcd",
        "0.0.0.0:2380",
        True,
    )
    assert set(problems({"strategy": "etcd", "etcd": {"data_dir": "x", "bootstrap": False}})) == {
        "discovery.etcd.data_dir",
        "discovery.etcd.bootstrap",
    }


def test_a_wrong_key_of_a_strategy_is_named_with_its_variable():
    with pytest.raises(ConfigError, match=r"cluster\.discovery\.dns\.nam \(from GOSSAMER_CLUSTER__DISCO"):
        config_from({"cluster": {"discovery": "dns"}}, environ={"GOSSAMER_CLUSTER__DISCOVERY__DNS__NAM": "x"})


def test_every_wrong_key_is_named_as_it_was_written():
    found = problems({"strategy": "dns", "etcd": {}, "dns": {"nam": 1, "record_type": "mx", "min_ttl": "x"}})
    assert set(found) == {f"discovery.{key}" for key in ("etcd", "dns.nam", "dns.record_type", "dns.min_ttl")}
    assert found["discovery.dns.nam"].expected == "'name', perhaps"
    assert set(problems({"strategy": "zookeeper"})) == {"discovery.strategy"}
    assert "singleton" in problems("zookeeper")["discovery.strategy"].expected
    assert problems(["dns"])["discovery"].expected == "a section with keys of its own"


@pytest.mark.parametrize(
    ("value", "key", "got", "expected"),
    [
        ({"etcd": {"tls": {"ca": 3}}}, "etcd.tls.ca", "3", "the path of a file or directory"),
        ({"etcd": {"data_dir": ["x"]}}, "etcd.data_dir", "a list", "the path of a file or directory"),
        ({"etcd": {"username": 5}}, "etcd.username", "5", "text"),
        ({"etcd": {"embedded": "maybe"}}, "etcd.embedded", "'maybe'", "on or off"),
        ({"etcd": {"node_ttl": "1s"}}, "etcd.node_ttl", "'1s'", "3 or more"),
        ({"etcd": {"prefix": "/a/"}}, "etcd.prefix", "'/a/'", "a path of 200 characters or less"),
        ({"k8s": {"apiserver": "x"}}, "k8s.apiserver", "'x'", "a URL such as https://10.96.0.1:443"),
        ({"k8s": {"service_name": "A_B"}}, "k8s.service_name", "'A_B'", "the name of a service"),
        ({"k8s": {"namespace": "no/no"}}, "k8s.namespace", "'no/no'", "the name of a namespace"),
        ({"k8s": {"credentials": 5}}, "k8s.credentials", "5", "the path of a file or directory"),
        ({"dns": {"name": "no name"}}, "dns.name", "'no name'", "a domain name such as seeds.example"),
        ({"dns": {"port": "x"}}, "dns.port", "'x'", "a port from 1 to 65535"),
    ],
)
def test_a_wrong_value_is_told_in_words_of_ours(value, key, got, expected):
    (strategy,) = value
    (problem,) = problems({"strategy": strategy, **value}).values()
    assert (problem.key, problem.got) == (f"cluster.discovery.{key}", got)
    assert problem.expected.startswith(expected)


def test_no_key_of_the_whole_schema_answers_in_the_words_of_a_library():
    """Every key in turn is given values of kinds that it cannot take."""
    schema = json_schema()

    def paths(node, path):
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        for name, inner in node.get("properties", {}).items():
            yield (*path, name)
            yield from paths(inner, (*path, name))

    told = []
    for path in paths(schema, ()):
        for wrong in (object(), {"no": "such"}, -1.5, "\0", [[]]):
            tree = wrong
            for part in reversed(path):
                tree = {part: tree}
            try:
                config_from(tree)
            except ConfigError as error:
                told.append(str(error))
    assert len(told) > 200
    raw = ("Input", "String should", "pathlib", "Field required", "valid ")
    assert [error for error in told if any(word in error for word in raw)] == []


def test_a_secret_of_a_strategy_is_never_shown():
    assert set(problems({"strategy": "etcd", "etcd": {"password": ["hunter2"]}})) == {
        "discovery.etcd.password"
    }
    tree = {"strategy": "etcd", "etcd": {"username": "u", "password": "hunter2"}}
    config = config_from({"cluster": {"discovery": tree}})
    assert "hunter2" not in repr(config) + str(to_plain(config))


@pytest.mark.parametrize(
    ("value", "cluster", "key"),
    [
        ("dns", {}, "discovery.dns.name"),
        ("k8s", {"seed_endpoints": "10.0.0.1:1"}, "seed_endpoints"),
        ("etcd", {"domain_name": "x.example"}, "domain_name"),
        ({"strategy": "dns", "dns": {"name": "x", "min_ttl": "2m"}}, {}, "discovery.dns.min_ttl"),
        ({"strategy": "etcd", "etcd": {"username": "u"}}, {}, "discovery.etcd.password"),
        ({"strategy": "etcd", "etcd": {"tls": {"cert": "c.pem"}}}, {}, "discovery.etcd.tls.key"),
        (
            {"strategy": "etcd", "etcd": {"embedded": True, "initial_cluster": "other=http://h:1"}},
            {},
            "discovery.etcd.initial_cluster",
        ),
        (
            {"strategy": "etcd", "etcd": {"embedded": True, "tls": {"ca": "ca.pem"}}},
            {},
            "discovery.etcd.tls",
        ),
        (
            {
                "strategy": "etcd",
                "etcd": {
                    "embedded": True,
                    "initial_cluster": "a=http://h:1",
                    "tls": {"ca": "ca.pem", "cert": "c.pem", "key": "c.key"},
                },
            },
            {},
            "discovery.etcd.initial_cluster",
        ),
        (
            {"strategy": "etcd", "etcd": {"embedded": True, "username": "u", "password": "p"}},
            {},
            "discovery.etcd.embedded",
        ),
        (
            {"strategy": "etcd", "etcd": {"embedded": True, "bind_addr": "127.0.0.1:4370"}},
            {},
            "discovery.etcd.bind_addr",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_named(value, cluster, key):
    assert set(problems(value, **cluster)) == {key}


def test_an_embedded_member_is_known_by_its_name_with_or_without_the_host():
    assert etcd_name("a@10.0.0.1", "") == "a@10.0.0.1"
    assert etcd_name("a@10.0.0.1", "a=http://x:1,b=http://y:1") == "a"
    assert etcd_name("a@10.0.0.1", "a@10.0.0.1=http://x:1,a@10.0.0.2=http://y:1") == "a@10.0.0.1"
    assert etcd_name("a@10.0.0.1", "a=10.0.0.1:2380") is None


def test_the_schema_has_every_strategy_and_the_short_form():
    schema = json_schema()
    short, long = schema["$defs"]["ClusterConfig"]["properties"]["discovery"]["anyOf"]
    assert short == {"enum": ["manual", "static", "dns", "etcd", "k8s", "singleton"]}
    assert set(long["discriminator"]["mapping"]) == set(short["enum"])
    without = [
        name for name in short["enum"] if "required" not in schema["$defs"][f"{name.capitalize()}Discovery"]
    ]
    assert without == ["static"]
    assert schema["$defs"]["EtcdConfig"]["additionalProperties"] is False


@pytest.mark.parametrize("name", ["manual", "dns", "etcd", "k8s", "singleton"])
def test_a_strategy_written_out_reads_back_the_same(name):
    domain = {"domain_name": "seeds.example"} if name == "dns" else {}
    config = config_from({"cluster": {"discovery": name, **domain}})
    assert config_from(to_plain(config, changed_only=True)) == config
