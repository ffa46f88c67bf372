"""``gossamer publish`` and ``gossamer retained``: messages, without an MQTT client."""

from __future__ import annotations

import base64
import sys
from itertools import islice
from typing import Annotated

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json, Limit
from gossamer.cli.output import emit_json, note, print_table

__all__ = ["publish", "retained"]


def publish(
    topic: Annotated[str, typer.Argument(help="Where to.")],
    payload: Annotated[str, typer.Argument(help="What; - is standard input, any bytes.")] = "",
    qos: Annotated[int, typer.Option("--qos", min=0, max=2, help="With 1 or 2 every node has it.")] = 0,
    retain: Annotated[bool, typer.Option("--retain", help="Keep it for who subscribes later.")] = False,
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Publish a message, and say to how many it went."""
    raw = sys.stdin.buffer.read() if payload == "-" else payload.encode()
    order = {
        "topic": topic,
        "payload": base64.b64encode(raw).decode(),
        "encoding": "base64",
        "qos": qos,
        "retain": retain,
    }
    with ApiClient(api) as client:
        answer = client.post("/api/v1/publish", order)
    if json:
        emit_json(answer)
        return
    receivers = answer["receivers"]
    note(
        f"{topic}: to {receivers} subscriber{'' if receivers == 1 else 's'} here or nodes elsewhere"
        + ("" if answer["safe"] else "; not all of those nodes have it yet")
    )


def retained(
    topic_filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="Only topics that match.")] = "#",
    api: Api = DEFAULT_API,
    json: Json = False,
    limit: Limit = None,
) -> None:
    """List the topics that have a retained message."""
    with ApiClient(api) as client:
        rows = list(islice(client.pages("/api/v1/retained", {"filter": topic_filter}), limit))
    if json:
        emit_json({"items": rows})
        return
    print_table(["TOPIC"], ([row["topic"]] for row in rows), empty="no retained messages")
