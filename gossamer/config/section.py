"""What all sections of the configuration share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["Blank", "Fraction", "Numeral", "Positive", "Section"]

Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
# ``api:`` with nothing below it is how people leave a section at its defaults.
Blank = BeforeValidator(lambda value: {} if value is None else value)
# The environment is text, and a choice of numbers, unlike a number, is taken as it comes.
Numeral = BeforeValidator(
    lambda value: int(value) if isinstance(value, str) and value.strip().isdecimal() else value
)


class Section(BaseModel):
    """Frozen, and refuses keys that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )
