"""The files of ``deploy/`` as tests read them: documents, configurations, environments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGES = ROOT / "docs" / "deploy"


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def compose(name: str) -> dict[str, Any]:
    (tree,) = documents(DEPLOY / "compose" / name / "compose.yaml")
    return tree


def environment(service: dict[str, Any]) -> dict[str, str]:
    """What a container of a service gets, with the cookie that the operator chose."""
    return {
        name: re.sub(r"\$\{GOSSAMER_COOKIE:[^}]*\}", "a-cookie-of-the-operator", str(value))
        for name, value in service.get("environment", {}).items()
    }


def of(found: list[Any], kind: str, name: str = "") -> Any:
    """The one of that kind, and name where several are."""
    (one,) = [d for d in found if d["kind"] == kind and name in ("", d["metadata"]["name"])]
    return one


class Manifests:
    """One file for Kubernetes, by kind."""

    def __init__(self, name: str) -> None:
        self._all = documents(DEPLOY / "kubernetes" / f"{name}.yaml")

    def of(self, kind: str, name: str = "") -> dict[str, Any]:
        return of(self._all, kind, name)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._all)

    def kinds(self) -> set[str]:
        return {document["kind"] for document in self._all}

    @property
    def container(self) -> dict[str, Any]:
        (container,) = self.of("StatefulSet")["spec"]["template"]["spec"]["containers"]
        return container

    @property
    def node(self) -> dict[str, Any]:
        return yaml.safe_load(self.of("ConfigMap")["data"]["node.yaml"])

    def environment(self, number: int = 0) -> dict[str, str]:
        """What the kubelet puts into pod ``number``."""
        fields = {
            "metadata.name": f"gossamer-{number}",
            "metadata.namespace": "mqtt",
            "status.podIP": f"10.244.{number}.7",
        }
        values: dict[str, str] = {}
        for variable in self.container["env"]:
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                value = "a-cookie-of-the-operator"
            else:
                value = re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], variable["value"])
            values[variable["name"]] = value
        return values
