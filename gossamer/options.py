"""What is said of an argument or option that is wrong, by each program whose options Typer reads."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class OptionGroup(TyperGroup):
    """Commands that say of a wrong value what came and what was expected, as the configuration does."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            _reword(error)
            raise


def _reword(error: typer.BadParameter) -> None:
    # Here, so that a command whose options are right does not load what words mistakes.
    from pydantic import ValidationError

    from gossamer.config import expected_of, shown_of

    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        error.message = f"got {shown_of(first['input'])}, expected {expected_of(first)}"
