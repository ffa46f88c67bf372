"""Which rows a quorum lacks: whatever order changes, writes and their ends come in, none is forgotten."""

import math
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gossamer.mqtt.copies.machine import PATIENCE, Copy, Copying
from gossamer.mqtt.copies.rows import Owner

RANGE_OF = {"a": 0, "b": 0, "c": 1, "d": 1}
NAMES = st.sampled_from(sorted(RANGE_OF))
SUFFIXES = (b"1", b"2", b"3")
MINE = Owner("here", 1, 1)


class Write:
    """A write on its way; ``rows``: what it has, None: it deletes the copy."""

    def __init__(self, copy, rows, *, whole):
        self.copy, self.rows, self.whole = copy, rows, whole


class Sessions(RuleBasedStateMachine):
    """Sessions that change, the ranges that have their copies, and the writes in between."""

    def __init__(self):
        super().__init__()
        self.machine = Copying()
        self.now = 0.0
        self.ticket = 1
        self.sessions = {}
        self.ranges = {}
        self.elsewhere = set()
        self.writes = []
        self.changed = {}
        """By session and row, the ticket of its latest change."""
        self.since = {}
        """By session and row, the ticket of its oldest change that no write which has begun has."""
        self.lacking = {}
        """By session and row, the ticket of the oldest change that the range does not have."""
        self.reached = Counter()
        """By range, the greatest ticket that was committed on disc and there."""

    # What the model knows.

    def copy(self, name):
        return self.machine.copies.setdefault(name, Copy(name, RANGE_OF[name]))

    def look(self, name):
        wanted, known = self.sessions.get(name, {}), self.ranges.get(name, {})
        for suffix in SUFFIXES:
            if wanted.get(suffix) == known.get(suffix):
                self.lacking.pop((name, suffix), None)
            else:
                self.lacking.setdefault((name, suffix), self.changed[name, suffix])

    def note_changed(self, name, *suffixes):
        self.changed |= {(name, suffix): self.ticket for suffix in suffixes}
        for suffix in suffixes:
            self.since.setdefault((name, suffix), self.ticket)
        self.look(name)

    def is_waited_for(self, name):
        copy = self.machine.copies.get(name)
        return name not in self.elsewhere and not (copy is not None and copy.behind)

    # Sessions.

    @rule(name=NAMES, suffix=st.sampled_from(SUFFIXES), value=st.none() | st.binary(max_size=1))
    def change(self, name, suffix, value):
        rows = self.sessions.setdefault(name, {})
        if name in self.elsewhere or (value is None and suffix not in rows):
            return
        new = suffix not in rows
        if value is None:
            del rows[suffix]
        else:
            rows[suffix] = value
        self.note_changed(name, suffix)
        self.machine.note(self.copy(name), suffix, value, self.ticket, self.now, new=new)

    @rule(name=NAMES)
    def end(self, name):
        if name in self.sessions and name not in self.elsewhere:
            self.note_changed(name, *self.sessions.pop(name))
            self.machine.end(self.copy(name), self.ticket, self.now)

    @rule(name=NAMES)
    def leave(self, name):
        """Another node takes the session over, and its copy with it."""
        if name in self.sessions and name not in self.elsewhere:
            self.elsewhere.add(name)
            self.machine.leave(self.copy(name))

    @rule(name=NAMES)
    def come_back(self, name):
        if name in self.elsewhere:
            self.elsewhere.discard(name)
            self.machine.again(self.copy(name))
            # Its claim is written, behind which all of it is waited for.
            self.sessions[name][SUFFIXES[0]] = b"claim"
            self.lacking = {key: ticket for key, ticket in self.lacking.items() if key[0] != name}
            self.note_changed(name, *SUFFIXES)
            self.machine.note(self.copy(name), SUFFIXES[0], b"claim", self.ticket, self.now, new=False)

    @rule(name=NAMES)
    def depart(self, name):
        """The session has gone elsewhere, and ended here; its copy is not this node's any more."""
        if name in self.machine.copies and self.sessions.pop(name, None) is not None:
            self.elsewhere.discard(name)
            self.machine.leave(self.copy(name))
            self.machine.gone(self.copy(name))
            self.ranges.pop(name, None)
            self.look(name)

    # Time and the disc.

    @rule()
    def reach_the_disc(self):
        self.ticket += 1
        self.machine.flush()

    @rule(after=st.sampled_from([0.3, 1.0, PATIENCE]))
    def tick(self, after):
        self.now += after
        self.machine.tick(self.now)
        self.machine.flush()

    @rule(number=st.integers(0, 1))
    def silence(self, number):
        self.machine.silent(number, self.now)

    # Writes, as ``copies`` has them.

    @rule()
    def begin(self):
        copy = self.machine.next()
        if copy is None:
            return
        assert copy not in [write.copy for write in self.writes]
        assert self.machine.copies[copy.client_id] is copy
        rows = self.sessions.get(copy.client_id)
        self.since = {key: ticket for key, ticket in self.since.items() if key[0] != copy.client_id}
        if rows is None:
            self.writes.append(Write(copy, None, whole=True))
        elif copy.whole or copy.owner is None:
            self.machine.take(copy)
            self.writes.append(Write(copy, dict(rows), whole=True))
        else:
            self.writes.append(Write(copy, self.machine.take(copy), whole=False))

    def is_elsewhere(self, copy):
        return copy.client_id in self.elsewhere or self.machine.copies.get(copy.client_id) is not copy

    def arrive(self, write):
        name = write.copy.client_id
        known = {} if write.whole else self.ranges.get(name, {})
        known |= write.rows or {}
        self.ranges[name] = {suffix: value for suffix, value in known.items() if value is not None}
        # Of a row that has changed again meanwhile the range lacks that change alone.
        self.lacking |= {
            key: ticket for key, ticket in self.since.items() if key in self.lacking and key[0] == name
        }
        self.look(name)

    def finish(self, write):
        copy = write.copy
        if self.is_elsewhere(copy):
            self.machine.leave(copy)
            self.machine.done(copy, self.now)
            return
        self.arrive(write)
        if write.rows is not None:
            copy.owner = MINE
            self.machine.done(copy, self.now)
        elif copy.client_id in self.sessions:
            self.machine.failed(copy, self.now, answered=True)
        else:
            self.machine.gone(copy)

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def done(self, data):
        write = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if write.copy.behind:
            # It is waited for again, for what has changed since the write began.
            self.reached[write.copy.range] = 0
        self.finish(write)

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), arrives=st.booleans())
    def lose(self, data, arrives):
        """The write may have been done all the same."""
        write = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if arrives and not self.is_elsewhere(write.copy):
            self.arrive(write)
        self.machine.failed(write.copy, self.now, answered=False)

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def refuse(self, data):
        write = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        self.machine.failed(write.copy, self.now, answered=True)

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def postpone(self, data):
        """The session is on its way: the write has not begun yet."""
        # One that has ended is on its way nowhere.
        whole = [one for one in self.writes if one.whole and one.copy.whole and one.rows is not None]
        if whole:
            write = data.draw(st.sampled_from(whole))
            self.writes.remove(write)
            self.machine.postponed(write.copy)
            if (name := write.copy.client_id) in self.sessions and name not in self.elsewhere:
                # The end of the move is a change, and what waits, waits for that.
                self.lacking = {key: ticket for key, ticket in self.lacking.items() if key[0] != name}
                self.note_changed(name, *SUFFIXES)
                self.machine.note(
                    self.copy(name),
                    SUFFIXES[0],
                    self.sessions[name].setdefault(SUFFIXES[0], b"moved"),
                    self.ticket,
                    self.now,
                    new=False,
                )

    # What holds.

    @invariant()
    def nothing_is_committed_that_a_range_lacks(self):
        for (name, _), ticket in self.lacking.items():
            assert self.machine.committed_in(RANGE_OF[name]) < ticket or not self.is_waited_for(name)

    @invariant()
    def what_was_committed_stays_so(self):
        for number in set(RANGE_OF.values()):
            committed = min(self.machine.committed_in(number), self.ticket - 1)
            assert committed >= self.reached[number]
            self.reached[number] = committed

    @invariant()
    def only_sessions_that_are_behind_are_listed(self):
        copies = self.machine.copies.values()
        assert set(self.machine.behind) == {copy for copy in copies if copy.behind}

    def teardown(self):
        """The ranges answer again: a few ticks later they have everything, and nothing waits."""
        for _ in range(8):
            self.reach_the_disc()
            for _ in range(4):
                self.begin()
            while self.writes:
                self.finish(self.writes.pop(0))
            self.tick(1.0)
        assert not self.machine.behind
        assert not self.machine.failing
        assert {self.machine.committed_in(number) for number in RANGE_OF.values()} == {math.inf}
        for name in self.ranges.keys() | self.sessions.keys():
            if name not in self.elsewhere:
                assert self.ranges.get(name, {}) == self.sessions.get(name, {})


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


