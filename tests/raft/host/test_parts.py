"""Messages of all groups for one node, divided so that no part is longer than a frame of a link."""

from gossamer.config import DistributionConfig
from gossamer.raft.host.messages import PACKETS_BYTES
from gossamer.raft.host.messages import parts as parts_of
from gossamer.raft.host.replicas import SETTINGS


def test_messages_leave_in_order_and_in_parts_that_a_link_takes():
    messages = [(number, bytes(300_000)) for number in range(80)]
    parts = list(parts_of(messages))
    assert [message for part in parts for message in part] == messages
    assert len(parts) > 1
    assert all(sum(len(data) for _, data in part) <= PACKETS_BYTES for part in parts)
    assert DistributionConfig().max_frame / 8 > PACKETS_BYTES


def test_a_message_that_is_longer_leaves_alone():
    messages = [(1, b"a"), (2, bytes(2 * PACKETS_BYTES)), (3, b"b")]
    assert list(parts_of(messages)) == [[message] for message in messages]


def test_an_idle_group_may_lose_a_heartbeat_without_an_election():
    assert 2 * SETTINGS.idle_heartbeat_ticks <= SETTINGS.election_ticks
