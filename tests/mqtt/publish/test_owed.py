"""What waits for a member of its share group."""

from types import SimpleNamespace

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.owed import STEP, Owed

AWAY, HERE = "$share/away/t", "$share/here/t"


def make(expected):
    now = [100.0]
    fanout = Fanout(call_later=lambda _seconds, _callback: None, now=lambda: now[0])
    owed = Owed(
        fanout,
        SimpleNamespace(store=None, sessions={}),
        wall=lambda: now[0],
        soon=lambda callback: callback(),
        expected=lambda group: group in expected,
        first=0,
        limit=100_000,
        max_bytes=1 << 30,
    )
    return owed, fanout, now


def record(number):
    return record_of(Message(b"t", b"%d" % number, qos=1), 100.0)


def looks(owed, now, there, times):
    """Look so often, with members of the groups ``there``; what was given."""
    given = []

    def give(group, left, on_safe, _online):
        if group not in there:
            return False
        given.append((group, left))
        on_safe(True)
        return True

    for _ in range(times):
        now[0] += 1
        owed.give(give)
    return given


def test_a_group_whose_members_are_away_keeps_no_other_waiting():
    owed, _, now = make({AWAY})
    for number in range(STEP + 1):
        owed.wait(AWAY, record(number))
    owed.wait(HERE, record(STEP + 1))
    assert looks(owed, now, {HERE}, 1) == [(HERE, record(STEP + 1))]
    assert owed.waiting == STEP + 1
    assert looks(owed, now, {AWAY}, 2) == [(AWAY, record(number)) for number in range(STEP + 1)]
    assert owed.waiting == 0


def test_what_nobody_will_come_for_goes_once_others_had_the_time_to_come():
    owed, fanout, now = make(set())
    for number in range(3):
        owed.wait(AWAY, record(number))
    assert looks(owed, now, set(), 5) == []
    assert owed.waiting == 3
    assert looks(owed, now, set(), 10) == []
    assert owed.waiting == 0
    assert fanout.drops["no_group_member"] == 3