# The rules, one by one.


def noted(machine, *names, ticket=1, now=0.0):
    """Copies of sessions in range 0 with a change of each."""
    copies = []
    for name in names:
        copy = machine.copies.setdefault(name, Copy(name, 0))
        machine.note(copy, b"1", b"x", ticket, now, new=True)
        copies.append(copy)
    return copies


def written(machine, now=0.0):
    """The sessions whose writes begin and end now, and what each write has."""
    found = {}
    while (copy := machine.next()) is not None:
        found[copy.client_id] = machine.take(copy)
        copy.owner = MINE
        machine.done(copy, now)
    return found


def level(machine, *names):
    copies = noted(machine, *names)
    machine.flush()
    written(machine)
    return copies


def test_a_change_is_not_committed_before_a_quorum_has_it():
    machine = Copying()
    [copy] = noted(machine, "a", ticket=7)
    assert (machine.next(), machine.committed_in(0)) == (None, 6)
    assert machine.flush()
    assert machine.next() is copy
    machine.take(copy)
    assert machine.committed_in(0) == 6
    machine.done(copy, 0.0)
    assert machine.committed_in(0) == math.inf


def test_one_write_is_on_its_way_at_a_time_and_the_next_has_all_that_came_meanwhile():
    machine = Copying()
    [copy] = level(machine, "a")
    machine.note(copy, b"2", b"first", 2, 0.0, new=True)
    machine.flush()
    assert machine.next() is copy
    assert machine.take(copy) == {b"2": b"first"}
    for ticket, value in ((3, b"second"), (4, b"third")):
        machine.note(copy, b"2", value, ticket, 0.0, new=False)
        machine.flush()
        assert machine.next() is None
    machine.done(copy, 0.0)
    assert machine.committed_in(0) == 2
    machine.flush()
    assert written(machine) == {"a": {b"2": b"third"}}
    assert machine.committed_in(0) == math.inf


