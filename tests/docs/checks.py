"""What can be said of a block without running it: is it a configuration, is there such a command; pure.

Rules: 1. Every block says its language, or nobody knows what to hold it against.  2. YAML is a configuration
of a node, perhaps a part of one, unless its keys are those of Kubernetes, Compose or Prometheus.  3. The
commands of a block that cannot be run, and those that prose names, are there, with their options.  4. What is
shown of a file is the file; whether that is right is for its own tests.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from docs.blocks import SHELLS, Block, blocks_of, commands_in, inline_commands
from gossamer.cli import app
from gossamer.config import config_from
from gossamer.errors import GossamerError

ROOT = Path(__file__).parents[2]
SHOWN = frozenset({"text", "json", "toml", "yaml", "console", "python", "ini", "dockerfile", "xml", *SHELLS})
_OTHERS = ("services", "scrape_configs", "groups")
"""Keys of files that are not gossamer's, and that others read: Compose, Prometheus."""
_OTHER_PROGRAMS = ("etcdctl", "journalctl", "kill", "pip", "sudo", "systemctl", "useradd")
"""They take ``gossamer`` for the name of something."""

_INSTALLER = re.compile(r"(.*/)?(pip3?|pipx|uv)")
_OF_AN_INDEX = re.compile(r"gossamer(\[[\w,]+\])?([=<>~!].*)?")


def faults_of(text: str, page: Path) -> list[str]:
    """What is wrong with the blocks of a page and the commands in its prose, each with its line."""
    found = []
    for block in blocks_of(text, page):
        found += [f"{block.where}: {fault}" for fault in _faults(block)]
    for command in inline_commands(text):
        if fault := command_fault(command):
            found.append(f"{page}: `{command}`: {fault}")
    return found


def _faults(block: Block) -> Iterator[str]:
    if block.language not in SHOWN:
        yield f"got a block of {block.language or 'no language'}, expected one of {', '.join(sorted(SHOWN))}"
    if block.shows:
        file = ROOT / block.shows
        if not file.is_file() or file.read_text(encoding="utf-8") != block.text:
            yield f"this is not what {block.shows} holds"
        return
    try:
        for line in commands_in(block):
            if fault := command_fault(line):
                yield f"{line}: {fault}"
        if not block.not_run or block.language == "python":
            _read(block)
    except (ValueError, SyntaxError, yaml.YAMLError, GossamerError) as error:
        yield str(error)


def _read(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    elif block.language == "json":
        for line in block.text.splitlines() if block.text.count("\n{") else [block.text]:
            json.loads(line)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        for document in yaml.safe_load_all(block.text):
            _read_yaml(document)


def _read_yaml(document: Any) -> None:
    if not isinstance(document, dict):
        raise ValueError(f"got {document!r}, expected keys and values")
    if "apiVersion" in document:
        missing = {"kind", "metadata"} - document.keys()
        if missing or "name" not in document["metadata"]:
            raise ValueError(f"an object of Kubernetes without {sorted(missing) or 'a name'}")
    elif not any(key in document for key in _OTHERS):
        config_from(document)


def command_fault(line: str) -> str:
    """Why the last ``gossamer …`` of a line is none; empty where it is one, or has none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return ""
    if any(map(_INSTALLER.fullmatch, words)) and any(map(_OF_AN_INDEX.fullmatch, words)):
        return "no package index has gossamer"
    if not words or words[0] in _OTHER_PROGRAMS:
        return ""
    named = [at for at, word in enumerate(words) if word == "gossamer" or word.endswith("bin/gossamer")]
    if not named:
        return ""
    words = [word.strip("[]") for word in words[named[-1] + 1 :]]
    ends = [at for at, word in enumerate(words) if re.match(r"[|;&<>)]|2>", word)]
    return _fault(words[: ends[0]] if ends else words)


def _fault(words: list[str]) -> str:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if not words or words[0] in ("--help", "-h"):
            return ""
        if words[0] in command.commands:
            # Some are imported only when they are wanted.
            _, command, words = command.resolve_command(typer.Context(command), words)
        elif "default" in vars(type(command)) and not words[0].isalpha():
            command = command.commands[type(command).default]
        elif words[0].startswith("-"):
            break
        elif "default" in vars(type(command)) and _takes_an_argument(command.commands[type(command).default]):
            command = command.commands[type(command).default]
        else:
            return f"no command {words[0]!r}"
    if command.context_settings.get("ignore_unknown_options"):
        return ""
    known = {"--help", "-h", "--install-completion", "--show-completion"}
    known |= {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    options = (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word))
    return next((f"no option {option}" for option in options if option not in known), "")


def _takes_an_argument(command: Any) -> bool:
    return any(parameter.param_type_name == "argument" for parameter in command.params)
