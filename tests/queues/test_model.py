"""The machine of a replication group, against a model that knows only what was asked and answered."""

from random import Random

import pytest

from gossamer.queues.values import (
    Held,
    HeldAnswer,
    InSync,
    Leave,
    Outcome,
    Peek,
    Refused,
    Replay,
    Why,
    decoder_of,
    encode,
)
from tests.queues.replica import Group, join, message, moved, settle


@pytest.mark.parametrize("seed", range(60))
def test_every_message_is_settled_once_or_accounted_for_whatever_comes(seed):
    """Random operations; a second replica is restored from a snapshot in the middle, and stays the same."""
    rng = Random(seed)
    group, other = Group(), None
    kind = rng.choice(["classic", "classic", "stream"])
    ordered = rng.random() < 0.5
    group.define(
        type=kind,
        ordering="key" if ordered else "none",
        visibility_timeout=rng.choice([2, 30]),
        limits={"max_depth": rng.choice([8, 1000]), "overflow": rng.choice(["reject", "drop_oldest"])},
        retry={"max_deliveries": 4, "initial_backoff": rng.choice([0, 2])},
    )
    taken, done, dead, keys, back = set(), set(), 0, {}, 0
    kept = []
    """What was done with a checkpoint, in order: the checkpoint is the last, and how many there were."""
    consumers = ["a", "b", "c"]
    in_sync = InSync(3, 3)

    def ask(*operations):
        if other is not None:
            other.ask(*operations)
        return group.ask(*operations)

    def held():
        claims = decoder_of(HeldAnswer)(group.machine.read(encode(Held("n1")))).claims
        return {claim.offset: claim.consumer for claim in claims}

    for step in range(400):
        choice = rng.random()
        if choice < 0.4:
            key = rng.choice(["", "k", "l"])
            (offset,) = ask(message(step, key))
            assert (offset == Refused(Why.FEW_REPLICAS)) is (in_sync.replicas < 3)
            if isinstance(offset, int):
                taken.add(offset)
                keys[offset] = key
        elif choice < 0.5:
            single = rng.random() < 0.2
            ask(join(rng.choice(consumers), limit=rng.choice([1, 3]), start="first", single=single))
        elif choice < 0.55:
            ask(Leave("jobs", "workers", rng.choice(consumers)))
        elif choice < 0.57:
            first = group.show().stats.next
            (count,) = ask(Replay("jobs", limit=rng.choice([None, 1])))
            if isinstance(count, int):
                back += count
                # Each is a message more, whose key may be any.
                new = decoder_of(list)(group.machine.read(encode(Peek("jobs", first, count or 1))))
                assert len(new) == count
                taken |= {one[0] for one in new}
                keys |= {one[0]: one[1] for one in new}
        elif choice < 0.65:
            in_sync = InSync(rng.choice([2, 3]), 3)
            for one in (group, other):
                if one is not None:
                    one.tick(1)
                    one.apply(encode(in_sync))
        elif mine := held():
            offset = rng.choice(sorted(mine))
            outcome = rng.choice([Outcome.ACK, Outcome.ACK, Outcome.NACK, Outcome.REJECT])
            if outcome is Outcome.ACK and rng.random() < 0.5:
                stale = rng.choice([n for n in range(len(kept) + 2) if n != len(kept)])
                late = settle(mine[offset], offset, saved=b"late", based_on=stale)
                assert ask(late) == [Refused(Why.STALE, [offset])]
                assert held()[offset] == mine[offset]
                kept.append(b"%d" % offset)
                saved = settle(mine[offset], offset, saved=kept[-1], based_on=len(kept) - 1)
                assert ask(saved) == [0]
                assert offset not in done
                done.add(offset)
                # It comes a second time, from somebody who does not know that it was taken.
                assert ask(saved)[0] in (Refused(Why.STALE, [offset]), Refused(Why.NOT_JOINED, [offset]))
            else:
                # With others of the same consumer, and one that it has not.
                theirs = [
                    one for one in mine if mine[one] == mine[offset] and (one == offset or rng.random() < 0.5)
                ]
                nobody = [-1] if rng.random() < 0.1 else []
                said = [Refused(Why.NOT_HELD, nobody)] if nobody else [0]
                assert ask(settle(mine[offset], [*nobody, *theirs], outcome)) == said
                if outcome is Outcome.ACK:
                    assert not done & set(theirs)
                    done |= set(theirs)
        assert group.saved() == (len(kept), kept[-1] if kept else b"")
        if ordered:
            out = [keys[offset] for offset in held() if keys[offset]]
            assert len(out) == len(set(out))
        if step == 300:
            assert other.machine.snapshot() == group.machine.snapshot()
            group, in_sync = moved(group, rng.randrange(100)), InSync(3, 3)
        if step in (200, 300):
            other = Group()
            other.machine.restore(group.machine.snapshot())
            other.number, other.index = group.number, group.index
    stats = group.show().stats
    dead = stats.dead
    assert done <= taken
    letters = group.show("jobs.dlq")
    assert dead == back + (0 if letters is None else letters.stats.depth)
    if kind == "classic":
        assert stats.depth + len(done) + dead + stats.dropped == len(taken)
    assert other.machine.snapshot() == group.machine.snapshot()
    # Whoever is left does all the rest.
    ask(Leave("jobs", "workers", "b"), Leave("jobs", "workers", "c"))
    ask(settle("a", -1), join("a", limit=100, start="first"))
    for _ in range(200):
        for offset, consumer in held().items():
            assert group.ask(settle(consumer, offset)) == [0]
            done.add(offset)
        group.tick(1)
    stats = group.show().stats
    assert len(done) + stats.dead + stats.dropped >= len(taken)
    if kind == "classic":
        assert stats.depth == 0
