"""The two machines of a move, driven through every order in which one of the nodes dies or falls silent."""

import pytest

from gossamer.mqtt.migration.machines import (
    FROZEN,
    MARK_TIMEOUT,
    NONE_TIMEOUT,
    RETRY_INTERVAL,
    SILENCE_TIMEOUT,
    MigrationSource,
    MigrationTarget,
)
from gossamer.mqtt.migration.moves import (
    Answered,
    Asked,
    AskFreeze,
    AskRelease,
    Commit,
    Committed,
    Done,
    Freeze,
    Give,
    Install,
    Installed,
    Marked,
    MarksSent,
    NodeDown,
    Own,
    Refuse,
    ReleaseAsked,
    Released,
    SendMarks,
    Superseded,
    Thaw,
    Tick,
    Wait,
)
from gossamer.mqtt.session.transfer import rightful

ROWS = {"a": 3}


class Move:
    """Both machines of one move from a to b, a third node c, and what became of a message of each moment."""

    def __init__(self):
        self.now = 0.0
        self.up = {"a", "b", "c"}
        self.source = MigrationSource()
        self.target = MigrationTarget("t", now=0.0)
        self.claims = dict(ROWS)
        self.committed = False
        self.over = False
        self.log = []
        self.todo = [(self.at_b, action) for action in self.target.begin(0.0, ROWS)]

    def rows(self):
        return {node: epoch for node, epoch in self.claims.items() if node in self.up and node != "b"}

    def tell_a(self, event):
        if "a" in self.up:
            others = self.up - {"a"}
            self.todo += [(self.at_a, x) for x in self.source.handle(event, self.now, others)]

    def tell_b(self, event):
        if "b" in self.up:
            self.todo += [(self.at_b, x) for x in self.target.handle(event, self.now, self.rows())]

    def step(self):
        where, action = self.todo.pop(0)
        self.log.append(action)
        where(action)

    def at_a(self, action):
        if "a" not in self.up:
            # Its answer is lost with it: the call fails.
            asking = self.target.state == MigrationTarget.ASKING
            self.tell_b(Answered("unreachable") if asking else Released(None))
            return
        match action:
            case Freeze():
                self.tell_b(Answered("state", "whole"))
            case Give():
                self.tell_b(Released(["rest"]))
            case Refuse(answer):
                self.tell_b(
                    Answered(answer) if self.target.state == MigrationTarget.ASKING else Released(None)
                )

    def at_b(self, action):
        if "b" not in self.up:
            return
        dead = "a" not in self.up
        match action:
            case AskFreeze():
                self.tell_b(Answered("unreachable")) if dead else self.tell_a(Asked("t", "b"))
            case Wait(until):
                self.now = until
                self.tell_b(Tick())
            case Install():
                self.tell_b(Installed())
            case SendMarks():
                alive = self.up & {"a", "c"}
                for origin in sorted(alive):
                    self.tell_b(Marked(origin, "t"))
                    self.tell_a(Marked("" if origin == "a" else origin, "t"))
                self.tell_b(Marked("", "t"))
                self.tell_a(Marked("b", "t"))
                self.tell_b(MarksSent(frozenset(alive)))
            case AskRelease():
                self.tell_b(Released(None)) if dead else self.tell_a(ReleaseAsked("t", frozenset("abc")))
            case Commit():
                self.committed = True
                self.tell_b(Committed())
            case Own():
                self.claims["b"] = max(self.claims.values()) + 1
                self.tell_a(Superseded("b"))
            case Done():
                self.over = True

    def kill(self, node):
        self.up.discard(node)
        self.tell_a(NodeDown(node))
        self.tell_b(NodeDown(node))

    def finish(self):
        for _ in range(200):
            while self.todo:
                self.step()
            self.now += 1.0
            self.tell_a(Tick())
            self.tell_b(Tick())


def steps():
    move = Move()
    count = 0
    while move.todo:
        move.step()
        count += 1
    return count


def test_a_move_without_accidents():
    move = Move()
    move.finish()
    assert [type(action) for action in move.log] == [
        AskFreeze,
        Freeze,
        Install,
        SendMarks,
        AskRelease,
        Give,
        Commit,
        Own,
        Done,
        Done,
    ]
    assert move.source.state == MigrationSource.GONE
    assert move.over
    assert move.target.complete
    assert rightful(move.claims) == "b"


@pytest.mark.parametrize("at", range(steps()))
def test_wherever_the_old_node_dies_the_client_comes_in(at):
    """With the session where it had been given; anew, where it had not, and the old node still has it."""
    move = Move()
    for _ in range(at):
        move.step()
    given = any(isinstance(action, Install) for action in move.log) or any(
        isinstance(action, Install) for _, action in move.todo
    )
    move.kill("a")
    move.finish()
    assert move.over
    assert move.committed == given


@pytest.mark.parametrize("at", range(steps()))
def test_wherever_the_new_node_dies_the_old_one_has_the_session_or_it_was_committed(at):
    move = Move()
    for _ in range(at):
        move.step()
    move.kill("b")
    move.finish()
    assert move.source.state == (MigrationSource.GONE if "b" in move.claims else MigrationSource.HELD)
    assert move.committed or "b" not in move.claims
    if move.source.state == MigrationSource.HELD:
        assert all(move.source.admits(origin) for origin in ("", "b", "c", None))


@pytest.mark.parametrize("at", range(steps()))
def test_wherever_a_third_node_dies_nothing_waits_for_it(at):
    move = Move()
    for _ in range(at):
        move.step()
    move.kill("c")
    move.finish()
    assert move.over
    assert move.target.complete
    assert move.source.state == MigrationSource.GONE


def test_the_source_lets_go_only_of_what_is_claimed():
    """All the way to the commit of the target it can thaw, and is whole."""
    source = MigrationSource()
    assert source.handle(Asked("t", "b"), 0.0, {"b", "c"}) == [Freeze("t")]
    assert source.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    for origin in ("", "b"):
        assert source.handle(Marked(origin, "t"), 1.0, {"b", "c"}) == []
    assert source.handle(Marked("c", "t"), 1.0, {"b", "c"}) == [Give()]
    assert source.handle(Tick(), FROZEN - 1, {"b", "c"}) == []
    assert source.handle(Tick(), FROZEN, {"b", "c"}) == [Thaw(doubtful=True)]
    assert source.handle(ReleaseAsked("t", frozenset("abc")), FROZEN, {"b", "c"}) == [Refuse("none")]


def test_a_late_mark_is_not_waited_for_for_ever():
    source = MigrationSource()
    source.handle(Asked("t", "b"), 0.0, {"b"})
    assert source.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b"}) == []
    assert source.handle(Tick(), 1.0 + MARK_TIMEOUT, {"b"}) == [Give()]


def test_a_node_that_came_after_the_marks_were_asked_for_is_not_waited_for():
    source = MigrationSource()
    source.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert source.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    for origin in ("", "b"):
        assert source.handle(Marked(origin, "t"), 1.0, {"b", "c", "d"}) == []
    assert source.handle(Marked("c", "t"), 1.0, {"b", "c", "d"}) == [Give()]
    # What it sends is here still, besides.
    assert source.admits("d")


def test_one_that_a_third_node_has_claimed_is_given_to_nobody():
    source = MigrationSource()
    source.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert source.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    assert source.handle(Superseded("c"), 2.0, {"b", "c"}) == [Done(complete=False)]
    assert source.handle(Marked("c", "t"), 2.5, {"b", "c"}) == []
    assert source.handle(Tick(), 1.0 + MARK_TIMEOUT, {"b", "c"}) == []
    assert source.handle(Tick(), FROZEN, {"b", "c"}) == []
    assert source.state == MigrationSource.GONE


def test_of_two_targets_the_second_waits_until_the_first_is_done_or_dead():
    source = MigrationSource()
    source.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert source.handle(Asked("u", "c"), 1.0, {"b", "c"}) == [Refuse("busy")]
    assert source.handle(Asked("u", "c"), 2.0, {"c"}) == [Thaw(doubtful=True), Freeze("u")]
    # The answer was lost on the way: the same node asks again.
    assert source.handle(Asked("v", "c"), 3.0, {"b", "c"}) == [Thaw(doubtful=False), Freeze("v")]
    assert source.handle(Superseded("c"), 4.0, {"b", "c"}) == [Done(complete=False)]
    assert source.handle(Asked("w", "b"), 5.0, {"b", "c"}) == [Refuse("none")]


