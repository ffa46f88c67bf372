"""What happens in a move of a session, and what is to be done: the events and actions of ``handover``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# -- events


@dataclass(frozen=True, slots=True)
class Asked:
    """To the giver: ``taker`` wants the session, for the move ``token``."""

    token: str
    taker: str


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """To the giver: the taker of ``token`` wants what came since, for which ``asked`` were to send marks."""

    token: str
    asked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Superseded:
    """To the giver: ``node`` claims the session with a higher epoch."""

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
    """To the taker: what the giver said to freeze. ``state`` where it is a state."""

    answer: Answer
    state: Any = None


Answer = Literal["state", "busy", "none", "outbid", "ended", "unreachable", "kept"]
"""``outbid``: another node has it, as far as the giver knows. ``ended``: it ended with its connection.
``kept``: a later connection of the client is at the giver, or the one that wants the session has ended."""


@dataclass(frozen=True, slots=True)
class Installed:
    """To the taker: the session is here, and every node knows its subscriptions; or the wait is over."""


@dataclass(frozen=True, slots=True)
class MarksSent:
    """To the taker: ``nodes`` have sent their marks, as far as they answered."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Released:
    """To the taker: what the giver had queued since; None: it did not answer."""

    rest: Any


@dataclass(frozen=True, slots=True)
class Committed:
    """To the taker: what it has is on disc."""


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
    """Giver: end the connection, give the state to the taker of ``token``, and go on queueing."""

    token: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Giver: tell who asked that it is ``busy``, or that there is ``none``."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Give:
    """Giver: answer the release with what was queued since."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Giver: the session is as it was; ``doubtful``: the taker may have what it was given."""

    doubtful: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Giver: it is somebody else's now; offer what was not given, then end it. Taker: the client comes in."""

    complete: bool = True


@dataclass(frozen=True, slots=True)
class AskFreeze:
    """Taker: ask ``node``."""

    node: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Taker: look again then."""

    until: float


@dataclass(frozen=True, slots=True)
class Install:
    """Taker: have the session, and its subscriptions known everywhere."""

    state: Any


@dataclass(frozen=True, slots=True)
class SendMarks:
    """Taker: have every node send its marks."""


@dataclass(frozen=True, slots=True)
class AskRelease:
    """Taker: ask ``node`` for the rest."""

    node: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Taker: put the session together and on disc."""

    rest: Any


@dataclass(frozen=True, slots=True)
class Own:
    """Taker: claim it, with an epoch above all others."""


Action = (
    Freeze | Refuse | Give | Thaw | Done | AskFreeze | Wait | Install | SendMarks | AskRelease | Commit | Own
)
