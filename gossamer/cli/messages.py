"""``gossamer publish`` and ``gossamer retained``: messages, without an MQTT client."""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.output import emit_json, note
from gossamer.cli.show import Listing, ask, show

__all__ = ["publish", "retained"]


def publish(
    topic: Annotated[str, typer.Argument(help="Where to.", autocompletion=values.topics)],
    payload: Annotated[str, typer.Argument(help="What; - is standard input, any bytes.")] = "",
    qos: Annotated[int, typer.Option("--qos", min=0, max=2, help="With 1 or 2 every node has it.")] = 0,
    retain: Annotated[bool, typer.Option("--retain", help="Keep it for who subscribes later.")] = False,
    api: Api = DEFAULT_API,
    node: OnNode = None,
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
    with ask(api, node) as client:
        answer = client.post("/api/v1/publish", order)
    if json:
        emit_json(answer)
        return
    receivers = answer["receivers"]
    note(
        f"{topic}: to {receivers} subscriber{'' if receivers == 1 else 's'} here or nodes elsewhere"
        + ("" if answer["safe"] else "; not all of those nodes have it yet")
    )


retained = noun("Messages that are kept for who subscribes later.")


@retained.command("list")
def list_retained(
    topic_filter: Annotated[
        str,
        typer.Argument(
            metavar="FILTER", help="Only topics that match.", autocompletion=values.retained_topics
        ),
    ] = "#",
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    watch: Watch = None,
) -> None:
    """List the topics that have a retained message."""
    with ask(api, node) as client:
        show(
            lambda most: Listing(
                client.pages("/api/v1/retained", {"filter": topic_filter}, limit=most),
                ["TOPIC"],
                lambda row: [row["topic"]],
                empty="no retained messages",
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


@retained.command()
def remove(
    topic: Annotated[str, typer.Argument(help="Whose message.", autocompletion=values.retained_topics)],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Remove the retained message of a topic, as an empty one that is published does."""
    with ApiClient(api) as client:
        answer = client.delete("/api/v1/retained", {"topic": topic})
    if json:
        emit_json(answer)
        return
    note(f"{topic}: nothing is kept any more")
