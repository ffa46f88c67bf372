"""Histories made by hand."""

from __future__ import annotations

from real.history.history import Event
from real.history.judge import SESSIONS, judge
from real.history.story import Story


class Tale:
    """Writes a history, a tenth of a second an event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at = 0.0
        for node in (1, 2, 3):
            self.operator("up", node)
            self.operator("members", node, note="1,2,3")
        self.operator("whole")

    def wait(self, seconds: float) -> None:
        self.at += seconds

    def operator(self, kind: str, node: int = 0, **fields: object) -> None:
        self._add(Event(self.at, kind, node=node, **fields))  # type: ignore[arg-type]

    def _add(self, event: Event) -> None:
        self.events.append(event)
        self.at = round(self.at + 0.1, 3)

    def client(self, name: str) -> Teller:
        return Teller(self, name)

    def broken(self, *promises: str, strict: bool = False) -> list[str]:
        """Kinds of violations, in order."""
        found = judge(Story(self.events), promises or SESSIONS, strict=strict)
        return [violation.promise for violation in found]


class Teller:
    """A client in a tale."""

    def __init__(self, tale: Tale, name: str) -> None:
        self.tale = tale
        self.name = name
        self.node = self.connection = 0

    def note(self, kind: str, **fields: object) -> None:
        self.tale._add(
            Event(self.tale.at, kind, self.name, self.node, self.connection, **fields)  # type: ignore[arg-type]
        )

    def enters(self, node: int, *, present: bool = False, clean: bool = False) -> Teller:
        self.asks(node, clean=clean)
        self.note("connected", present=present)
        return self

    def asks(self, node: int, *, clean: bool = False) -> None:
        self.node, self.connection = node, self.connection + 1
        self.note("connecting", note="clean" if clean else "")

    def subscribes(self, topic_filter: str, qos: int = 1, **fields: object) -> Teller:
        self.note("subscribing", topic=topic_filter, qos=qos)
        self.note("subscribed", topic=topic_filter, code=qos, **fields)
        return self

    def unsubscribes(self, topic_filter: str) -> None:
        self.note("unsubscribing", topic=topic_filter)
        self.note("unsubscribed", topic=topic_filter)

    def sends(self, number: int, topic: str = "t", qos: int = 1, **fields: object) -> str:
        message = f"{self.name}:{number}"
        self.note("sent", topic=topic, message=message, qos=qos, **fields)
        return message

    def publishes(self, number: int, topic: str = "t", qos: int = 1) -> str:
        message = self.sends(number, topic, qos)
        self.note("acknowledged", topic=topic, message=message, qos=qos)
        return message

    def gets(self, *messages: str, topic: str = "t", qos: int = 1, **fields: object) -> None:
        for message in messages:
            self.note("received", topic=topic, message=message, qos=qos, **fields)


def pair(qos: int = 1) -> tuple[Tale, Teller, Teller]:
    """A tale with a subscriber at node 2 and a publisher at node 1."""
    tale = Tale()
    subscriber = tale.client("sub").enters(2).subscribes("t", qos)
    return tale, subscriber, tale.client("pub").enters(1)