def test_marks_say_whose_messages_are():
    source, target = MigrationSource(), MigrationTarget("t", now=0.0)
    source.handle(Asked("t", "b"), 0.0, {"b", "c"})
    target.begin(0.0, ROWS)
    target.handle(Answered("state", None), 0.0, ROWS)
    assert (source.admits("c"), target.admits("c")) == (True, False)
    for machine, rows in ((source, {"b", "c"}), (target, ROWS)):
        machine.handle(Marked("c", "other"), 0.0, rows)
        machine.handle(Marked("c", "t"), 0.0, rows)
    assert (source.admits("c"), target.admits("c")) == (False, True)
    # A share group's message comes to one node only.
    assert (source.admits(None), target.admits(None)) == (True, True)


def test_a_source_that_says_nothing_is_given_up_after_a_while():
    target = MigrationTarget("t", now=0.0)
    now = 0.0
    actions = target.begin(now, ROWS)
    while actions == [AskFreeze("a")]:
        [wait] = target.handle(Answered("unreachable"), now, ROWS)
        now = wait.until
        actions = target.handle(Tick(), now, ROWS)
    assert actions == [Done(complete=False)]
    assert SILENCE_TIMEOUT <= now < SILENCE_TIMEOUT + 1


def test_a_target_goes_to_the_next_where_the_first_has_nothing():
    target = MigrationTarget("t", now=0.0)
    rows = {"a": 3, "c": 2}
    assert target.begin(0.0, rows) == [AskFreeze("a")]
    assert target.handle(Answered("none"), 0.0, rows) == [AskFreeze("c")]
    # Its claim goes in a moment, or a higher one comes.
    assert target.handle(Answered("none"), 0.0, {"c": 2}) == [Wait(until=RETRY_INTERVAL)]
    assert target.handle(Tick(), 0.1, {"c": 2}) == [AskFreeze("c")]
    assert target.handle(Answered("none"), 0.2, {"c": 2, "d": 4}) == [AskFreeze("d")]


def test_a_claim_that_stays_without_a_session_is_not_waited_for_long():
    target = MigrationTarget("t", now=0.0)
    assert target.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    assert target.handle(Answered("none"), 0.0, {"a": 3}) == [Wait(until=RETRY_INTERVAL)]
    assert target.handle(Tick(), NONE_TIMEOUT, {"a": 3}) == [AskFreeze("a")]
    assert target.handle(Answered("none"), NONE_TIMEOUT, {"a": 3}) == [Done(complete=True)]


def test_who_outbid_a_claim_is_waited_for_until_it_is_known_here():
    target = MigrationTarget("t", now=0.0)
    assert target.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    now = 0.0
    while now < SILENCE_TIMEOUT - 1:
        assert target.handle(Answered("outbid"), now, {"a": 3}) == [Wait(until=now + RETRY_INTERVAL)]
        now += 1
        assert target.handle(Tick(), now, {"a": 3}) == [AskFreeze("a")]
    assert target.handle(Answered("outbid"), now, {"a": 3, "b": 4}) == [Wait(until=now + RETRY_INTERVAL)]
    assert target.handle(Tick(), now + RETRY_INTERVAL, {"a": 3, "b": 4}) == [AskFreeze("b")]


def test_a_session_that_ended_with_its_connection_is_not_waited_for():
    target = MigrationTarget("t", now=0.0)
    assert target.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    assert target.handle(Answered("ended"), 0.0, {"a": 3}) == [Done(complete=True)]


@pytest.mark.parametrize(
    ("rows", "owner"), [({}, None), ({"a": 1}, "a"), ({"a": 2, "b": 1}, "a"), ({"a": 1, "b": 1}, "b")]
)
def test_the_highest_claim_counts(rows, owner):
    assert rightful(rows) == owner


def test_a_target_whose_client_is_not_the_latest_leaves_the_session_where_it_is():
    target = MigrationTarget("t", now=0.0)
    target.begin(0.0, ROWS)
    assert target.handle(Answered("kept"), 0.1, ROWS) == [Done()]
    assert (target.state, target.kept) == (MigrationTarget.DONE, True)
