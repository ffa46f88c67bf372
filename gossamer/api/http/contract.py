"""The OpenAPI document, made to say what is really answered.

Rules: 1. Whatever goes wrong is a problem (RFC 9457), so that the framework's own shape of a validation error
is not promised.  2. A method that a path does not have is answered with those that it has.  3. The role that
a route takes stands beside it (``security``), as OpenAPI has it for schemes of every kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from gossamer.api.http.access import role_of
from gossamer.api.http.answers import PROBLEM

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `gossamer tokens create`; this machine itself may not need one.",
    }
}


def correct(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What is to make ``app``'s document; it is made once."""
    make = app.openapi

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(make(), _roles(app))
        return app.openapi_schema

    return document


def _roles(app: FastAPI) -> dict[tuple[str, str], str]:
    """What each route takes, by path and method."""
    found = {}
    for route in iter_route_contexts(app.routes):
        dependant = getattr(route, "dependant", None)
        calls = [] if dependant is None else [below.call for below in dependant.dependencies]
        for method in route.methods or ():
            path = str(route.path)
            # As in the document, which leaves out how a parameter is converted.
            found[re.sub(r":\w+}", "}", path), method] = role_of(calls, method=method, path=path)
    return found


def _corrected(document: dict[str, Any], roles: dict[tuple[str, str], str]) -> dict[str, Any]:
    wrong = {
        "description": "What went wrong.",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            answers.pop("422", None)
            for code, answer in list(answers.items()):
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                if schema.get("$ref", "").endswith("/Problem"):
                    answers[code] = wrong
            answers |= {"4XX": wrong, "5XX": wrong}
            role = roles[path, method.upper()]
            if role != "nobody":
                operation["security"] = [{"bearer": [role]}, {}]
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = _SCHEMES
    return document


def allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods that a path has, most specific route first."""
    if path in document["paths"]:
        return _methods(document["paths"][path])
    # A parameter is a part of the path; only where no such route is, it is all that follows.
    for part in ("[^/]+", ".+"):
        for template, methods in document["paths"].items():
            if re.fullmatch(re.sub(r"\\{[^}]*\\}", part, re.escape(template)), path):
                return _methods(methods)
    return []


def _methods(methods: dict[str, Any]) -> list[str]:
    return sorted(method.upper() for method in methods)
