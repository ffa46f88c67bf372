"""The OpenAPI document, made to say what is really answered.

Rules: 1. Whatever goes wrong is a problem (RFC 9457), so that the framework's own shape of a validation error
is not promised.  2. A method that a path does not have is answered with those that it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from gossamer.api.answers import PROBLEM

__all__ = ["allowed_methods", "correct"]

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
            app.openapi_schema = _corrected(make())
        return app.openapi_schema

    return document


def _corrected(document: dict[str, Any]) -> dict[str, Any]:
    wrong = {
        "description": "What went wrong.",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, methods in document["paths"].items():
        for operation in methods.values():
            answers = operation["responses"]
            answers.pop("422", None)
            for code, answer in list(answers.items()):
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                if schema.get("$ref", "").endswith("/Problem"):
                    answers[code] = wrong
            answers |= {"4XX": wrong, "5XX": wrong}
            if path.startswith("/api/"):
                operation["security"] = [{"bearer": []}, {}]
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = _SCHEMES
    return document


def allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods that a path has, most specific route first."""
    if path in document["paths"]:
        return _methods(document["paths"][path])
    for template, methods in document["paths"].items():
        if re.fullmatch(re.sub(r"\\{[^}]*\\}", ".+", re.escape(template)), path):
            return _methods(methods)
    return []


def _methods(methods: dict[str, Any]) -> list[str]:
    return sorted(method.upper() for method in methods)
