"""Values that a command checks before it asks a node, by the rules that the node has for them.

So a wrong one ends every command alike, also where no node answers, or the one that does takes no orders.
Rule: the rules stand where the node has them, and are read from there; here is none of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import typer

from gossamer.api.model.forms import FORMS
from gossamer.cli.errors import OptionError
from gossamer.errors import WrongValueError, mismatch
from gossamer.tenants import NAMES
from gossamer.tenants import checked as tenant_named

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gossamer.api.model.base import Value
    from gossamer.cli.client import Row

Check = Callable[[typer.CallbackParam, object], object]
"""The callback of an argument or option; it returns what was typed."""

_SECRET = frozenset({"key"})
"""Fields of orders that are not shown."""


def checked(parse: Callable[[str], object], expected: str = "") -> Check:
    """Make a check from a parser that raises ValueError; ``expected`` unless its message says it."""

    def check(param: typer.CallbackParam, given: object) -> object:
        for text in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(text, str):
                continue
            try:
                parse(text)
            except ValueError as error:
                right = expected or str(error)
                raise OptionError(_name_of(param), got=text, expected=right) from None
        return given

    return check


def form(pattern: str) -> Check:
    """A check by one of the forms of the API."""

    def parse(text: str) -> None:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(text)

    return checked(parse, FORMS[pattern])


def one_of(known: Sequence[str]) -> Check:
    """A check that it is one of ``known``."""
    return checked(known.index, f"one of {', '.join(known)}")


def _given(text: object) -> None:
    if text == "":
        raise ValueError(text)


given = checked(_given, "a value that is not empty")


def _topic(text: str) -> None:
    # Here and below, so that help is printed without loading it.
    from gossamer.routes import TopicLimits, parse_name

    # Limits below those of the protocol are the node's own.
    parse_name(text, TopicLimits(max_levels=len(text) + 1))


def _topic_filter(text: str) -> None:
    from gossamer.routes import TopicLimits, parse_filter

    parse_filter(text, TopicLimits(max_levels=len(text) + 1))


def _endpoint(text: str) -> None:
    from gossamer.config import parse_endpoint

    parse_endpoint(text)


def bytes_of(text: str) -> int:
    """Read a size such as 10GiB."""
    from gossamer.config import parse_size

    return parse_size(text)


def _absolute(text: str) -> None:
    if not PurePath(text).is_absolute() or not text.isprintable():
        raise ValueError(text)


topic = checked(_topic)
topic_filter = checked(_topic_filter)
endpoint = checked(_endpoint, "a gossip endpoint such as 10.0.0.2:7946")
size = checked(bytes_of)
absolute = checked(_absolute, "an absolute path on the node's machine")
tenant = checked(lambda text: tenant_named(text, "tenant"), NAMES)


def changes(model: type[Value], settings: Row, **options: str) -> Row:
    """Return the given ``settings``, from options of their names or these; checked as by :func:`order`.

    Raises:
        WrongValueError: nothing is given, or a value is invalid.
    """
    options = {name: f"--{name.replace('_', '-')}" for name in settings} | options
    body = {name: value for name, value in settings.items() if value is not None}
    if not body:
        raise WrongValueError(f"nothing to set: give {', '.join(options.values())}")
    return order(model, body, options)


def order(model: type[BaseModel], body: Row, options: Mapping[str, str] | None = None) -> Row:
    """``body``, once it is known that the API takes it for a ``model``; fields may be named by ``options``.

    Raises:
        WrongValueError: it does not.
    """
    from pydantic import ValidationError

    from gossamer.config import expected_of, shown_of

    try:
        model.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "settings"
        got = "a hidden value" if field in _SECRET else shown_of(first["input"])
        expected = FORMS.get(first.get("ctx", {}).get("pattern", "")) or expected_of(first)
        raise mismatch(WrongValueError, (options or {}).get(field, field), got, expected) from None
    return body


def _name_of(param: typer.CallbackParam) -> str:
    """Return the name in the help: that of an option, or an argument's placeholder."""
    opts = [name for name in param.opts if name.startswith("-")]
    return opts[0] if opts else str(getattr(param, "metavar", None) or param.name).rstrip("…")
