"""Files of other brokers, as their guides print them."""

import pytest
import yaml

from gossamer.config import SERVICES, config_from, services_off
from gossamer.config.discovery import EtcdDiscovery
from gossamer.errors import ConfigError

SEED_ONLY = """
clusterConfig:
  env: Test
  host: 10.0.0.2
  port: 9000
  seedEndpoints: 10.0.0.3:9000
mqttServiceConfig:
  server:
    enable: false
distServiceConfig:
  server:
    enable: false
  worker:
    enable: false
inboxServiceConfig:
  server:
    enable: false
  store:
    enable: false
retainServiceConfig:
  server:
    enable: false
  store:
    enable: false
sessionDictServiceConfig:
  server:
    enable: false
apiServerConfig:
  enable: false
"""
FLUXMQ = """
cluster:
  enabled: true
  node_id: "broker-1"
  etcd:
    data_dir: "/tmp/fluxmq/etcd"
    bind_addr: "0.0.0.0:2380"
    client_addr: "0.0.0.0:2379"
    initial_cluster: "broker-1=http://0.0.0.0:2380"
    bootstrap: true
  transport:
    bind_addr: "0.0.0.0:7948"
    peers: {}
"""
TWO_GROUPS = """
cluster:
  raft:
    enabled: true
    auto_provision_groups: false
    bind_addr: "127.0.0.1:7100"
    data_dir: "/tmp/fluxmq/raft"
    peers: {}
    groups:
      default:
        bind_addr: "127.0.0.1:7100"
        data_dir: "/tmp/fluxmq/raft"
        peers: {}
      hot:
        bind_addr: "127.0.0.1:7200"
        data_dir: "/tmp/fluxmq/raft/groups/hot"
        peers: {}
"""


def read(text: str, **environ: str):
    return config_from(yaml.safe_load(text), environ=environ)


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return {problem.key: str(problem) for problem in caught.value.problems}


def test_bifromqs_seed_only_node_reads_with_all_nine_services_off():
    config = read(SEED_ONLY)
    assert (config.cluster.env, config.cluster.port) == ("Test", 9000)
    assert services_off(config) == SERVICES
    assert not config.remarks


def test_all_services_are_on_unless_said_otherwise():
    assert services_off(read("{}")) == ()
    front_end = read("{inboxServiceConfig: {store: {enable: false}}}")
    assert services_off(front_end) == ("inboxstore",)
    by_environment = read("{}", GOSSAMER_SERVICES__INBOX_STORE="off")
    assert not by_environment.services.inbox_store


def test_a_service_that_an_mqtt_server_has_inside_is_off_only_without_it():
    found = problems("{distServiceConfig: {worker: {enable: false}}}")
    assert "mqtt.server.enable: off" in found["services.dist_worker"]
    found = problems("{distServiceConfig: {workers: {enable: false}}}")
    assert "unknown key" in found["distServiceConfig"]


def test_fluxmqs_minimal_cluster_reads_and_each_difference_is_said():
    config = read(FLUXMQ)
    assert config.node.name == "broker-1@127.0.0.1"
    assert (config.distribution.host, config.distribution.port) == ("0.0.0.0", 7948)
    assert isinstance(config.cluster.discovery, EtcdDiscovery)
    etcd = config.cluster.discovery.etcd
    assert etcd.embedded
    assert str(etcd.data_dir) == "/tmp/fluxmq/etcd"
    assert etcd.bind_addr.port == 2380
    said = "\n".join(config.remarks)
    for key in ("cluster.node_id", "cluster.etcd", "cluster.transport.peers"):
        assert key in said


def test_the_host_of_the_transport_is_that_of_the_node():
    config = read("{cluster: {node_id: b, transport: {bind_addr: '10.0.0.5:7948'}}}")
    assert config.node.name == "b@10.0.0.5"
    found = problems("{cluster: {node_id: b, transport: {bind_addr: 7948}}}")
    assert "10.0.0.2:7946" in found["cluster.transport.bind_addr"]


def test_fluxmqs_two_replication_groups_read_without_addresses_and_directories_of_their_own():
    config = read(TWO_GROUPS)
    assert set(config.cluster.raft.groups) == {"default", "hot"}
    assert not config.cluster.raft.auto_provision_groups
    assert any("cluster.raft.groups.hot.data_dir is not needed" in remark for remark in config.remarks)


def test_a_broker_that_is_no_cluster_finds_none():
    assert read("{cluster: {enabled: false}}").cluster.discovery.strategy == "singleton"
    assert read("{cluster: {enabled: true}}").cluster.discovery.strategy == "static"
