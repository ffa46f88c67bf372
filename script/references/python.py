"""The page of the Python front door: every name of ``gossamer.__all__``, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from script.references.markdown import prose

_HEAD = """# Python

What `import gossamer` gives. How to use it: [Supervised actors in Python](../guide/actors.md). All names of
the actors: [gossamer.supervisor](supervisor.md).
"""


def python_page() -> str:
    """Classes and functions by name."""
    # The front door stands on no floor, so nothing in the house imports it by a statement.
    gossamer = import_module("gossamer")
    parts = [_HEAD]
    for name in sorted(gossamer.__all__, key=str.lower):
        if name == "__version__":
            parts.append("## Version\n\n`gossamer.__version__`, as `gossamer --version` says it.\n")
            continue
        thing = getattr(gossamer, name)
        parts.append(_class(name, thing) if inspect.isclass(thing) else function_text(name, thing, "##"))
    return "\n".join(parts)


def _class(name: str, thing: type) -> str:
    parts = [f"## {name}\n", signature_text("class", name, thing), f"{prose(thing.__doc__)}\n"]
    parts += [function_text(f"{name}.{member}", value, "###") for member, value in members_of(thing)]
    return "\n".join(parts)


def members_of(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties, in the order of the source, a base's behind its own."""
    seen: set[str] = set()
    for base in thing.__mro__:
        if not base.__module__.startswith("gossamer."):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            raw = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if (inspect.isfunction(raw) or isinstance(raw, property)) and raw.__doc__:
                yield name, raw


def function_text(name: str, thing: Any, level: str) -> str:
    """Return the entry of a function or property."""
    if isinstance(thing, property):
        return f"{level} {name}\n\n{prose(thing.__doc__)}\n"
    word = "async def" if inspect.iscoroutinefunction(thing) else "def"
    return f"{level} {name}\n\n{signature_text(word, name, thing)}\n{prose(thing.__doc__)}\n"


def signature_text(word: str, name: str, thing: Any) -> str:
    """Return a signature as a block of code."""
    signature = inspect.signature(thing)
    hidden = ("self", "cls")
    given = [parameter for parameter in signature.parameters.values() if parameter.name not in hidden]
    text = str(signature.replace(parameters=given))
    # A function as a default shows where in memory it was.
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    text = re.sub(r"<object object at 0x\w+>|<factory>", "…", text)
    # Written annotations come as text in quotes, and some with the modules that they are from.
    text = re.sub(r"""(?<=: |> )(['"])(.*?)\1(?=[,)]| = |$)""", r"\2", text)
    text = _spelled_out(text, thing)
    text = re.sub(r"\b(?:gossamer|collections|msgspec|typing|pathlib)\.(?:\w+\.)*(?=[A-Z])", "", text)
    if word == "class":
        text = text.removesuffix(" -> None")
    if len(f"{word} {name}{text}") > 100 and given:
        text = _in_lines(text)
    return f"```python\n{word} {name}{text}\n```\n"


def _spelled_out(text: str, thing: Any) -> str:
    """Write out the words that an annotation takes, where the module of ``thing`` has a name for them."""
    for name, alias in vars(sys.modules[thing.__module__]).items():
        forms = get_args(alias) if get_origin(alias) in (Union, UnionType) else (alias,)
        if any(get_origin(form) is Literal for form in forms):
            words = " | ".join(inspect.formatannotation(form) for form in forms)
            text = re.sub(rf"(?<![\w.]){name}(?!\w)", words, text)
    return text


def _in_lines(text: str) -> str:
    """One parameter a line."""
    depth, parts, part, end = 0, [], "", 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == ")":
            end = at
            break
        if depth == 1 and character == ",":
            parts.append(part.strip())
            part = ""
        elif at:
            part += character
    parts.append(part.strip())
    return "(\n" + "".join(f"    {part},\n" for part in parts if part) + ")" + text[end + 1 :]
