"""What the server of queues has asked by processes of its own, each of which sends it what it found."""

from __future__ import annotations

import structlog
from msgspec import Struct

from gossamer.errors import GossamerError
from gossamer.queues import questions
from gossamer.queues.errors import NotDoneError
from gossamer.queues.looking import Look, look
from gossamer.queues.port import Queues, kind_of
from gossamer.raft import NotReadyError, request
from gossamer.supervisor import Pid, send

log = structlog.get_logger(__name__)


class Answered(Struct, frozen=True):
    """Answer to a batch; None: it says why there is none."""

    group: str
    answer: bytes | None
    why: str = ""


class Resolved(Struct, frozen=True):
    """The group of a queue; None: there is no such queue, or an error says why it is not known."""

    queue: str
    group: str | None
    error: GossamerError | None = None


class Listed(Struct, frozen=True):
    """Queues of each group that answered, with the topics that they capture."""

    groups: dict[str, dict[str, tuple[str, ...]]]


class Synced(Struct, frozen=True):
    """What this node's consumers have in a group; None: it could not be asked."""

    group: str
    seen: Look | None


async def send_batch(server: Pid, group: str, data: bytes, timeout: float) -> None:
    """Have a batch done by a group."""
    try:
        answer = Answered(group, await request(kind_of(group), data, timeout=timeout))
    except GossamerError as error:
        answer = Answered(group, None, error.why if isinstance(error, NotReadyError) else str(error))
    send(server, answer)


async def resolve(server: Pid, queue: str, queues: Queues) -> None:
    """Find the replication group of a queue."""
    try:
        found = Resolved(queue, await questions.group_of(queue, moving=queue in queues.moving))
    except GossamerError as error:
        found = Resolved(queue, None, NotDoneError(str(error), unknown=False))
    send(server, found)


async def ask_held(server: Pid, group: str, queues: Queues) -> None:
    """Learn what this node's consumers have, with what they lack of it."""
    try:
        seen = await look(group, queues)
    except GossamerError as error:
        log.debug("queues_not_synced", group=group, error=str(error))
        send(server, Synced(group, None))
    else:
        send(server, Synced(group, seen))


async def list_all(server: Pid) -> None:
    """Learn which queues there are, and what they capture."""
    send(server, Listed(await questions.topics()))
