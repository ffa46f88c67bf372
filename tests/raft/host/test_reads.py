"""Reads of many processes of a node: they leave together, and each has its own answer."""

import asyncio

import pytest

from gossamer.raft.host.messages import RAFT, Ask, Done, NotDone, Read
from gossamer.raft.host.reads import MOST, Reads
from gossamer.supervisor import GenServer, Reply, Runtime, call


class Leader(GenServer):
    """Leads group 7, and notes what it is asked; ``old``: it knows no further questions."""

    async def init(self, asked, *, old=False):
        self.reads, self.asked, self.old = Reads(), asked, old

    async def handle_call(self, request, caller):
        match request:
            case Ask("basekv/0", question):
                return self.reads.ask(7, self.process.runtime.node, question, caller)
            case Ask("nobody leads", question):
                return self.reads.ask(7, "", question, caller)
            case Ask(_, question):
                return self.reads.ask(0, "", question, caller)
            case Read(7, b"refused", _):
                return Reply(NotDone("not now"))
            case Read(7, question, more):
                self.asked.append(1 + len(more))
                if more and not self.old:
                    return Reply(Done([one * 2 for one in (question, *more)]))
                return Reply(Done(question * 2))


async def ask(asked, kinds, **options):
    """What the processes of a node hear that ask at the same time."""
    runtime = Runtime("a")
    await runtime.start(Leader, asked, name=RAFT, **options)

    async def body():
        return await asyncio.gather(*(call(RAFT, Ask(*one)) for one in kinds))

    try:
        return await runtime.run(body)
    finally:
        await runtime.stop()


@pytest.mark.parametrize("old", [False, True])
async def test_reads_leave_together_and_each_has_its_own_answer(old):
    questions, asked = [b"%d" % number for number in range(3 * MOST)], []
    answers = await ask(asked, [("basekv/0", one) for one in questions], old=old)
    assert answers == [Done(one * 2) for one in questions]
    assert sum(count > 1 for count in asked) >= 3
    assert len(asked) < 6 or old


async def test_who_cannot_be_answered_is_told_why():
    asked = []
    answers = await ask(asked, [("basekv/0", b"refused"), ("nobody leads", b"x"), ("unknown", b"x")])
    assert [type(one) for one in answers] == [NotDone] * 3
    assert answers[0].why == "not now"
    assert "no leader" in answers[1].why
    assert "no group" in answers[2].why
    assert asked == []
