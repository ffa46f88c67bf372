"""Histories made by hand: a tenth of a second an event, written down by script.

::

    pair [qos=2]                        a subscriber to ``t`` at node 2, a publisher at node 1, and their QoS
    wait 5    cluster whole|settling|end|not-whole
    node 2 down|up|paused|resumed|full|room    node 1 cut 2 3    node 1 joined 2    node 2 members 2,3
    a asks 1 [clean]                    CONNECT of a client named ``a``; ``enters``: and CONNACK [present]
    a subscribes t    a unsubscribes t    a sends 7    a publishes 7    a gets b:7 b:8
    a retains 1 2                       publish these versions to be retained
    a reads 2 at=3                      connect, read this version, 0 for nothing, and go
    a closed code=0x8E    a KIND …      any other event of a client, see ``real.history.history``
    sessions: kept                      what is judged (sessions, ``strict`` ones, or promises), and found
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from real.history.history import FULL, ROOM, Event
from real.history.judge import PROMISES, SESSIONS, judge
from real.history.story import Story


class Tale:
    """A history that grows; nodes 1, 2 and 3 are one cluster at first."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at = 0.0
        self.qos = 1
        self._clients: dict[str, Teller] = {}
        for node in (1, 2, 3):
            self.operator("up", node)
            self.operator("members", node, note="1,2,3")
        self.operator("whole")

    def operator(self, kind: str, node: int = 0, **fields: object) -> None:
        self.add(Event(self.at, kind, node=node, **fields))  # type: ignore[arg-type]

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.at = round(self.at + 0.1, 3)

    def client(self, name: str) -> Teller:
        return self._clients.setdefault(name, Teller(self, name))

    def pair(self, qos: int = 1) -> tuple[Teller, Teller]:
        self.qos = qos
        subscriber, publisher = self.client("sub"), self.client("pub")
        subscriber.enters(2)
        subscriber.subscribes("t")
        publisher.enters(1)
        return subscriber, publisher

    def broken(self, *promises: str, strict: bool = False) -> list[str]:
        """Kinds of violations, in order."""
        found = judge(Story(self.events), promises or SESSIONS, strict=strict)
        return [violation.promise for violation in found]

    def tell(self, script: str) -> Iterator[tuple[str, str]]:
        """Go through a script; for each line that judges, the line and what it should be."""
        for line in script.splitlines():
            what, judges, _ = line.partition(": ")
            promises = tuple(what.split(", "))
            if line.startswith("#"):
                continue
            if judges and set(promises) <= {*PROMISES, "sessions", "strict"}:
                named = promises if set(promises) <= {*PROMISES} else ()
                found = self.broken(*named, strict=what == "strict")
                yield line, f"{what}: {', '.join(found) or 'kept'}"
            else:
                self._do(*shlex.split(line))

    def _do(self, who: str, *words: str) -> None:
        match who, *words:
            case "pair", *options:
                self.pair(**_fields(options))
            case "wait", seconds:
                self.at += float(seconds)
            case "cluster", kind:
                self.operator(kind.replace("-", " "))
            case "node", node, ("cut" | "joined") as kind, *others:
                for other in others:
                    self.operator(kind, int(node), code=int(other))
            case "node", node, "members", names:
                self.operator("members", int(node), note=names)
            case "node", node, ("full" | "room") as state:
                self.operator("fault", int(node), note=FULL if state == "full" else ROOM)
            case "node", node, kind:
                self.operator(kind, int(node))
            case name, verb, *rest:
                places = [word for word in rest if "=" not in word and word not in _FLAGS]
                fields = _fields([word for word in rest if word not in places])
                teller = self.client(name)
                do = getattr(teller, verb, None)
                if do is None:
                    teller.note(verb, **fields)
                else:
                    do(*(int(place) if place.isdecimal() else place for place in places), **fields)


_FLAGS = ("clean", "present", "retain")


def _fields(words: list[str]) -> dict[str, int | str | bool]:
    pairs = [word.partition("=") for word in words]
    numbers = ("qos", "code", "packet_id", "at")
    return {
        key: (int(value, 0) if key in numbers else value) if equals else True for key, equals, value in pairs
    }


class Teller:
    """A client in a tale."""

    def __init__(self, tale: Tale, name: str) -> None:
        self.tale = tale
        self.name = name
        self.node = self.connection = 0

    def note(self, kind: str, **fields: object) -> None:
        event = Event(self.tale.at, kind, self.name, self.node, self.connection, **fields)  # type: ignore[arg-type]
        self.tale.add(event)

    def enters(self, node: int, *, present: bool = False, clean: bool = False) -> None:
        self.asks(node, clean=clean)
        self.note("connected", present=present)

    def asks(self, node: int, *, clean: bool = False) -> None:
        self.node, self.connection = node, self.connection + 1
        self.note("connecting", note="clean" if clean else "")

    def subscribes(self, topic_filter: str, *, qos: int = 0, **fields: object) -> None:
        qos = qos or self.tale.qos
        self.note("subscribing", topic=topic_filter, qos=qos)
        self.note("subscribed", topic=topic_filter, code=qos, **fields)

    def unsubscribes(self, topic_filter: str) -> None:
        self.note("unsubscribing", topic=topic_filter)
        self.note("unsubscribed", topic=topic_filter)

    def sends(self, number: int, *, topic: str = "t", **fields: object) -> None:
        self.note("sent", topic=topic, message=f"{self.name}:{number}", qos=self.tale.qos, **fields)

    def acknowledged(self, message: str, *, topic: str = "t", code: int = 0) -> None:
        self.note("acknowledged", topic=topic, message=message, qos=self.tale.qos, code=code)

    def publishes(self, number: int, *, topic: str = "t", **fields: object) -> None:
        self.sends(number, topic=topic, **fields)
        self.acknowledged(f"{self.name}:{number}", topic=topic)

    def gets(self, *messages: str, topic: str = "t", qos: int = 0, **fields: object) -> None:
        for message in messages:
            self.note("received", topic=topic, message=message, qos=qos or self.tale.qos, **fields)

    def retains(self, *versions: int) -> None:
        for version in versions:
            self.publishes(version, retain=True)

    def reads(self, version: int, *, at: int) -> None:
        self.enters(at, clean=True)
        self.subscribes("t")
        if version:
            self.gets(f"w:{version}", retain=True)
        else:
            self.tale.at += 3
        self.note("goodbye")
