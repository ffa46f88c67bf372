"""What clients and operators saw, as a list of frozen events in the order in which they happened.

One line of JSON an event, so a history can be read, cut and judged again without the cluster that made it.
Times are seconds since the run began, all by the one clock of the process that all clients live in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

FULL, ROOM = "its disc is full", "its disc has room again"
"""Notes of ``fault``, with the node."""

KINDS = {
    # of a client's connection
    "connecting": "CONNECT is about to be sent; note: clean, if so",
    "connected": "CONNACK with success; present: session present",
    "refused": "CONNACK with a failure code",
    "timeout": "no CONNACK, or no answer to what note says, within the client's patience",
    "closed": "the connection was ended by the server or the network; code of DISCONNECT if there was one",
    "aborted": "the client dropped its connection; note: after DISCONNECT, if nobody closed it then",
    "goodbye": "DISCONNECT was sent, and the server closed the connection then",
    "served": "a PINGRESP came",
    # of a publisher
    "sent": "PUBLISH was written; dup as in the packet",
    "received by server": "PUBREC came",
    "acknowledged": "PUBACK or PUBCOMP came, with its code",
    "abandoned": "the session was gone, so the fate of this message of QoS 2 is open",
    # of a subscriber
    "subscribing": "SUBSCRIBE was written; topic is the filter",
    "subscribed": "SUBACK came with its code; note: what the server said besides",
    "unsubscribing": "UNSUBSCRIBE was written",
    "unsubscribed": "UNSUBACK came",
    "received": "PUBLISH came; note: 'unacknowledged' where the client kept back its acknowledgement",
    "repeated": "PUBLISH of QoS 2 whose identifier is not released: not handed on; note: what it was before",
    # of the will of a client
    "will": "the will in the CONNECT before; message, topic, and as code the seconds until it is due",
    # of operators
    "down": "a node was killed or is stopped; note: how",
    "up": "a node printed that it is ready",
    "paused": "SIGSTOP",
    "resumed": "SIGCONT",
    "cut": "packets from node to code (a node) are dropped; note: share, if not all",
    "joined": "packets from node to code pass again",
    "members": "a node says whom it sees; note: their numbers, empty where it does not answer",
    "fault": "a step of the fault, in words",
    "whole": "every node runs and sees every other",
    "not whole": "they did not within the time allowed",
    "settling": "publishers have stopped, subscribers stay where they are",
    "end": "the run is over",
}


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    at: float
    kind: str
    client: str = ""
    node: int = 0
    connection: int = 0
    """Which of the client's connections, from 1."""
    topic: str = ""
    message: str = ""
    qos: int = 0
    packet_id: int = 0
    dup: bool = False
    retain: bool = False
    present: bool = False
    code: int = 0
    note: str = ""


class History:
    """Takes events as they happen."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.events: list[Event] = []

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def record(self, kind: str, **fields: Any) -> Event:
        assert kind in KINDS, kind
        event = Event(self.now(), kind, **fields)
        self.events.append(event)
        return event


def write(path: Path, header: dict[str, Any], events: Sequence[Event]) -> None:
    """``header``: how the run was made; the first line."""
    lines = [{"run": header}, *events]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def read(path: Path) -> tuple[dict[str, Any], list[Event]]:
    header, *lines = path.read_bytes().splitlines()
    return msgspec.json.decode(header)["run"], [msgspec.json.decode(line, type=Event) for line in lines]
