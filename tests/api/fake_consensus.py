"""The group of replicas and the unique names of a node that is not there."""

from gossamer.api.model import raft
from gossamer.basekv import BadRangeError
from gossamer.errors import NotFoundError, UnavailableError, mismatch


class FakeConsensus:
    """A group of two voters, led by the first, and one name; a range of keys, which the second leads."""

    def __init__(self):
        self.known = raft.GroupInfo(
            kind="names",
            group="5f0c",
            leader="node1@127.0.0.1",
            told_by="node1@127.0.0.1",
            term=3,
            committed=20,
            applied=20,
            members=(
                raft.ReplicaInfo(node="node1@127.0.0.1", replica=1, voter=True, match=20, flow="replicate"),
                raft.ReplicaInfo(node="node2@127.0.0.1", replica=4, voter=True, match=17, flow="replicate"),
                raft.ReplicaInfo(node="node3@127.0.0.1", replica=9, voter=False, match=0, flow="probe"),
            ),
        )

    async def groups(self):
        ranges = self.known.model_copy(
            update={
                "kind": "basekv/1",
                "group": "7a",
                "leader": "node2@127.0.0.1" if self.known.leader else "",
            }
        )
        return [self.known, ranges]

    async def transfer(self, node, kind):
        if kind != self.known.kind:
            raise mismatch(NotFoundError, "GROUP", repr(kind), "names")
        if node not in [member.node for member in self.known.members if member.voter]:
            raise mismatch(
                NotFoundError, "NODE", repr(node), "one of the voters node1@127.0.0.1, node2@127.0.0.1"
            )
        self.known = self.known.model_copy(update={"leader": node, "term": self.known.term + 1})
        return self.known

    async def recover(self):
        if self.known.leader:
            raise UnavailableError("raft recover: the group has a leader; there is nothing to recover")

    async def ranges(self):
        return [
            raft.KeyRange(range=0, kind="basekv/0", start="", end="40", version=1, size=512),
            raft.KeyRange(
                range=1, kind="basekv/1", start="40", end=None, version=2, leader="node2@127.0.0.1"
            ),
        ]

    async def split_range(self, key):
        if key == b"\x40":
            raise BadRangeError(key.hex(), got="the border of range 1", expected="a key inside")
        return raft.KeyRange(range=9, kind="basekv/9", start=key.hex(), end=None, version=3)

    async def merge_range(self, number):
        if number:
            raise BadRangeError(
                str(number), got="the last range", expected="one with a neighbour on its right"
            )
        return (await self.ranges())[0]

    async def names(self):
        if not self.known.leader:
            raise UnavailableError("read: no leader is known; try again")
        return [raft.UniqueName(name="ledger", node="node2@127.0.0.1", pid="<node2@127.0.0.1.7>", fence=12)]
