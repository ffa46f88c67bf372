"""State machine of unique names: who holds each, and for how long a node that is not heard of keeps its own.

A node renews its *lease* with the leader while processes of it hold names. The leader gives the names of a
node away that it has not heard of for :data:`LEASE` seconds; that node has ended their holders by then, since
it does so :data:`HOLD` seconds after it sent the last renewal that was answered. So nothing rests on equal
clocks, only on clocks that do not go half again as fast as another.

Rules: 1. Only a renewal that a quorum has confirmed counts (a read of the group).  2. Once the release of a
node is proposed, its renewals are refused: an answer would extend what is about to be given away.  3. A new
leader waits a whole lease.  4. A holder's *fence* is the index of the entry that gave it the name: it rises
from holder to holder, so that who is asked for something can refuse one that was paused and does not know
yet that it is the holder no more.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gossamer.supervisor import Pid

LEASE = 10.0
HOLD = 6.0
MAX_NAMES = 100_000


class Register(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Give a name to a process. Result: its fence; 0: another has it."""

    name: str
    pid: Pid


class Unregister(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Take a name from a process. Result: whether it had it."""

    name: str
    pid: Pid


class Release(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Take all names from the processes of a node, of a creation and those before."""

    node: str
    creation: int


class Whereis(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Question: who holds a name? Answer: process and fence, or None."""

    name: str


class Renew(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Question of a node: which names do its processes hold? None: its lease is over."""

    node: str
    creation: int


class ListNames(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Question: all names. Answer: process and fence of each."""


_encode = msgspec.msgpack.Encoder().encode
_request: Callable[[bytes], Register | Unregister | Release] = msgspec.msgpack.Decoder(
    Register | Unregister | Release
).decode
_question: Callable[[bytes], Whereis | Renew | ListNames] = msgspec.msgpack.Decoder(
    Whereis | Renew | ListNames
).decode
_image = msgspec.msgpack.Decoder(dict[str, tuple[Pid, int]]).decode


def encoded(asked: msgspec.Struct) -> bytes:
    """Return a request or a question as it travels."""
    return _encode(asked)


class NamesMachine:
    """Holders by name; ``now`` is a clock of this node, for leases alone."""

    released = False

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._holders: dict[str, tuple[Pid, int]] = {}
        self._renewed: dict[tuple[str, int], float] = {}
        """When each node was last heard of. Not part of the state."""
        self._releasing: set[tuple[str, int]] = set()
        """Nodes whose release was proposed by this leader. Not part of the state either."""

    def apply(self, index: int, request: bytes) -> object:
        """Take a committed request."""
        match _request(request):
            case Register(name, pid):
                return self._register(name, pid, index)
            case Unregister(name, pid):
                held = self._holders.get(name)
                if held is None or held[0] != pid:
                    return False
                del self._holders[name]
                return True
            case Release(node, creation):
                for name, (pid, _) in list(self._holders.items()):
                    if pid.node == node and pid.creation <= creation:
                        del self._holders[name]
                self._releasing = {one for one in self._releasing if one[0] != node or one[1] > creation}
        return None

    def _register(self, name: str, pid: Pid, index: int) -> int:
        held = self._holders.get(name)
        if held is not None:
            if held[0] == pid:
                return held[1]
            # The earlier creation of a node ended before the later one began.
            if held[0].node != pid.node or held[0].creation >= pid.creation:
                return 0
        elif len(self._holders) >= MAX_NAMES:
            return 0
        self._holders[name] = pid, index
        self._renewed[pid.node, pid.creation] = self._now()
        return index

    def read(self, question: bytes) -> object:
        """Answer a question."""
        match _question(question):
            case Whereis(name):
                return self._holders.get(name)
            case Renew(node, creation):
                if (node, creation) in self._releasing:
                    return None
                self._renewed[node, creation] = self._now()
                held = [(name, pid) for name, (pid, _) in self._holders.items() if pid.node == node]
                return [name for name, pid in held if pid.creation == creation]
            case ListNames():
                return dict(self._holders)

    def upkeep(self, leading_for: float, in_sync: int | None = None) -> list[bytes]:
        """Return the releases of nodes whose lease is over; ``leading_for`` so many seconds."""
        if leading_for < LEASE:
            self._releasing.clear()
            return []
        border = self._now() - LEASE
        nodes = {(pid.node, pid.creation) for pid, _ in self._holders.values()}
        self._renewed = {one: at for one, at in self._renewed.items() if one in nodes}
        over = sorted(one for one in nodes if self._renewed.get(one, border) <= border)
        self._releasing.update(over)
        return [_encode(Release(*one)) for one in over]

    def snapshot(self) -> bytes:
        """Return the holders."""
        return _encode(self._holders)

    def restore(self, data: bytes) -> None:
        """Take over the holders of a snapshot."""
        self._holders = _image(data)
