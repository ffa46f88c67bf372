"""What a left range's leader does about a merge: seals the right one, carries its rows over, has it retire.

Each step may be done twice, and by several at a time: who leads next goes on with what the left range's log
has of it.

Rejected: to have each replica of the left range take the rows of the right one's beside it. Both would need
replicas on the same nodes, which stay there until it is over, and a replica would wait with its log for
another group's.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.basekv.changes import Absorb, Merging, Phase, Release, Retire, Seal, Settle, Unseal
from gossamer.basekv.sending import AskRange
from gossamer.basekv.values import Answer, GetPart, Moved, Part, RangeInfo, Ruled, Verdict

_DONE = Ruled(Verdict.DONE)


async def carry(left: RangeInfo, merging: Merging, ask: AskRange, *, gone: Callable[[int], bool]) -> bool:
    """Bring a merge to its end, done or undone; return whether it is done. Raises GossamerError where that
    cannot be reached now. ``gone(number)``: that range has no group any more."""
    merge, number = merging.merge, merging.number
    whole = left if merging.phase is Phase.HAS else None
    if merging.phase is Phase.EXPECTS:
        sealed = await ask(number, Seal(merging.right_version, merge, left.number))
        answer = await _absorb(left.number, merging, ask) if sealed == _DONE else None
        if not isinstance(answer, Moved):
            # Another that leads may have had it done meanwhile.
            answer = await ask(left.number, Release(merge))
        whole = answer.range if isinstance(answer, Moved) else None
    if whole is None:
        await ask(number, Unseal(merge))
    elif not gone(number):
        await ask(number, Retire(merge, whole))
    await ask(left.number, Settle(merge))
    return whole is not None


async def _absorb(left: int, merging: Merging, ask: AskRange) -> Answer:
    """Carry all parts over; return what the left range says in the end."""
    position = len(merging.data)
    while True:
        part = await ask(merging.number, GetPart(merging.merge, position))
        if not isinstance(part, Part):
            return part
        answer = await ask(left, Absorb(merging.merge, position, part.data, part.last))
        if not isinstance(answer, Ruled) or answer.verdict is not Verdict.GOES_ON:
            return answer
        position = answer.position
