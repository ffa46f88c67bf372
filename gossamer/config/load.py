"""Load one YAML file and the environment into a :class:`Config`, or report all problems; export a
configuration, and its schema.

Rules: 1. Environment over file over defaults.  2. ``GOSSAMER_CLUSTER__AUTOHEAL`` is ``cluster.autoheal``: the
prefix, then the key with ``__`` for each dot. Lists and sections can be given as YAML on one line.
A number in the path is a place in a list.  3. Variables without ``__`` are not configuration, but for
``GOSSAMER_QUEUES``, a key that is in no section.  4. Keys may be written with dots
(``cluster.autoheal: on``), and files of BifroMQ and FluxMQ are understood.  5. All problems are
raised together.

Rejected: pydantic-settings' own environment source, which skips variables whose section it does not know and
so lets a misspelt one pass in silence.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gossamer.config.discovery import STRATEGIES
from gossamer.config.foreign import Leaf, native
from gossamer.config.model import Config
from gossamer.config.problems import Location, conflicts, key_path, problems_of, shown_of
from gossamer.errors import ConfigError, ConfigProblem

Tree = dict[str, object]
"""Sections and their keys, as a file has them."""

_PREFIX = "GOSSAMER_"
_SEPARATOR = "__"
_QUEUES = "GOSSAMER_QUEUES"


def load_config(path: Path | str | None = None, *, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in the file at ``path`` (None: only defaults) and in ``environ``.

    Raises:
        ConfigError: with every problem found; its ``source`` names the file.
    """
    source = str(path) if path is not None else "configuration"
    tree = {} if path is None else _read(Path(path))
    return config_from(tree, environ=environ, source=source)


def config_from(
    tree: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, source: str = "configuration"
) -> Config:
    """The configuration in a plain mapping, shaped like the file."""
    merged: Tree = {}
    translation = native(_leaves((), tree) if tree else ())
    problems = translation.problems
    for path, value in translation.leaves:
        _set(merged, path, value, problems)
    origins = _merge_environment(merged, environ or {}, problems)
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        problems += problems_of(error, origins)
        raise ConfigError(source, problems) from None
    problems += conflicts(config)
    if problems:
        raise ConfigError(source, problems)
    config._remarks = tuple(translation.remarks)
    return config


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice, where YAML's own lets the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in seen:
                raise ConfigError(
                    key_node.start_mark.name,
                    [ConfigProblem(key, f"the key again in line {line}", f"it once, as in line {seen[key]}")],
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Tree:
    where = "(file)"
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        try:
            loader.name = str(path)
            tree = loader.get_single_data()
        finally:
            loader.dispose()
        if tree is None or isinstance(tree, dict):
            return tree or {}
        got, expected = shown_of(tree), "sections: node, cluster, mqtt, …"
        where = "(top level)"
    except OSError as error:
        got, expected = error.strerror or type(error).__name__, "a YAML file that can be read"
    except UnicodeDecodeError as error:
        got, expected = f"byte {error.start} that is not UTF-8", "YAML in UTF-8"
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
        got, expected = error.problem or "bad YAML", "YAML"
    except yaml.YAMLError as error:
        got, expected = str(error), "YAML"
    raise ConfigError(str(path), [ConfigProblem(where, got, expected)])


def _leaves(path: tuple[str, ...], value: object) -> Iterator[Leaf]:
    """Yield each value that is no section, or an empty one, with its path; keys may have dots."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves((*path, *str(key).split(".")), inner)


def _set(tree: Tree, path: tuple[str, ...], value: object, problems: list[ConfigProblem]) -> None:
    section = tree
    for depth, part in enumerate(path[:-1]):
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            got = "a value and also keys below it"
            problems.append(ConfigProblem(key_path(path[: depth + 1]), got, "one or the other"))
            return
        section = inner
    if section.get(path[-1]) is None:
        section[path[-1]] = value
    elif value is not None and value != {}:
        problems.append(ConfigProblem(key_path(path), "the key twice, spelt in two ways", "it once"))


def _merge_environment(
    tree: Tree, environ: Mapping[str, str], problems: list[ConfigProblem]
) -> dict[Location, str]:
    origins: dict[Location, str] = {}
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or (_SEPARATOR not in name and name != _QUEUES):
            continue
        location: Location = tuple(
            int(part) if part.isdecimal() else part
            for part in name.removeprefix(_PREFIX).lower().split(_SEPARATOR)
        )
        text = environ[name]
        try:
            # Only what must be a list or a section is YAML: a cookie of digits stays the text it is.
            value = yaml.safe_load(text) if re.match(r"\s*[\[{]", text) else text
        except yaml.YAMLError:
            problems.append(
                ConfigProblem(f"{key_path(location)} (from {name})", "bad YAML", "YAML on one line")
            )
            continue
        if _override(tree, location, value):
            origins[location] = name
        else:
            got = "a path that does not lead through sections and lists"
            problems.append(ConfigProblem(f"{key_path(location)} (from {name})", got, "a key of the schema"))
    return origins


def _override(tree: Tree, location: Location, value: object) -> bool:
    """Set ``location`` in ``tree``; False where the path does not fit what is there."""
    place: Any = tree
    for part, following in zip(location, (*location[1:], None), strict=True):
        if isinstance(part, int):
            if not isinstance(place, list) or part > len(place):
                return False
            if part == len(place):
                place.append(None)
        elif not isinstance(place, dict):
            return False
        if following is None:
            place[part] = value
            return True
        inner = place[part] if isinstance(part, int) else place.get(part)
        if inner is None:
            inner = place[part] = [] if isinstance(following, int) else {}
        place = inner
    return False


def json_schema() -> Tree:
    """The JSON Schema of the file, for editors that complete and check it."""
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "gossamer"
    # ``discovery: dns`` is right to the reader, so it must be to an editor too.
    key = schema["$defs"]["ClusterConfig"]["properties"]["discovery"]
    union = {"oneOf": key.pop("oneOf"), "discriminator": key.pop("discriminator")}
    key["anyOf"] = [{"enum": [*STRATEGIES]}, union]
    return schema


def to_plain(config: Config, *, changed_only: bool = False) -> Tree:
    """Plain data that reads back as the same configuration, secrets hidden."""
    return config.model_dump(mode="json", exclude_defaults=changed_only)
