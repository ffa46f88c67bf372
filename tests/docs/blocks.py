"""A page as the tests read it: its fenced blocks in order, each with what stands before it; pure.

What stands in the line before a block says what it is:

- ``<!-- not run: reason -->``: shown, and why it cannot be tried. Its commands are held against the program.
- ``<!-- output -->``: what the block before it printed.
- ``<!-- later -->``: comes after a while, so the commands are typed again until it does.
- ```node.yaml```, alone before a colon: a file of that name in the directory of the page.
- ``[`deploy/x`](../../deploy/x):``: that file of the repository, as it is.

``<!-- cluster: 3 -->`` anywhere, or ``<!-- cluster: --nodes 3 --ws-port 8083 -->``, is what ``gossamer up``
is given, and runs while the page is played. Else the language decides: ``console`` is a terminal, ``sh`` and
``bash`` are commands that have to go well, ``python`` runs, ``yaml`` is a configuration, what is only shown
is ``text``.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

SHELLS = ("sh", "bash")
RUN = ("console", "python", *SHELLS)

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^`\n]*)$")
_CLUSTER = re.compile(r"^<!-- cluster: (?P<options>.+?) -->$", re.MULTILINE)
_BEFORE = re.compile(
    r"""\s*(?:<!--\ not\ run:\ (?P<not_run>.+?)\ -->
    | (?P<output><!--\ output\ -->)
    | (?P<later><!--\ later\ -->)
    | `(?P<file>[\w./-]+)`:
    | \[`(?P<shows>[^`]+)`\]\([^)]*\):)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``line`` is that of its fence, from 1."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""
    shows: str = ""
    output: str = ""
    later: str = ""

    @property
    def runs(self) -> bool:
        return self.language in RUN and not (self.not_run or self.file or self.shows or self.output)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Typed:
    """One command of a terminal, with the output below it."""

    command: str
    expected: str
    line: int


def blocks_of(text: str, page: Path) -> list[Block]:
    """All fenced blocks, in order.

    Raises:
        ValueError: a fence that is not closed.
    """
    lines = text.splitlines()
    found: list[Block] = []
    before, at = "", 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        closing = f"{fence['indent']}{fence['fence']}"
        end = next((n for n in range(at + 1, len(lines)) if lines[n].rstrip() == closing), None)
        if end is None:
            raise ValueError(f"{page}:{at + 1}: this block is not closed")
        body = textwrap.dedent("".join(f"{line}\n" for line in lines[at + 1 : end]))
        said = _BEFORE.fullmatch(before)
        marks = {name: value for name, value in said.groupdict().items() if value} if said else {}
        found.append(Block(page, at + 1, fence["language"].strip(), body, **marks))
        before, at = "", end + 1
    return found


def cluster_of(text: str) -> str | None:
    """The options of ``gossamer up`` for this page, None without a cluster."""
    found = _CLUSTER.search(text)
    if found is None:
        return None
    number = re.fullmatch(r"(\d+)(?: nodes?)?", found["options"])
    return f"--nodes {number[1]}" if number else found["options"]


def typed_in(block: Block) -> list[Typed]:
    """What is typed, in order: lines after ``$``, and those that a ``\\`` or a ``>`` below carries on.

    ``^C`` is typed, too, and ends what was started last.
    """
    found: list[Typed] = []
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        number, line = block.line + 1 + at, lines[at]
        at += 1
        if line == "^C":
            found.append(Typed(line, "", number))
        elif line.startswith("$ "):
            command = line[2:]
            while at < len(lines) and (command.endswith("\\") or re.match("> |>$", lines[at])):
                command += "\n" + lines[at].removeprefix(">").removeprefix(" ")
                at += 1
            found.append(Typed(command, "", number))
        elif found:
            found[-1] = replace(found[-1], expected=f"{found[-1].expected}{line}\n")
        else:
            raise ValueError(f"{block.page}:{number}: got {line!r}, expected a line after $")
    return found


def commands_in(block: Block) -> list[str]:
    """The lines of a terminal or a script, without its comments."""
    if block.language == "console":
        return [typed.command for typed in typed_in(block)]
    if block.language in SHELLS:
        joined = block.text.replace("\\\n", " ")
        return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return []


def inline_commands(text: str) -> list[str]:
    """What prose calls a command of gossamer, or of the one that installs it."""
    prose = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(found.split()) for found in re.findall(r"`((?:gossamer|pip)\s[^`]+)`", prose)]
