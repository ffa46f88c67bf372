"""What bash means by the line before the cursor: its words, and how a candidate has to look to be put there.

bash replaces not the word but what stands behind the last of ``COMP_WORDBREAKS`` in it, so that of
``node1@127.0.0.1`` only ``@127.0.0.1`` may be offered for ``node1@``; and what it puts in is read by the
shell again, so that ``$SYS/#`` must be quoted.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BashLine", "parse"]

BREAKS = " \t\n\"'@><=;|&(:"
_PREFIXES = "@$"
"""Of the breaks, those that begin what is replaced, where the others end what is kept."""
_ESCAPED_IN_DOUBLE = '"$`\\'
_SAFE = frozenset("@%+=:,./-_")


@dataclass(frozen=True, slots=True)
class BashLine:
    """Words before the cursor, and the one it stands in."""

    words: tuple[str, ...]
    """Those that are whole, without quotes."""
    current: str
    """As far as it is typed, without quotes."""
    kept: int
    """So many characters of it stay as they are; bash replaces the rest."""
    quote: str
    """The one that is open, or nothing."""

    def put(self, value: str) -> str | None:
        """``value`` as bash is to put it in; None if it cannot stand in this quote."""
        rest = value[self.kept :]
        if self.quote == "'":
            return None if "'" in rest else rest
        if self.quote:
            return "".join(f"\\{one}" if one in _ESCAPED_IN_DOUBLE else one for one in rest)
        return "".join(one if one.isalnum() or one in _SAFE else f"\\{one}" for one in rest)


def parse(line: str, breaks: str = BREAKS) -> BashLine:
    """The line from the name of the command up to the cursor."""
    words: list[str] = []
    current: list[str] = []
    within, kept, quote = False, 0, ""
    at = 0
    while at < len(line):
        one, following = line[at], line[at + 1 : at + 2]
        at += 1
        if quote:
            if one == quote:
                quote = ""
            elif one == "\\" and quote == '"' and following and following in _ESCAPED_IN_DOUBLE:
                current.append(following)
                at += 1
            else:
                current.append(one)
        elif one in "'\"":
            within, quote = True, one
            # What bash completes begins behind the quote, as long as that is open.
            kept = len(current)
        elif one == "\\" and following:
            within = True
            current.append(following)
            at += 1
        elif one in " \t\n":
            if within:
                words.append("".join(current))
            current, within, kept = [], False, 0
        else:
            within = True
            current.append(one)
            if one in breaks:
                kept = len(current) - (one in _PREFIXES)
    return BashLine(tuple(words), "".join(current), kept, quote)
