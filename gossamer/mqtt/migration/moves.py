"""Events and actions of a session's migration, as ``machines`` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# -- events


@dataclass(frozen=True, slots=True)
class Asked:
    """To the source: ``target`` wants the session, for the move ``token``."""

    token: str
    target: str


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """To the source: ``token`` wants what came since, for which ``asked`` were to send marks."""

    token: str
    asked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Superseded:
    """To the source: ``node`` claims the session with a higher epoch."""

    node: str


@dataclass(frozen=True, slots=True)
class Marked:
    """To both: everything that ``origin`` sent before its mark is here."""

    origin: str
    token: str


@dataclass(frozen=True, slots=True)
class NodeDown:
    """To both: a node is gone."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick:
    """To both: time has passed."""


@dataclass(frozen=True, slots=True)
class Answered:
    """To the target: what the source said to freeze. ``state`` where it is a state."""

    answer: Answer
    state: object = None


Answer = Literal["state", "busy", "none", "outbid", "ended", "unreachable", "kept"]
"""``outbid``: another node has it, as far as the source knows. ``ended``: it ended with its connection.
``kept``: a later connection of the client is at the source, or the one that wants the session has ended."""


@dataclass(frozen=True, slots=True)
class Installed:
    """To the target: the session is here, and every node knows its subscriptions; or the wait is over."""


@dataclass(frozen=True, slots=True)
class MarksSent:
    """To the target: ``nodes`` have sent their marks, as far as they answered."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Released:
    """To the target: what the source had queued since; None: it did not answer."""

    rest: object


@dataclass(frozen=True, slots=True)
class Committed:
    """To the target: what it has is on disc."""


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
    """Source: answer that it is ``busy``, or that there is ``none``."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Give:
    """Source: answer the release with what was queued since."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Source: the session is as it was; ``doubtful``: the target may have what it was given."""

    doubtful: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Source: another node has it; offer what was not given, then end it. Target: the client comes in."""

    complete: bool = True


@dataclass(frozen=True, slots=True)
class AskFreeze:
    """Target: ask ``node``."""

    node: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Target: look again then."""

    until: float


@dataclass(frozen=True, slots=True)
class Install:
    """Target: have the session, and its subscriptions known everywhere."""

    state: Any


@dataclass(frozen=True, slots=True)
class SendMarks:
    """Target: have every node send its marks."""


@dataclass(frozen=True, slots=True)
class AskRelease:
    """Target: ask ``node`` for the rest."""

    node: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Target: put the session together and on disc."""

    rest: Any


@dataclass(frozen=True, slots=True)
class Own:
    """Target: claim it, with an epoch above all others."""


Action = (
    Freeze | Refuse | Give | Thaw | Done | AskFreeze | Wait | Install | SendMarks | AskRelease | Commit | Own
)
