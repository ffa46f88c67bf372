"""What a trail asks of whoever traces messages besides (``gossamer.tracing``)."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Parents"]


class Parents(Protocol):
    """Messages off the fast path may belong to a trace of their publisher's."""

    def wanted(self, message: Any, /) -> bool:
        """Whether a message that is not of the sample is kept all the same."""
        ...

    def learn(self, ident: int, message: Any, /) -> None:
        """A message that is kept has this identifier."""
        ...
