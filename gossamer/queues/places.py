"""Which replication group a queue may be in: the one that it is in, and that of its dead letters.

A dead letter leaves its queue in the entry that puts it into the other one, so both are in one group. Who
makes a queue asks here first, so that none is in two groups; no log of one group could say so of another.
"""

from __future__ import annotations

from gossamer.config import QueueConfig
from gossamer.errors import WrongValueError, mismatch
from gossamer.queues import questions
from gossamer.queues.errors import DeadLettersElsewhereError, GroupChangeError
from gossamer.queues.port import kind_of
from gossamer.queues.values import QUEUES
from gossamer.raft import found
from gossamer.supervisor import call


async def check(queue: str, config: QueueConfig) -> None:
    """See that a queue may be made, or changed, in the replication group that its settings name.

    Raises:
        GroupChangeError: it is in another one.
        DeadLettersElsewhereError: its dead letters are in another one, or those that it is to have come from
            a queue in another one.
        NotReadyError: no quorum of a group could be asked.
    """
    group = config.replication.group
    has = await questions.group_of(queue)
    if has not in (None, group):
        raise GroupChangeError(queue, has=str(has), wanted=group)
    if config.dlq.enabled:
        await check_dead_letters(queue, group, config)
    for other in await questions.groups():
        if other != group and (name := await questions.buries_in(other, queue)):
            raise DeadLettersElsewhereError(name, queue, has=other, dead=group)


async def provide(what: str, group: str) -> None:
    """See that there is a replication group: it is made, unless the configuration says that none is.

    Raises:
        WrongValueError: there is none, and none is made; ``what`` names it.
        NotReadyError: it is not there in time.
    """
    known = await questions.groups()
    if not known or group in known:
        return
    if not await call(QUEUES, "provisions"):
        expected = f"one of {', '.join(known)}, or cluster.raft.auto_provision_groups: true"
        raise mismatch(WrongValueError, what, group, expected)
    await found(kind_of(group))


async def check_dead_letters(queue: str, group: str, config: QueueConfig) -> None:
    """See that the dead letters of a queue are in its group, or nowhere yet."""
    dead = config.dlq.queue_of(queue)
    has = await questions.group_of(dead)
    if has not in (None, group):
        raise DeadLettersElsewhereError(queue, dead, has=group, dead=str(has))
