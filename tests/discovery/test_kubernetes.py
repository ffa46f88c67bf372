"""The manifests of deploy/kubernetes: versions, names, ports, probes and rights."""

from __future__ import annotations

import re
from typing import Any

import pytest

from discovery.deployments import DEPLOY, Manifests, documents
from discovery.test_deploy import EVERYWHERE, PORTS, paths_of_the_api
from gossamer.config import config_from

VERSIONS = {
    "ConfigMap": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "StatefulSet": "apps/v1",
}


@pytest.fixture(params=["k8s", "dns"])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return Manifests(request.param)


def test_every_object_is_of_a_version_that_kubernetes_serves(manifests: Manifests) -> None:
    for document in manifests:
        assert document["apiVersion"] == VERSIONS[document["kind"]]
        # A name is a DNS label, and the namespace is the operator's.
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", document["metadata"]["name"])
        assert "namespace" not in document["metadata"]
        assert set(document) <= {
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "data",
            "rules",
            "roleRef",
            "subjects",
        }


def test_the_headless_service_finds_pods_before_they_are_ready(manifests: Manifests) -> None:
    service = manifests.of("Service", "gossamer")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    spec = manifests.of("StatefulSet")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["serviceName"] == "gossamer"
    clients = manifests.of("Service", "gossamer-mqtt")["spec"]
    budget = manifests.of("PodDisruptionBudget")["spec"]
    for selector in (
        service["selector"],
        clients["selector"],
        spec["selector"]["matchLabels"],
        budget["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert "publishNotReadyAddresses" not in clients


def test_pods_load_what_the_config_map_holds_and_ports_agree(manifests: Manifests) -> None:
    configs = [config_from(manifests.node, environ=manifests.environment(number)) for number in (0, 1)]
    assert [config.node.name for config in configs] == [
        "gossamer-0@gossamer-0.gossamer.mqtt",
        "gossamer-1@gossamer-1.gossamer.mqtt",
    ]
    config = configs[0]
    assert config.cluster.host == "10.244.0.7"
    assert config.node.cookie
    assert config.distribution.host in EVERYWHERE
    assert config.api.host in EVERYWHERE, "the kubelet asks at the pod's address"
    listening = {
        "mqtt": config.mqtt.server.listeners[0].port,
        "api": config.api.port,
        "gossip": config.cluster.port,
        "gossip-tcp": config.cluster.port,
        "distribution": config.distribution.port,
    }
    assert listening == PORTS
    ports = {port["name"]: port["containerPort"] for port in manifests.container["ports"]}
    assert ports == PORTS
    headless = manifests.of("Service", "gossamer")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in headless}.items() <= PORTS.items()
    assert {port["name"]: port["protocol"] for port in headless}["gossip"] == "UDP"
    (mqtt,) = manifests.of("Service", "gossamer-mqtt")["spec"]["ports"]
    assert mqtt["targetPort"] in ports


def test_probes_ask_what_the_api_answers(manifests: Manifests) -> None:
    container = manifests.container
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    assert {probe["path"] for probe in probes.values()} <= paths_of_the_api()
    assert {probe["port"] for probe in probes.values()} == {"api"}


def test_pods_keep_their_data_and_have_no_rights_to_spare(manifests: Manifests) -> None:
    spec = manifests.of("StatefulSet")["spec"]
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert manifests.container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["name"]: mount["mountPath"] for mount in manifests.container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert set(mounts) == volumes | claims
    image = (DEPLOY / "Dockerfile").read_text()
    assert f"GOSSAMER_NODE__DATA_DIR={mounts['data']}" in image
    assert mounts["config"] == "/etc/gossamer"
    assert str(pod["securityContext"]["runAsUser"]) in image
    # A node that stops may take 15 s.
    assert pod["terminationGracePeriodSeconds"] >= 20
    assert set(manifests.of("ConfigMap")["data"]) == {"node.yaml"}


def test_nodes_are_spread_over_machines(manifests: Manifests) -> None:
    template = manifests.of("StatefulSet")["spec"]["template"]
    (term,) = template["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    selector = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()
    assert manifests.of("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_prometheus_scrapes_every_pod_with_a_token() -> None:
    service, monitor = documents(DEPLOY / "kubernetes" / "servicemonitor.yaml")
    spec = monitor["spec"]
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = spec["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] in paths_of_the_api()
    assert endpoint["authorization"]["credentials"]["key"] == "token"
    # The alerts name the job.
    assert service["metadata"]["labels"][spec["jobLabel"]] == "gossamer"
    labels = Manifests("k8s").of("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_strategy_k8s_may_list_endpoint_slices_and_nothing_else() -> None:
    manifests = Manifests("k8s")
    config: Any = config_from(manifests.node, environ=manifests.environment()).cluster.discovery
    assert config.strategy == "k8s"
    service = manifests.of("Service", config.k8s.service_name)["spec"]
    assert config.k8s.port_name in {port["name"] for port in service["ports"]}
    account = manifests.of("StatefulSet")["spec"]["template"]["spec"]["serviceAccountName"]
    assert manifests.of("ServiceAccount")["metadata"]["name"] == account
    role = manifests.of("Role")
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}
    ]
    binding = manifests.of("RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]


def test_strategy_dns_needs_no_right_and_asks_for_the_headless_service() -> None:
    manifests = Manifests("dns")
    config: Any = config_from(manifests.node, environ=manifests.environment()).cluster.discovery
    assert config.strategy == "dns"
    assert config.dns.name == "gossamer.mqtt.svc.cluster.local"
    assert not manifests.kinds() & {"Role", "ServiceAccount"}
    assert manifests.of("StatefulSet")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