def test_what_is_written_and_deleted_before_a_write_never_gets_there():
    machine = Copying()
    [copy] = level(machine, "a")
    machine.note(copy, b"2", b"x", 2, 0.0, new=True)
    machine.note(copy, b"2", None, 2, 0.0, new=False)
    assert not machine.flush()
    assert machine.committed_in(0) == math.inf
    machine.note(copy, b"1", None, 3, 0.0, new=False)
    machine.flush()
    assert written(machine) == {"a": {b"1": None}}


def test_what_goes_on_under_another_key_is_waited_for_from_the_first_on():
    machine = Copying()
    [copy] = level(machine, "a")
    machine.note(copy, b"queued", b"x", 2, 0.0, new=True)
    machine.note(copy, b"queued", None, 3, 0.0, new=False)
    machine.note(copy, b"in flight", b"x", 4, 0.0, new=True)
    machine.flush()
    assert machine.committed_in(0) == 1
    assert written(machine) == {"a": {b"in flight": b"x"}}
    assert machine.committed_in(0) == math.inf


def test_what_came_during_a_write_is_written_next_without_another_commit():
    machine = Copying()
    [copy] = level(machine, "a")
    machine.note(copy, b"2", b"x", 2, 0.0, new=True)
    machine.flush()
    assert machine.next() is copy
    machine.take(copy)
    machine.note(copy, b"3", b"y", 3, 0.0, new=True)
    machine.done(copy, 0.0)
    assert written(machine) == {"a": {b"3": b"y"}}


