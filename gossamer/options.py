"""Error messages of wrong arguments and options, for programs whose options Typer reads."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class OptionGroup(TyperGroup):
    """Commands whose errors give a wrong value and the expected one, as those of the configuration do."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            _reword(error)
            raise


def duration(text: str) -> float:
    """Parse the value of an option that is a duration such as ``15s``; seconds."""
    # Imported here, so that help is printed without loading the schema.
    from gossamer.config import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"got {text!r}, expected {error}") from None


def _reword(error: typer.BadParameter) -> None:
    # Here, so that a command whose options are right does not load what words mistakes.
    from pydantic import ValidationError

    from gossamer.config import expected_of, shown_of

    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        error.message = f"got {shown_of(first['input'])}, expected {expected_of(first)}"
