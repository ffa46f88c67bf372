"""``gossamer queues``: what waits for which consumers, and what none of them could do."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gossamer.api.model.forms import QUEUE_KEY, QUEUE_NAME
from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import argument, asks, option
from gossamer.cli.errors import FileError, OptionError
from gossamer.cli.render.output import Grid, age_text, clock, size_text
from gossamer.cli.render.show import Columns, Listing, Note, Part, Report, table
from gossamer.cli.root import noun

queues = noun()

_QUEUE = argument(..., "NAME", "As `queues` shows it.", completion.queues)
_TYPES = ("classic", "stream", "ephemeral", "last_value")
_ORDERINGS = ("none", "key")
_OPTIONS = {
    "type": "--type",
    "topics": "--topics",
    "ordering": "--ordering",
    "visibility_timeout": "--visibility-timeout",
    "max_age": "--max-age",
    "limits.max_depth": "--max-depth",
    "limits.max_bytes": "--max-bytes",
    "limits.message_ttl": "--message-ttl",
    "limits.overflow": "--overflow",
    "retry.max_deliveries": "--max-deliveries",
    "replication.group": "--group",
}
"""Options by the setting that they are."""


@queues.command("list")
@asks("--watch", node=True, watch=True)
def list_queues(client: ApiClient) -> Listing:
    """List the queues: what waits in each, since when, and what became of messages."""
    return Listing(
        client.rows("queues"),
        {
            "QUEUE": "name",
            "TYPE": "type",
            "GROUP": "replication_group",
            "DEPTH": "depth",
            "SIZE": lambda row: size_text(row["bytes"]),
            "OLDEST": lambda row: age_text(row["oldest"]) if row["depth"] else "",
            **{word.upper(): word for word in ("consumers", "held", "appended", "settled")},
            **{word.upper(): word for word in ("redelivered", "dead", "dropped")},
            "TOPICS": lambda row: " ".join(row["topics"]),
        },
        empty="no queues; make one with: gossamer queues create NAME",
    )


@queues.command("show")
@asks("jobs", node=True, watch=True)
def show_queue(client: ApiClient, name: str = _QUEUE) -> Report:
    """Show one queue: its settings, its consumer groups and how far each is, and their consumers."""
    return _report(client.document(_path(name)))


def _report(found: Row) -> Report:
    def parts() -> Iterable[Part]:
        yield Grid([found["name"], ""], _facts(found))
        yield ""
        columns: Columns = {
            "CONSUMER GROUP": "name",
            **{word.upper(): word for word in ("cursor", "committed", "waiting", "held", "delayed")},
        }
        yield table(found["groups"], columns, "no consumer group: nobody has consumed")
        kept = [{**one, "group": group["name"]} for group in found["groups"] if (one := group["checkpoint"])]
        if kept:
            yield ""
            yield table(
                kept,
                {
                    "CHECKPOINT OF": "group",
                    **{word.upper(): word for word in ("number", "offset")},
                    "SIZE": lambda row: size_text(row["size"]),
                    "WRITTEN BY": "client",
                },
            )
        consumers = [
            {**one, "group": group["name"]} for group in found["groups"] for one in group["consumers"]
        ]
        if consumers:
            yield ""
            yield table(
                consumers,
                {
                    "CONSUMER": "client",
                    "CONSUMER GROUP": "group",
                    "NODE": "node",
                    "HELD": lambda row: f"{row['held']} of {row['limit']}",
                    "STATE": lambda row: "stuck" if row["stuck"] else "",
                },
            )

    return Report(found, parts)


def _facts(row: Row) -> list[tuple[str, object]]:
    counts = ("appended", "settled", "redelivered", "dead", "dropped")
    waits = f", the oldest for {age_text(row['oldest'])}" if row["depth"] else ""
    return [
        ("type", row["type"]),
        (
            "replication group",
            row["replication_group"] + (f", moves to {to}" if (to := row["moving_to"]) else ""),
        ),
        ("messages", f"{row['depth']}, {size_text(row['bytes'])}{waits}"),
        ("offsets", f"{row['first']} to {row['next'] - 1}" if row["depth"] else f"next {row['next']}"),
        (", ".join(counts), ", ".join(str(row[one]) for one in counts)),
        *(
            (name, value)
            for name, value in _flat(row["settings"])
            if name not in ("type", "replication.group")
        ),
    ]


def _flat(settings: Row, above: str = "") -> Iterable[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, bool):
            yield f"{above}{name}", "on" if value else "off"
        elif value not in (None, []):
            yield f"{above}{name}", " ".join(value) if isinstance(value, list) else str(value)


@queues.command()
@asks("jobs --max-depth 10000 --visibility-timeout 2m", "jobs --file jobs.yaml")
def create(
    client: ApiClient,
    name: str = argument(
        ...,
        "NAME",
        "Clients publish to $queue/NAME/KEY.",
        completion.queues,
        callback=values.form(QUEUE_NAME),
    ),
    file: Path | None = option(None, "--file", "YAML with its settings; options here win.", dir_okay=False),
    type: str | None = option(
        None,
        "--type",
        "classic, stream, ephemeral or last_value.",
        completion.known(*_TYPES),
        callback=values.one_of(_TYPES),
    ),
    topics: list[str] | None = option(
        None, "--topics", "Filter of topics that it captures; may be repeated.", callback=values.topic_filter
    ),
    ordering: str | None = option(
        None, "--ordering", "none or key.", completion.known(*_ORDERINGS), callback=values.one_of(_ORDERINGS)
    ),
    visibility_timeout: str | None = option(
        None, "--visibility-timeout", "Time after which another consumer gets what is not settled."
    ),
    max_age: str | None = option(None, "--max-age", "Age at which messages of a stream go."),
    max_depth: int | None = option(None, "--max-depth", "Messages at most.", min=1),
    max_bytes: str | None = option(None, "--max-bytes", "Their size at most.", callback=values.size),
    message_ttl: str | None = option(None, "--message-ttl", "Time after which a message goes, or off."),
    overflow: str | None = option(None, "--overflow", "reject or drop_oldest."),
    max_deliveries: int | None = option(
        None, "--max-deliveries", "After so many a message is a dead letter.", min=1
    ),
    group: str | None = option(None, "--group", "Replication group."),
) -> Report:
    """Make a queue, or change it: what is not given is as in a new queue, and its messages stay."""
    from gossamer.config import QueueConfig

    given = {
        "type": type,
        "topics": topics or None,
        "ordering": ordering,
        "visibility_timeout": visibility_timeout,
        "max_age": max_age,
        "limits.max_depth": max_depth,
        "limits.max_bytes": max_bytes,
        "limits.message_ttl": message_ttl,
        "limits.overflow": overflow,
        "retry.max_deliveries": max_deliveries,
        "replication.group": group,
    }
    settings: dict[str, Any] = {} if file is None else _read(file)
    for key, value in given.items():
        section, _, inner = key.rpartition(".")
        if value is not None and section:
            settings[section] = {**(settings.get(section) or {}), inner: value}
        elif value is not None:
            settings[key] = value
    return _report(client.put(_path(name), values.order(QueueConfig, settings, _OPTIONS)))


def _read(file: Path) -> dict[str, Any]:
    # Here, so that the rest of the command starts without loading it.
    import yaml

    advice = "expected a YAML file with settings of a queue, such as type: stream"
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FileError(file, error, advice=advice) from None
    if not isinstance(found, dict):
        raise OptionError("--file", got=str(file), expected=advice.removeprefix("expected "))
    return found


@queues.command()
@asks("jobs")
def delete(client: ApiClient, name: str = _QUEUE) -> Report:
    """Delete a queue with all that is in it, at once."""
    answer = client.delete(_path(name))
    return Report(answer, lambda: [Note(answer["done"])])


@queues.command()
@asks("jobs.dlq")
def purge(client: ApiClient, name: str = _QUEUE) -> Report:
    """Delete all messages of a queue, at once, those that consumers have too."""
    answer = client.post(f"{_path(name)}/purge")
    return Report(answer, lambda: [Note(f"queue {name}: {answer['removed']} messages deleted")])


@queues.command()
@asks("jobs", "jobs --offset 7", "jobs --limit 100")
def replay(
    client: ApiClient,
    name: str = _QUEUE,
    offset: int | None = option(None, "--offset", "The dead letter at this offset alone.", min=0),
    limit: int | None = option(None, "--limit", "The oldest, so many at most.", min=1),
) -> Report:
    """Give the dead letters of a queue back to it; their attempts count anew."""
    answer = client.post(f"{_path(name)}/replay", {"offset": offset, "limit": limit})
    count, letters = answer["replayed"], answer["dead_letters"]
    return Report(answer, lambda: [Note(f"queue {name}: {count} messages are back from {letters}")])


@queues.command()
@asks("jobs --group hot")
def move(
    client: ApiClient,
    name: str = _QUEUE,
    group: str = option(..., "--group", "The replication group to go to.", callback=values.form(QUEUE_NAME)),
) -> Report:
    """Move a queue to another replication group, with its dead letters: clients go on in between."""
    answer = client.post(f"{_path(name)}/move", {"group": group})
    there = "is in" if answer["replication_group"] == group else "moves to"
    return Report(answer, lambda: [Note(f"queue {name} {there} replication group {group}")])


@queues.command("drop-group")
@asks("jobs audit")
def drop_group(
    client: ApiClient,
    name: str = _QUEUE,
    group: str = argument(..., "GROUP", "A consumer group, as `queues show` has it."),
) -> Report:
    """Delete a consumer group that has no consumers: messages wait for it no more."""
    answer = client.delete(f"{_path(name)}/groups/{quote(group, safe='')}")
    return Report(answer, lambda: [Note(answer["done"])])


@queues.command()
@asks("jobs.dlq", "jobs --offset 100 --limit 5")
def peek(
    client: ApiClient,
    name: str = _QUEUE,
    offset: int = option(0, "--offset", "The first that is wanted.", min=0),
    limit: int = option(10, "--limit", "How many at most.", min=1, max=100),
) -> Listing:
    """Look at messages of a queue, oldest first, and take none: for administrators."""
    return Listing(
        client.rows(f"{_path(name)}/messages", {"offset": offset, "limit": limit}),
        {
            "OFFSET": "offset",
            "KEY": "key",
            "AT": lambda row: clock(row["at"]),
            "PAYLOAD": lambda row: (
                row["payload"] if row["encoding"] == "text" else f"base64:{row['payload']}"
            ),
            "NOTE": "note",
        },
        empty=f"queue {name}: no message from offset {offset} on",
    )


@queues.command("publish")
@asks("jobs '{\"order\": 7}' --key orders/7", "jobs - < order.json")
def publish_to_queue(
    client: ApiClient,
    name: str = _QUEUE,
    payload: str = argument("", "PAYLOAD", "The message; - reads any bytes from standard input."),
    key: str = option("", "--key", "What stands behind $queue/NAME/.", callback=values.form(QUEUE_KEY)),
) -> Report:
    """Put a message into a queue, and wait until a quorum has it."""
    raw = sys.stdin.buffer.read() if payload == "-" else payload.encode()
    body = {"key": key, "payload": base64.b64encode(raw).decode(), "encoding": "base64"}
    answer = client.post(f"{_path(name)}/messages", body)
    return Report(answer, lambda: [Note(f"queue {name}: offset {answer['offset']}")])


def _path(name: str) -> str:
    return f"queues/{quote(name, safe='')}"