def test_after_a_write_that_failed_the_session_is_written_whole():
    machine = Copying()
    [copy] = level(machine, "a")
    machine.note(copy, b"2", b"x", 2, 0.0, new=True)
    machine.flush()
    machine.take(machine.next())
    machine.failed(copy, 0.0, answered=False)
    assert (copy.whole, copy.owner, machine.committed_in(0)) == (True, None, 1)
    assert not machine.flush()
    machine.tick(1.0)
    assert machine.flush()
    assert machine.next() is copy


def test_a_session_that_has_waited_long_is_waited_for_no_more():
    machine = Copying()
    [copy] = noted(machine, "a")
    machine.tick(PATIENCE - 0.1)
    assert (copy.behind, machine.committed_in(0)) == (False, 0)
    machine.tick(PATIENCE)
    assert (copy.behind, machine.committed_in(0)) == (True, math.inf)
    # What comes now waits for the disc alone, until a quorum has it all.
    noted(machine, "a", ticket=2, now=PATIENCE)
    assert machine.committed_in(0) == math.inf
    assert list(written(machine, PATIENCE)) == ["a"]
    assert not copy.behind
    noted(machine, "a", ticket=3, now=PATIENCE)
    assert machine.committed_in(0) == 2


def test_what_comes_to_a_range_that_does_not_answer_does_not_wait_as_long_again():
    machine = Copying()
    noted(machine, "a")
    machine.tick(PATIENCE)
    [later] = noted(machine, "b", ticket=2, now=2 * PATIENCE)
    machine.tick(2 * PATIENCE + 0.5)
    assert later.behind


def test_one_session_asks_for_all_of_a_range_that_does_not_answer():
    machine = Copying()
    copies = noted(machine, "a", "b", "c")
    other = machine.copies["d"] = Copy("d", 1)
    machine.note(other, b"1", b"x", 1, 0.0, new=True)
    machine.tick(PATIENCE)
    asked = [machine.next(), machine.next()]
    assert asked == [copies[0], other]
    assert machine.next() is None
    machine.failed(asked[0], PATIENCE, answered=False)
    machine.tick(PATIENCE + 1)
    [once_more] = [machine.next()]
    assert (once_more.range, machine.next()) == (0, None)
    machine.take(once_more)
    machine.done(once_more, PATIENCE + 1)
    # It answers again, so the others are written too.
    machine.tick(PATIENCE + 2)
    assert {machine.next(), machine.next()} | {once_more} == set(copies)


def test_a_range_of_which_nobody_waits_is_not_held_for_silent_without_end():
    machine = Copying()
    machine.silent(0, 0.0)
    assert not machine.answers(0, PATIENCE - 0.1)
    machine.tick(PATIENCE)
    assert machine.answers(0, PATIENCE)
    [copy] = noted(machine, "a", now=PATIENCE)
    machine.tick(PATIENCE + 0.5)
    assert not copy.behind


@pytest.mark.parametrize("queued", [False, True])
def test_a_session_that_went_elsewhere_is_not_written_any_more(queued):
    machine = Copying()
    [copy] = noted(machine, "a")
    if queued:
        machine.flush()
    machine.leave(copy)
    machine.note(copy, b"2", b"x", 2, 0.0, new=True)
    assert machine.committed_in(0) == math.inf
    machine.gone(copy)
    machine.flush()
    assert (machine.next(), machine.copies) == (None, {})


def test_a_range_that_does_not_answer_holds_up_no_other():
    machine = Copying()
    noted(machine, "a", ticket=3)
    other = machine.copies["c"] = Copy("c", 1)
    machine.note(other, b"1", b"x", 4, 0.0, new=True)
    assert (machine.committed_in(0), machine.committed_in(1), machine.committed_in(2)) == (2, 3, math.inf)
    machine.flush()
    assert machine.next(busy={0}) is other
    machine.take(other)
    machine.done(other, 0.0)
    assert (machine.committed_in(0), machine.committed_in(1)) == (2, math.inf)
