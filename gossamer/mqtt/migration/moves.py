"""Events and actions of a session's migration, as ``machines`` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# -- events


@dataclass(frozen=True, slots=True)
class Asked:
    """To the source: ``target`` requests the session, for the move ``token``."""

    token: str
    target: str


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """To the source: the target requests what came since the freeze; ``asked`` were asked for marks."""

    token: str
    asked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Superseded:
    """To the source: ``node`` claims the session with a higher epoch."""

    node: str


@dataclass(frozen=True, slots=True)
class Marked:
    """To both: everything that ``origin`` sent before its mark is here; blank: this node."""

    origin: str
    token: str


@dataclass(frozen=True, slots=True)
class NodeDown:
    """To both: a node is down."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick:
    """To both: time has passed."""


@dataclass(frozen=True, slots=True)
class Answered:
    """To the target: the source's answer to freeze, with the session's ``state`` where it is ``state``."""

    answer: Answer
    state: object = None


Answer = Literal["state", "busy", "none", "outbid", "ended", "unreachable", "kept"]
"""``outbid``: the source sees a higher claim. ``ended``: the session ended with its connection. ``kept``: it
stays, for a later connection or another user there, or since the requesting connection has ended."""


@dataclass(frozen=True, slots=True)
class Installed:
    """To the target: the session is here, and every node has its routes; or the wait for that is over."""


@dataclass(frozen=True, slots=True)
class MarksSent:
    """To the target: ``nodes`` have sent their marks."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Released:
    """To the target: messages that the source queued since the freeze; None: it did not answer."""

    rest: object


@dataclass(frozen=True, slots=True)
class Committed:
    """To the target: the session is on disc."""


Event = (
    Asked
    | ReleaseAsked
    | Superseded
    | Marked
    | NodeDown
    | Tick
    | Answered
    | Installed
    | MarksSent
    | Released
    | Committed
)


# -- actions


@dataclass(frozen=True, slots=True)
class Freeze:
    """Source: end the connection, give the state to the target of ``token``, and go on queueing."""

    token: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Source: answer ``busy``, since another move is under way, or ``none``, since there is no session."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Give:
    """Source: answer the release with the messages queued since the freeze."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Source: take the session back; ``doubtful``: the target may have committed it."""

    doubtful: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Source: supersede the session; ``complete``: the target has all of it. Target: end the move."""

    complete: bool = True


@dataclass(frozen=True, slots=True)
class AskFreeze:
    """Target: ask ``node`` to freeze the session and send its state."""

    node: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Target: feed a :class:`Tick` at that time."""

    until: float


@dataclass(frozen=True, slots=True)
class Install:
    """Target: create the session from ``state``, and wait until every node has its routes."""

    state: Any


@dataclass(frozen=True, slots=True)
class SendMarks:
    """Target: request marks from all nodes."""


@dataclass(frozen=True, slots=True)
class AskRelease:
    """Target: request from ``node`` what it queued since the freeze."""

    node: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Target: complete the session with ``rest``, and write it to disc."""

    rest: Any


@dataclass(frozen=True, slots=True)
class Own:
    """Target: claim the session, with an epoch above the source's."""


Action = (
    Freeze | Refuse | Give | Thaw | Done | AskFreeze | Wait | Install | SendMarks | AskRelease | Commit | Own
)
