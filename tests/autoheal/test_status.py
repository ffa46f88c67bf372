"""What an operator reads of splits and heals."""

from gossamer.autoheal import Incident, Partition, Reconciled, describe
from gossamer.config import Config
from gossamer.node import Node

INCIDENT = Incident(
    plan="p",
    coordinator="n1",
    survivors=("n1", "n2"),
    reloaded=("n3",),
    skipped=("n4",),
    saw_down={"n1": ("n3", "n4"), "n2": ("n3", "n4"), "n3": ("n1", "n2")},
    split_at=100.0,
    healed_at=131.25,
    rows=Reconciled(restored=1, merged=2, quarantined=0),
)


def test_a_heal_says_who_saw_whom_how_long_and_what_became_of_rows():
    assert describe(INCIDENT) == (
        "n1, n2 saw n3, n4 down; n3 saw n1, n2 down; healed 31.2 s after that; survivors n1, n2; "
        "reloaded n3; stayed away n4; 1 row set back to the survivors'; 2 rows merged; no rows in quarantine"
    )


async def test_a_partition_is_an_alarm_while_it_lasts_and_a_heal_one_that_is_over():
    node = Node(Config(), creation=1, cookie="of a node that never starts")
    status = node.healing
    status.node = "n1"
    status.open = (Partition("n3", "running_partitioned_network", 100.0, 120.0),)
    status.history = (INCIDENT,)
    partition, healed = node.view.healing.alarms()
    assert (partition.name, partition.active, partition.since) == ("partition", True, 100.0)
    assert "n1 and n3" in partition.text
    assert "autoheal is off" in partition.text
    assert (healed.name, healed.active, healed.until, healed.plan) == ("healed", False, 131.25, "p")
