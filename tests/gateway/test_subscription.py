"""What a node holds for one subscription of a Python client, and what becomes of what it cannot hold."""

from types import SimpleNamespace

from gossamer.gateway.subscription import FAR, RemoteSubscription
from gossamer.mqtt import Message, Pressure

WINDOW, QUEUED = 4, 8


class Bench:
    """A subscription whose turn of the loop ends when the test says so."""

    def __init__(self, **options):
        self.time, self.due, self.sent = 0.0, [], []
        self.pressure = Pressure(lambda seconds, call: None)
        fanout = SimpleNamespace(
            recorder=None, remote_clients=set(), now=lambda: self.time, pressure=self.pressure
        )
        broker = SimpleNamespace(
            fanout=fanout,
            config=SimpleNamespace(limits=SimpleNamespace(max_queued=QUEUED)),
            runtime=SimpleNamespace(loop=SimpleNamespace(call_soon=self.due.append)),
            router=SimpleNamespace(unsubscribe_all=lambda subscription: None),
        )
        self.subscription = RemoteSubscription(
            *(broker, "c/1", "t", 1),
            emit=lambda messages, dropped, lost: self.sent.append(
                ([message[1] for message in messages], dropped, lost)
            ),
            owner=None,
            **{"window": WINDOW, "max_bytes": 10_000} | options,
        )

    def put(self, *payloads, qos=1, **options):
        for payload in payloads:
            self.subscription.put(Message(b"t", b"%d" % payload, qos=qos, **options), qos, False)

    def turn(self):
        """What left in this turn."""
        due, self.due[:] = list(self.due), []
        for call in due:
            call()
        sent, self.sent[:] = list(self.sent), []
        return sent


def test_what_comes_in_one_turn_leaves_together_up_to_the_window():
    bench = Bench()
    bench.put(0, 1)
    assert bench.turn() == [([b"0", b"1"], 0, 0)]
    bench.put(2, 3, 4, 5)
    assert bench.turn() == [([b"2", b"3"], 0, 0)]
    bench.subscription.taken(3)
    assert bench.turn() == [([b"4", b"5"], 0, 0)]


def test_qos_0_without_room_is_dropped_and_counted():
    bench = Bench()
    bench.put(*range(WINDOW + QUEUED + 3), qos=0)
    assert bench.subscription.dropped == WINDOW + 3  # nothing has left yet in this turn
    assert bench.turn()[0] == ([b"0", b"1", b"2", b"3"], WINDOW + 3, 0)
    assert not bench.pressure


def test_qos_1_makes_others_wait_before_anything_is_lost():
    bench = Bench()
    bench.put(*range(WINDOW))
    bench.turn()
    bench.put(*range(3))
    assert not bench.pressure
    bench.put(3)
    assert bench.subscription in bench.pressure.behind
    assert bench.pressure.hold is None
    bench.put(*range(4, QUEUED))
    assert bench.pressure.hold is not None
    assert bench.subscription.dropped == 0
    bench.subscription.taken(WINDOW)
    assert bench.pressure.hold is not None
    bench.subscription.taken(WINDOW * 2)
    assert not bench.pressure
    assert bench.pressure.hold is None


def test_what_is_lost_at_last_is_told_in_its_place():
    bench = Bench()
    bench.put(*range(WINDOW))
    bench.turn()
    bench.put(*range(QUEUED * FAR + 5))
    assert bench.subscription.dropped == 5
    bench.subscription.taken(WINDOW)
    bench.put(99)
    bench.turn()
    for count in range(WINDOW * 2, 100, WINDOW):
        bench.subscription.taken(count)
    assert bench.turn()[-1] == ([b"99"], 5, 5)


def test_a_gap_is_told_though_nothing_follows():
    bench = Bench(max_bytes=1)
    bench.put(10, 11, 12)
    bench.put(100000)
    assert bench.turn() == [([b"10", b"11"], 2, 0), ([], 2, 2)]


def test_a_message_that_expired_while_it_waited_is_not_sent():
    bench = Bench()
    bench.put(*range(WINDOW))
    bench.turn()
    bench.put(7, expires_at=5.0)
    bench.put(8)
    bench.time = 6.0
    bench.subscription.taken(WINDOW)
    assert bench.turn() == [([b"8"], 0, 0)]


def test_a_client_cannot_claim_what_it_was_not_sent():
    bench = Bench()
    bench.put(*range(WINDOW * 3))
    bench.turn()
    bench.subscription.taken(1_000_000)
    assert [len(messages) for messages, _, _ in bench.turn()] == [WINDOW]


def test_a_closed_outlet_holds_nobody_up():
    bench = Bench()
    bench.put(*range(QUEUED * 2))
    bench.turn()
    assert bench.pressure
    bench.subscription.close("unsubscribed")
    assert not bench.pressure
    bench.put(1)
    assert bench.turn() == []


def test_its_own_client_is_not_made_to_wait_for_it():
    paused = []
    owner = SimpleNamespace(pause_reading=paused.append, unwritten=0)
    bench = Bench()
    bench.subscription.channel = owner
    bench.put(*range(WINDOW + QUEUED))
    bench.turn()
    bench.put(*range(QUEUED))
    bench.pressure.hold_up(owner, (bench.subscription,), ())
    assert paused == []
