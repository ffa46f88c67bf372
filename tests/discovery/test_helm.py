"""The Helm chart, rendered here: by default it is deploy/kubernetes/k8s.yaml, and each value has its effect.

There is no helm in the tests, so the chart keeps to what a page of code can render: values, the release's
name, ``if``, ``if eq``, ``else``, ``end`` and ``toJson``. Anything else fails here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
import yaml

from discovery.deployments import DEPLOY, documents, of
from gossamer.config import config_from

CHART = DEPLOY / "helm"
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
TAG = re.compile(r"(\s*)\{\{(-?) *(.*?) *(-?)\}\}")
WORDS = re.compile(r'"[^"]*"|\S+')


def value(word: str, scope: dict[str, Any]) -> Any:
    if word.startswith('"'):
        return word.strip('"')
    found: Any = scope
    assert word.startswith("."), f"{word} is more than this renders"
    for part in word[1:].split("."):
        found = found[part]
    return found


def render(text: str, scope: dict[str, Any]) -> str:
    """What ``helm template`` makes of ``text``."""
    out: list[str] = []
    # Of each open ``if`` whether its part is taken.
    open_ifs: list[bool] = []
    at = 0
    for tag in TAG.finditer(text):
        space, trims, order = tag[1], tag[2], tag[3]
        if all(open_ifs):
            out.append(text[at : tag.start()] + ("" if trims else space))
        at = tag.end()
        match WORDS.findall(order):
            case ["if", "eq", one, other]:
                open_ifs.append(value(one, scope) == value(other, scope))
            case ["if", one]:
                open_ifs.append(bool(value(one, scope)))
            case ["else"]:
                open_ifs[-1] = not open_ifs[-1]
            case ["toJson", one] if all(open_ifs):
                out.append(json.dumps(value(one, scope)))
            case ["end"]:
                open_ifs.pop()
            case [one]:
                if all(open_ifs):
                    given = value(one, scope)
                    out.append(str(given).lower() if isinstance(given, bool) else str(given))
            case _:
                raise AssertionError(f"{order} is more than this renders")
    assert not open_ifs
    return "".join(out) + text[at:]


def chart(name: str = "gossamer", **values: Any) -> list[dict[str, Any]]:
    scope = {"Release": {"Name": name}, "Values": {**DEFAULTS, **values}}
    found: list[dict[str, Any]] = []
    for path in sorted((CHART / "templates").glob("*.yaml")):
        found += [one for one in yaml.safe_load_all(render(path.read_text(), scope)) if one]
    return found


MONITORED = {"serviceMonitor": DEFAULTS["serviceMonitor"] | {"enabled": True}}


def test_with_its_defaults_the_chart_is_the_example_and_what_is_scraped_is_that_example() -> None:
    made = chart()
    watched = [one for one in chart(**MONITORED) if one not in made]
    assert watched == documents(DEPLOY / "kubernetes" / "servicemonitor.yaml")
    assert of(made, "Service", "gossamer-mqtt")["spec"].pop("type") == "ClusterIP"
    example = documents(DEPLOY / "kubernetes" / "k8s.yaml")
    for found in (made, example):
        data = of(found, "ConfigMap")["data"]
        data["node.yaml"] = yaml.safe_load(data["node.yaml"])
    assert made == example


def test_another_name_leaves_nothing_of_the_first() -> None:
    text = yaml.safe_dump_all(chart("mqtt-eu", **MONITORED))
    kept = {"/etc/gossamer", "/var/lib/gossamer", "gossamer-cookie", "gossamer:latest", "gossamer-metrics"}
    rest = text
    for word in kept:
        rest = rest.replace(word, "")
    assert re.findall(r".*gossamer.*", rest) == ["        name: gossamer"], "the container alone"
    assert 'service_name: "mqtt-eu"' in of(chart("mqtt-eu"), "ConfigMap")["data"]["node.yaml"]


POD = "spec.template.spec"
SPREAD = f"{POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0"
SCRAPED_OFTEN = MONITORED["serviceMonitor"] | {"interval": "10s"}
SAME_HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "gossamer"}}}


@pytest.mark.parametrize(
    ("values", "path", "expected"),
    [
        ({"replicas": 5}, "spec.replicas", 5),
        ({"image": "registry/gossamer:1"}, f"{POD}.containers.0.image", "registry/gossamer:1"),
        ({"storage": "8Gi"}, "spec.volumeClaimTemplates.0.spec.resources.requests.storage", "8Gi"),
        ({"memory": "2Gi"}, f"{POD}.containers.0.resources.limits.memory", "2Gi"),
        ({"antiAffinity": "required"}, SPREAD, SAME_HOST),
        ({"serviceMonitor": SCRAPED_OFTEN}, "spec.endpoints.0.interval", "10s"),
    ],
)
def test_a_value_has_its_effect(values: dict[str, Any], path: str, expected: object) -> None:
    found: Any = of(chart(**values), "ServiceMonitor" if "serviceMonitor" in values else "StatefulSet")
    for part in path.split("."):
        found = found[int(part)] if part.isdigit() else found[part]
    assert found == expected


def test_clients_can_be_let_in_by_a_file_of_a_secret() -> None:
    auth = {"allow_anonymous": False, "password_file": "/etc/gossamer-auth/passwords"}
    made = chart(config=DEFAULTS["config"] | {"auth": auth}, authSecret="mqtt-users")
    pod = of(made, "StatefulSet")["spec"]["template"]["spec"]
    assert {"name": "auth", "secret": {"secretName": "mqtt-users"}} in pod["volumes"]
    mount = {"name": "auth", "mountPath": "/etc/gossamer-auth", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
    config = config_from(yaml.safe_load(of(made, "ConfigMap")["data"]["node.yaml"]), environ={})
    assert config.mqtt.auth.allow_anonymous is False
    assert str(config.mqtt.auth.password_file) == auth["password_file"]


SCHEMA = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"antiAffinity": "require"},
        {"replica": 5},
        {"replicas": "five"},
        {"serviceType": "Loadbalancer"},
        {"storage": "8 Gi"},
        {"config": {"allowAnonymous": True}},
        {"serviceMonitor": {"enabled": "yes"}},
    ],
)
def test_a_wrong_value_is_refused_by_the_schema(wrong: dict[str, Any]) -> None:
    assert SCHEMA.is_valid(DEFAULTS)
    assert not SCHEMA.is_valid(DEFAULTS | wrong)


def test_every_value_is_used_and_no_other() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    named = {key for key, given in DEFAULTS.items() if not isinstance(given, dict)}
    named |= {
        f"{key}.{inner}" for key, given in DEFAULTS.items() if isinstance(given, dict) for inner in given
    }
    assert used == named
