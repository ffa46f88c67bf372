"""Is what a command printed what the page says, but for what nobody can promise; pure.

Rules: 1. Numbers of more than one digit, spans of time and identifiers count by their place; ports and single
digits as they are.  2. ``…`` in a line of the page stands for any text, alone in its line (as ``⋮``) for any
lines.  3. How many blanks there are does not matter; neither does the order in a line of JSON that is whole.
"""

from __future__ import annotations

import json
import re
from typing import Any

PORTS = frozenset(str(base + node) for base in (1883, 8083, 8091, 8883, 7946, 4370) for node in range(5))
_ANY_LINES = ("…", "⋮")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def is_like(got: str, expected: str) -> bool:
    """See the rules above."""
    as_json = "…" not in expected
    plain = "".join(f"{line}\n" for line in _lines(got, as_json=as_json))
    return _pattern(_lines(expected, as_json=as_json)).fullmatch(plain) is not None


def difference(got: str, expected: str) -> str:
    """For who has to mend the page, or the program."""
    return f"expected:\n{_indented(expected)}\ngot:\n{_indented(got)}"


def _indented(text: str) -> str:
    return "".join(f"  | {line}\n" for line in text.splitlines()).rstrip() or "  | (nothing)"


def _pattern(expected: list[str]) -> re.Pattern[str]:
    parts = []
    for line in expected:
        if line in _ANY_LINES:
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(re.escape(piece) for piece in re.split(r" ?… ?", line)) + r"\n")
    return re.compile("".join(parts))


def _lines(text: str, *, as_json: bool) -> list[str]:
    return [_plain(line, as_json=as_json) for line in _COLOUR.sub("", text).rstrip().splitlines()]


def _plain(line: str, *, as_json: bool) -> str:
    if as_json and line.startswith("{"):
        try:
            line = json.dumps(_without_order(json.loads(line)), sort_keys=True)
        except ValueError:
            pass
    line = re.sub(r'"[0-9a-f]{16}"', '"<id>"', line)
    line = re.sub(r"\b(?:\d+(?:\.\d+)?[smhd] ?)+\b", "<time> ", line)
    line = re.sub(r"(?<![\w.])\d+(?![\w.])", _number, line)
    return re.sub(r"\s+", " ", line).strip()


def _number(found: re.Match[str]) -> str:
    return found[0] if found[0] in PORTS or len(found[0]) == 1 else "<n>"


def _without_order(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_order(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return sorted((_without_order(item) for item in tree), key=lambda item: str(_order(item)))
    return tree


def _order(item: Any) -> Any:
    return item.get("port", item) if isinstance(item, dict) else item
