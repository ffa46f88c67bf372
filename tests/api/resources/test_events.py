"""What happened at a node lately, over HTTP."""

from gossamer.node.history import EventLog


class Clocks:
    """Both stand still until they are set."""

    def __init__(self) -> None:
        self.monotonic_now, self.wall_now = 100.0, 1_700_000_000.0

    def monotonic(self):
        return self.monotonic_now

    def wall(self):
        return self.wall_now


async def test_events_come_in_order_with_their_age_from_a_serial_on(client, view):
    clocks = Clocks()
    log = view.event_log = EventLog(clocks, creation=7)
    log.note("suspected", "node2@127.0.0.1")
    clocks.monotonic_now += 4.0
    # The wall clock is set back meanwhile, which does not make events younger.
    clocks.wall_now -= 3600.0
    log.note("down", "node2@127.0.0.1", "unreachable")
    clocks.monotonic_now += 1.5
    told = (await client.get("/api/v1/events")).json()
    assert (told["node"], told["creation"]) == (view.name, 7)
    assert [(e["serial"], e["kind"], e["age"], e["text"]) for e in told["items"]] == [
        (1, "suspected", 5.5, ""),
        (2, "down", 1.5, "unreachable"),
    ]
    [later] = (await client.get("/api/v1/events", params={"after": 1})).json()["items"]
    assert later["at"] == 1_700_000_000.0 - 3600.0
    assert (await client.get("/api/v1/events", params={"after": 2})).json()["items"] == []
    assert len((await client.get("/api/v1/events", params={"limit": 1})).json()["items"]) == 1


def test_the_oldest_go_and_serials_show_it():
    log = EventLog(Clocks(), creation=1, kept=3)
    for number in range(5):
        log.note("up", f"node{number}")
    assert [happening.serial for happening in log.after(0)] == [3, 4, 5]
