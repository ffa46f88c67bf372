"""The page of the HTTP API: every route with its role, parameters and answer, from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

from script.references.markdown import cell, code, flow, prose, table

_HEAD = """
# HTTP API

Every node serves it at `api.port`, 8091 unless told otherwise, and answers for the whole cluster; the same
as data is at `/openapi.json`. Who may ask what, how lists of all nodes come about, and how requests reach
another node: [the HTTP API and the console](../design/api.md).

A token goes into the header: `Authorization: Bearer gsm_…`. What goes wrong is answered with a
[Problem](#problem): 400 and 422 the request is wrong, 401 no token or a wrong one, 403 the role is too low,
404 no such thing, 429 too often, 502 another node did not answer, 503 not possible now.
"""

Schema = Mapping[str, Any]


def http_page(app: FastAPI) -> str:
    """Routes by path, then the values that they take and give."""
    document = app.openapi()
    parts = [flow(_HEAD), "## Routes\n"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_route(path, method.upper(), operation))
    parts.append("## Values\n")
    for name, schema in sorted(
        document["components"]["schemas"].items(), key=lambda pair: _title(pair[0]).lower()
    ):
        parts.append(_value(_title(name), schema))
    return "\n".join(parts)


def _route(path: str, method: str, operation: Schema) -> str:
    text = prose(operation.get("description") or operation["summary"] + ".")
    lines = [f"### {method} {path}", "", text, "", f"Role: {_role(operation)}. {_answer(operation)}"]
    if body := operation.get("requestBody"):
        (content,) = body["content"].values()
        lines[-1] += f" Body: {_kind(content['schema'])}."
    if parameters := operation.get("parameters"):
        rows = (
            (
                code(parameter["name"]),
                f"{parameter['in']}{', required' if parameter.get('required') else ''}",
                _kind(parameter["schema"]),
                _default(parameter["schema"]),
                cell(parameter.get("description", "")),
            )
            for parameter in parameters
        )
        lines += ["", table(("parameter", "in", "takes", "default", "means"), rows)]
    return "\n".join(lines) + "\n"


def _role(operation: Schema) -> str:
    return next((roles[0] for scheme in operation.get("security", ()) for roles in scheme.values()), "nobody")


def _answer(operation: Schema) -> str:
    answers = []
    for status, answer in operation["responses"].items():
        if status.isdigit() and int(status) < 600 and status != "422":
            kinds = [
                _kind(content["schema"]) if content.get("schema") else code(kind)
                for kind, content in answer.get("content", {}).items()
            ]
            answers.append(f"{status} {' or '.join(dict.fromkeys(kinds))}".strip())
    return f"Answers {'; '.join(answers)}."


def _value(title: str, schema: Schema) -> str:
    lines = [f"### {title}", "", prose(schema.get("description")), ""]
    if "enum" in schema:
        lines += ["One of " + " ".join(map(code, schema["enum"])) + ".", ""]
    rows = [
        (
            code(name) + ("" if name in schema.get("required", ()) else " (optional)"),
            _kind(field),
            cell(field.get("description", "")),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        lines.append(table(("field", "is", "means"), rows))
    return "\n".join(lines)


def _title(name: str) -> str:
    """``Page_ClientInfo_`` as ``Page of ClientInfo``."""
    outer, _, inner = name.rstrip("_").partition("_")
    return f"{outer} of {inner}" if inner else outer


def _anchor(name: str) -> str:
    return _title(name).lower().replace(" ", "-")


def _kind(schema: Schema) -> str:
    return " or ".join(dict.fromkeys(_kinds(schema)))


def _kinds(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield f"[{_title(name)}](#{_anchor(name)})"
    elif "anyOf" in schema or "oneOf" in schema:
        for form in schema.get("anyOf") or schema["oneOf"]:
            yield from _kinds(form)
    elif "enum" in schema:
        yield " ".join(map(code, schema["enum"]))
    elif "const" in schema:
        yield code(schema["const"])
    elif "prefixItems" in schema:
        yield "list of: " + ", ".join(_kind(item) for item in schema["prefixItems"])
    elif schema.get("type") == "array":
        yield "list of " + _kind(schema.get("items", {}))
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield "object of " + _kind(schema["additionalProperties"])
    else:
        yield str(schema.get("type", "anything")) + _bounds(schema)


def _bounds(schema: Schema) -> str:
    words = {"minimum": "≥ {}", "maximum": "≤ {}", "maxLength": "{} characters at most"}
    said = [form.format(schema[key]) for key, form in words.items() if key in schema]
    return f" ({', '.join(said)})" if said else ""


def _default(schema: Schema) -> str:
    value = schema.get("default")
    return (
        "–"
        if value is None or value == ""
        else code(str(value).lower() if isinstance(value, bool) else value)
    )
