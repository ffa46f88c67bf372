"""What the command prints: the answer on standard output alone, remarks and errors on standard error.

Rule: with ``--json`` errors are JSON as well.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from gossamer.cli.render.table import make_console, printable, speaks_utf8


def json_text(data: Any) -> str:
    """JSON in one line, in characters that standard output can hold."""
    return json.dumps(data, ensure_ascii=not speaks_utf8())


def emit_json(data: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=not speaks_utf8()) + "\n")


def print_line(text: str) -> None:
    """One line on standard output, for whoever reads it now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark for people, on standard error."""
    make_console(stderr=True).print(Text(printable(text)), style="dim")


def print_error(text: str, *, as_json: bool) -> None:
    """The last word of a command that failed."""
    if as_json:
        sys.stderr.write(json.dumps({"error": text}, ensure_ascii=False) + "\n")
        return
    message = Text("error: ", style="bold red")
    message.append(printable(text), style="default not bold")
    make_console(stderr=True).print(message, soft_wrap=True)


def size_text(size: int) -> str:
    """``3.6 KiB``."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def age_text(seconds: float) -> str:
    """A time in its largest unit: ``3d``, ``12s``."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def ago(moment: float) -> str:
    """How long ago a time since 1970 was, coarse; nothing for never."""
    return age_text(time.time() - moment) if moment > 0 else ""


def until(moment: float) -> str:
    """In what time something since 1970 comes, coarse; 0 is never."""
    return f"in {age_text(moment - time.time())}" if moment else "never expires"


def clock(moment: float) -> str:
    """A time since 1970 by this machine's calendar and clock; 0 is never, and empty."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def ports_text(ports: Mapping[str, int]) -> str:
    """``mqtt=1883 api=8091``."""
    return " ".join(f"{name}={port}" for name, port in ports.items())
