"""What several nodes keep for a session that is adopted comes in the order of time, and of each node."""

from gossamer.mqtt.migration.adopted import by_time


def test_what_several_nodes_keep_is_merged_by_time() -> None:
    assert by_time([[(1, "a"), (5, "c")], [], [(3, "b")]]) == [(1, "a"), (3, "b"), (5, "c")]


def test_what_one_node_keeps_stays_in_its_order_though_its_clocks_were_read_again_for_each() -> None:
    merged = by_time([[(107, "a1"), (103, "a2"), (104, "a3"), (200, "a4")], [(105, "b1")]])
    assert [record for _, record in merged] == ["b1", "a1", "a2", "a3", "a4"]
