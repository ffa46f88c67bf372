"""Members that were down for too long are removed, and come back by themselves if they live."""

from __future__ import annotations

import random

from gossamer.gossip import ForcedOut, MemberLeft, MemberUp
from gossamer.gossip.swim.table import REMOVED
from tests.gossip.swarm import grown


def test_a_dead_member_is_removed_from_every_table_and_not_probed_any_more() -> None:
    swarm, hosts = grown(4, seed=7)
    swarm.kill(hosts[3])
    swarm.run(10)
    assert swarm.force_leave(hosts[0], "node4", final=False) is True
    swarm.run(5)
    for host in hosts[:3]:
        assert [event.member.removed for _, event in host.saw(MemberLeft)] == [True]
        assert host.swim.table.any_down(random.Random(0)) is None
    assert swarm.force_leave(hosts[0], "node4", final=False) is False


def test_a_member_that_lives_is_not_removed() -> None:
    swarm, hosts = grown(3, seed=7)
    assert swarm.force_leave(hosts[0], "node3", final=False) is False
    swarm.run(3)
    assert swarm.complete()


def test_who_was_removed_behind_a_split_is_a_member_again_once_it_ends() -> None:
    swarm, hosts = grown(5, seed=8)
    swarm.split(hosts[:3], hosts[3:])
    swarm.run(15)
    assert swarm.force_leave(hosts[0], "node4", final=False) is True
    assert swarm.force_leave(hosts[0], "node5", final=False) is True
    swarm.run(5)
    assert all(host.swim.table.get("node5").state == REMOVED for host in hosts[:3])  # type: ignore[union-attr]
    before = len(hosts[3].events)
    swarm.heal()
    assert swarm.run(30, until=swarm.complete)
    assert not any(host.saw(ForcedOut) for host in hosts)
    # Hearing that the other was removed, those of the smaller side do not part.
    assert not any(isinstance(event, MemberLeft) for _, event in hosts[3].events[before:])


def test_a_removed_member_that_starts_anew_is_a_member() -> None:
    swarm, hosts = grown(3, seed=9)
    swarm.kill(hosts[2])
    swarm.run(10)
    swarm.force_leave(hosts[0], "node3", final=False)
    swarm.run(2)
    fresh = swarm.start("node3")
    swarm.join(fresh, hosts[1])
    assert swarm.run(10, until=swarm.complete)
    assert [event.member.id for _, event in hosts[0].saw(MemberUp)][-1] == fresh.swim.table.me.id
