"""The page of the configuration: every key, from the schema that reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from gossamer.config import Config
from gossamer.config.discovery import DiscoveryConfig
from script.references.markdown import cell, code, flow, prose, table

_HEAD = """
# Configuration

One YAML file, given by `gossamer start -c node.yaml`; without one, a node runs with what stands here as
default. Every key can also be given by the environment, which wins over the file: `GOSSAMER_` and the key,
with `__` for each dot. Lists and sections are given there as YAML on one line; a number in a name is a
place in a list.

`gossamer config check FILE` names every mistake at once, `gossamer config show` prints what is in effect,
`gossamer config schema` prints the JSON Schema for editors.

A *duration* is written `500ms`, `15s`, `5m`, `1h30m`, or as seconds; a *size* `512`, `64KiB`, `1MiB`, or as
bytes.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file."""

    path: str
    kind: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A section of the file, with the keys that have a value of their own."""

    path: str
    meaning: str
    keys: tuple[Key, ...]


def config_page() -> str:
    """Sections in the order of the schema."""
    parts = [flow(_HEAD)]
    for part in _parts(Config, ""):
        if not part.keys:
            continue
        rows = (
            (f"{code(key.path)}<br>{_environment(key.path)}", key.kind, key.default, cell(key.meaning))
            for key in part.keys
        )
        title, head = part.path or "In no section", ("key", "takes", "default", "means")
        parts.append(f"## {title}\n\n{prose(part.meaning)}\n\n{table(head, rows)}")
    return "\n".join(parts)


def keys_of() -> list[Key]:
    """Every key that has a value of its own."""
    return [key for part in _parts(Config, "") for key in part.keys]


def _parts(model: type[BaseModel], path: str, skip: frozenset[str] = frozenset()) -> Iterator[_Part]:
    keys: list[Key] = []
    below: list[Iterator[_Part]] = []
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        place = f"{path}.{name}" if path else name
        sections = list(_sections(field.annotation))
        strategies = [section for section in sections if issubclass(section, DiscoveryConfig)]
        if strategies:
            keys += _strategy(strategies, place, field)
            below += [
                _parts(section, place, frozenset({"strategy", "retry_interval"})) for section in strategies
            ]
        elif sections:
            inside = place + _many(field.annotation)
            below += [_parts(section, inside) for section in sections]
            if inside != place or (not field.is_required() and field.default is None):
                keys.append(
                    Key(place, _kind_of_sections(place, inside), _default(field), field.description or "")
                )
        else:
            kind = _kind(schema["properties"][name])
            keys.append(Key(place, kind, _default(field), field.description or ""))
    yield _Part(path, model.__doc__ or "", tuple(keys))
    for parts in below:
        yield from parts


def _strategy(strategies: Sequence[type[BaseModel]], place: str, field: FieldInfo) -> Iterator[Key]:
    names = [get_args(section.model_fields["strategy"].annotation)[0] for section in strategies]
    meanings = "; ".join(
        f"{name}: {(section.__doc__ or '').splitlines()[0].rstrip('.')}"
        for name, section in zip(names, strategies, strict=True)
    )
    text = f"{field.description} {meanings}. Each has keys of its own, below."
    yield Key(f"{place}.strategy", " ".join(map(code, names)), code("static"), text)
    retry = strategies[0].model_fields.get("retry_interval") or DiscoveryConfig.model_fields["retry_interval"]
    yield Key(f"{place}.retry_interval", "duration", _default(retry), retry.description or "")


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections in an annotation, through whatever is around them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _sections(inner)


def _many(annotation: Any) -> str:
    """What stands in a path for one of many."""
    origin = get_origin(annotation)
    if origin is Annotated or origin is Union or type(annotation).__name__ == "UnionType":
        return next((many for inner in get_args(annotation) if (many := _many(inner))), "")
    words: dict[Any, str] = {tuple: "[]", list: "[]", dict: ".NAME"}
    return words.get(origin, "")


def _kind_of_sections(place: str, inside: str) -> str:
    what = {"[]": "a list of sections", ".NAME": "sections by name"}.get(
        inside[len(place) :], "a section, or nothing"
    )
    return f"{what}, below"


def _kind(schema: dict[str, Any]) -> str:
    """What a key takes, in words."""
    forms = schema.get("anyOf", [schema])
    nothing = [form for form in forms if form.get("type") == "null"]
    words = [form for form in forms if "enum" in form]
    others = [form for form in forms if form not in nothing and form not in words]
    said = [
        " ".join(code(_yaml(value)) for value in form["enum"] if not isinstance(value, bool))
        for form in words
    ]
    patterns = " ".join(str(form.get("pattern", "")) for form in others)
    if "ms|s|m|h|d" in patterns or (words and {"number", "string"} == {form.get("type") for form in others}):
        said.append("duration")
    elif "[kKmMgG]" in patterns:
        said.append("size" + _bounds(schema))
    else:
        said += [_simple(form) for form in others]
    return " or ".join(part for part in said if part)


def _simple(schema: dict[str, Any]) -> str:
    match schema.get("type"):
        case "boolean":
            return "`true` `false`"
        case "integer":
            return "number" + _bounds(schema)
        case "number":
            return "fraction" + _bounds(schema) if schema.get("maximum") == 1 else "decimal" + _bounds(schema)
        case "array":
            return "list of: " + _kind(schema["items"])
        case "object":
            return "names with: " + _kind(schema.get("additionalProperties", {}))
        case "string" if schema.get("format") == "path":
            return "path"
        case "string" if schema.get("format") == "password":
            return "text, secret"
        case "string" if r":\d{1,5}$" in schema.get("pattern", ""):
            return "host:port"
        case _:
            return "text"


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("exclusiveMinimum") == 0:
        low = 1 if schema.get("type") == "integer" else None
        if low is None:
            return ", more than 0"
    if low is not None and high is not None:
        return f", {low:g} to {high:g}" if high < 1e6 else f", {low} to {high}"
    if high is not None:
        return f", {high} at most"
    return f", {low} or more" if low else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    whole: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    value = field.get_default(call_default_factory=True)
    adapted = TypeAdapter[Any](whole).dump_python(value, mode="json")
    if adapted is None or adapted == "":
        return "–"
    if isinstance(adapted, list) and any(isinstance(item, dict) for item in adapted):
        return f"{len(adapted)}, all defaults"
    return code(_yaml(adapted))


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return json.dumps(value)


def _environment(path: str) -> str:
    if ".NAME" in path:
        return "(in the file)"
    # A place in a list is a number.
    name = re.sub(r"\[\]", ".0", path).upper().replace(".", "__")
    return f"<small>{code('GOSSAMER_' + name)}</small>"
