"""What is wrong with a strategy before it has even begun."""

from __future__ import annotations

from gossamer.errors import UsageError, how_to_install

__all__ = ["MissingExtraError"]


class MissingExtraError(UsageError):
    """A strategy needs something that is not installed."""

    def __init__(self, *, what: str, needs: str, extra: str) -> None:
        self.what = what
        self.needs = needs
        self.extra = extra
        super().__init__(f"{what} needs {needs}, which is not installed; {how_to_install(extra)}")
