"""The schema and the effective configuration as plain data, for editors and ``gossamer config``."""

from __future__ import annotations

from typing import Any

import yaml

from gossamer.config.discovery import STRATEGIES
from gossamer.config.model import Config

__all__ = ["json_schema", "to_plain", "to_yaml"]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors that complete and check it."""
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "gossamer"
    # ``discovery: dns`` is right to the reader, so it must be to an editor too.
    key = schema["$defs"]["ClusterConfig"]["properties"]["discovery"]
    union = {"oneOf": key.pop("oneOf"), "discriminator": key.pop("discriminator")}
    key["anyOf"] = [{"enum": [*STRATEGIES]}, union]
    return schema


def to_plain(config: Config, *, changed_only: bool = False) -> dict[str, Any]:
    """Plain data that reads back as the same configuration, secrets hidden."""
    return config.model_dump(mode="json", exclude_defaults=changed_only)


def to_yaml(config: Config, *, changed_only: bool = False) -> str:
    """The same as YAML."""
    return yaml.safe_dump(to_plain(config, changed_only=changed_only), sort_keys=False)
