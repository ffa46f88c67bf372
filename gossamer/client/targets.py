"""What a client attaches to: addresses of nodes, or the ``cluster.json`` of a cluster on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gossamer.errors import UsageError
from gossamer.network import Address

__all__ = ["Target", "TargetError", "targets_of"]

Target = str | Path | Address
"""``"host:port"`` of a node's distribution, a pair of them, or the path of a ``cluster.json``."""

_EXPECTED = "host:port of a node's distribution, or the path of a cluster.json"


class TargetError(UsageError):
    """What to attach to cannot be understood."""

    def __init__(self, *, got: str, expected: str) -> None:
        self.got = got
        self.expected = expected
        super().__init__(f"client: got {got}; expected {expected}")


def targets_of(given: Target | Iterable[Target]) -> tuple[list[Address], str | None]:
    """The addresses, and the cookie where a ``cluster.json`` has one beside it (blocking).

    Raises:
        TargetError: nothing can be made of one of them.
    """
    addresses: list[Address] = []
    cookie: str | None = None
    alone = isinstance(given, str | Path) or (isinstance(given, tuple) and _is_address(given))
    for target in [given] if alone else given:  # type: ignore[union-attr]
        if isinstance(target, tuple):
            addresses.append(target)
        elif isinstance(target, Path) or str(target).endswith(".json"):
            found, cookie = _read(Path(target))  # type: ignore[arg-type]
            addresses += found
        else:
            addresses.append(_parse(str(target)))
    if not addresses:
        raise TargetError(got="nothing to attach to", expected=_EXPECTED)
    return addresses, cookie


def _is_address(value: tuple[object, ...]) -> bool:
    return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)


def _parse(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise TargetError(got=repr(text), expected=_EXPECTED)
    return host.strip("[]"), int(port)


def _read(path: Path) -> tuple[list[Address], str | None]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        addresses = [
            (node["name"].rpartition("@")[2], int(node["ports"]["distribution"])) for node in facts["nodes"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TargetError(got=f"{path} ({error})", expected="the cluster.json of a running cluster") from None
    beside = path.parent / ".cookie"
    return addresses, beside.read_text(encoding="ascii").strip() if beside.is_file() else None
