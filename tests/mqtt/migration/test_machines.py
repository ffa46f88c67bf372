"""The two machines of a move, driven through every order in which one of the nodes dies or falls silent."""

import pytest

from gossamer.mqtt.migration.machines import (
    AGAIN,
    FROZEN,
    MARKS_WITHIN,
    NONE_TIMEOUT,
    SILENT_WITHIN,
    Giver,
    Taker,
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
        self.giver = Giver()
        self.taker = Taker("t", now=0.0)
        self.claims = dict(ROWS)
        self.committed = False
        self.over = False
        self.log = []
        self.todo = [(self.at_b, action) for action in self.taker.begin(0.0, ROWS)]

    def rows(self):
        return {node: epoch for node, epoch in self.claims.items() if node in self.up and node != "b"}

    def tell_a(self, event):
        if "a" in self.up:
            others = self.up - {"a"}
            self.todo += [(self.at_a, x) for x in self.giver.handle(event, self.now, others)]

    def tell_b(self, event):
        if "b" in self.up:
            self.todo += [(self.at_b, x) for x in self.taker.handle(event, self.now, self.rows())]

    def step(self):
        where, action = self.todo.pop(0)
        self.log.append(action)
        where(action)

    def at_a(self, action):
        if "a" not in self.up:
            # Its answer is lost with it: the call fails.
            asking = self.taker.state == Taker.ASKING
            self.tell_b(Answered("unreachable") if asking else Released(None))
            return
        match action:
            case Freeze():
                self.tell_b(Answered("state", "whole"))
            case Give():
                self.tell_b(Released(["rest"]))
            case Refuse(answer):
                self.tell_b(Answered(answer) if self.taker.state == Taker.ASKING else Released(None))

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
    assert move.giver.state == Giver.GONE
    assert move.over
    assert move.taker.complete
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
    assert move.giver.state == (Giver.GONE if "b" in move.claims else Giver.HELD)
    assert move.committed or "b" not in move.claims
    if move.giver.state == Giver.HELD:
        assert all(move.giver.admits(origin) for origin in ("", "b", "c", None))


@pytest.mark.parametrize("at", range(steps()))
def test_wherever_a_third_node_dies_nothing_waits_for_it(at):
    move = Move()
    for _ in range(at):
        move.step()
    move.kill("c")
    move.finish()
    assert move.over
    assert move.taker.complete
    assert move.giver.state == Giver.GONE


def test_the_giver_lets_go_only_of_what_is_claimed():
    """All the way to the commit of the taker it can thaw, and is whole."""
    giver = Giver()
    assert giver.handle(Asked("t", "b"), 0.0, {"b", "c"}) == [Freeze("t")]
    assert giver.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    for origin in ("", "b"):
        assert giver.handle(Marked(origin, "t"), 1.0, {"b", "c"}) == []
    assert giver.handle(Marked("c", "t"), 1.0, {"b", "c"}) == [Give()]
    assert giver.handle(Tick(), FROZEN - 1, {"b", "c"}) == []
    assert giver.handle(Tick(), FROZEN, {"b", "c"}) == [Thaw(doubtful=True)]
    assert giver.handle(ReleaseAsked("t", frozenset("abc")), FROZEN, {"b", "c"}) == [Refuse("none")]


def test_a_late_mark_is_not_waited_for_for_ever():
    giver = Giver()
    giver.handle(Asked("t", "b"), 0.0, {"b"})
    assert giver.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b"}) == []
    assert giver.handle(Tick(), 1.0 + MARKS_WITHIN, {"b"}) == [Give()]


def test_a_node_that_came_after_the_marks_were_asked_for_is_not_waited_for():
    giver = Giver()
    giver.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert giver.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    for origin in ("", "b"):
        assert giver.handle(Marked(origin, "t"), 1.0, {"b", "c", "d"}) == []
    assert giver.handle(Marked("c", "t"), 1.0, {"b", "c", "d"}) == [Give()]
    # What it sends is here still, besides.
    assert giver.admits("d")


def test_one_that_a_third_node_has_claimed_is_given_to_nobody():
    giver = Giver()
    giver.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert giver.handle(ReleaseAsked("t", frozenset("abc")), 1.0, {"b", "c"}) == []
    assert giver.handle(Superseded("c"), 2.0, {"b", "c"}) == [Done(complete=False)]
    assert giver.handle(Marked("c", "t"), 2.5, {"b", "c"}) == []
    assert giver.handle(Tick(), 1.0 + MARKS_WITHIN, {"b", "c"}) == []
    assert giver.handle(Tick(), FROZEN, {"b", "c"}) == []
    assert giver.state == Giver.GONE


def test_of_two_takers_the_second_waits_until_the_first_is_done_or_dead():
    giver = Giver()
    giver.handle(Asked("t", "b"), 0.0, {"b", "c"})
    assert giver.handle(Asked("u", "c"), 1.0, {"b", "c"}) == [Refuse("busy")]
    assert giver.handle(Asked("u", "c"), 2.0, {"c"}) == [Thaw(doubtful=True), Freeze("u")]
    # The answer was lost on the way: the same node asks again.
    assert giver.handle(Asked("v", "c"), 3.0, {"b", "c"}) == [Thaw(doubtful=False), Freeze("v")]
    assert giver.handle(Superseded("c"), 4.0, {"b", "c"}) == [Done(complete=False)]
    assert giver.handle(Asked("w", "b"), 5.0, {"b", "c"}) == [Refuse("none")]


def test_marks_say_whose_messages_are():
    giver, taker = Giver(), Taker("t", now=0.0)
    giver.handle(Asked("t", "b"), 0.0, {"b", "c"})
    taker.begin(0.0, ROWS)
    taker.handle(Answered("state", None), 0.0, ROWS)
    assert (giver.admits("c"), taker.admits("c")) == (True, False)
    for machine, rows in ((giver, {"b", "c"}), (taker, ROWS)):
        machine.handle(Marked("c", "other"), 0.0, rows)
        machine.handle(Marked("c", "t"), 0.0, rows)
    assert (giver.admits("c"), taker.admits("c")) == (False, True)
    # A share group's message comes to one node only.
    assert (giver.admits(None), taker.admits(None)) == (True, True)


def test_a_giver_that_says_nothing_is_given_up_after_a_while():
    taker = Taker("t", now=0.0)
    now = 0.0
    actions = taker.begin(now, ROWS)
    while actions == [AskFreeze("a")]:
        [wait] = taker.handle(Answered("unreachable"), now, ROWS)
        now = wait.until
        actions = taker.handle(Tick(), now, ROWS)
    assert actions == [Done(complete=False)]
    assert SILENT_WITHIN <= now < SILENT_WITHIN + 1


def test_a_taker_goes_to_the_next_where_the_first_has_nothing():
    taker = Taker("t", now=0.0)
    rows = {"a": 3, "c": 2}
    assert taker.begin(0.0, rows) == [AskFreeze("a")]
    assert taker.handle(Answered("none"), 0.0, rows) == [AskFreeze("c")]
    # Its claim goes in a moment, or a higher one comes.
    assert taker.handle(Answered("none"), 0.0, {"c": 2}) == [Wait(until=AGAIN)]
    assert taker.handle(Tick(), 0.1, {"c": 2}) == [AskFreeze("c")]
    assert taker.handle(Answered("none"), 0.2, {"c": 2, "d": 4}) == [AskFreeze("d")]


def test_a_claim_that_stays_without_a_session_is_not_waited_for_long():
    taker = Taker("t", now=0.0)
    assert taker.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    assert taker.handle(Answered("none"), 0.0, {"a": 3}) == [Wait(until=AGAIN)]
    assert taker.handle(Tick(), NONE_TIMEOUT, {"a": 3}) == [AskFreeze("a")]
    assert taker.handle(Answered("none"), NONE_TIMEOUT, {"a": 3}) == [Done(complete=True)]


def test_who_outbid_a_claim_is_waited_for_until_it_is_known_here():
    taker = Taker("t", now=0.0)
    assert taker.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    now = 0.0
    while now < SILENT_WITHIN - 1:
        assert taker.handle(Answered("outbid"), now, {"a": 3}) == [Wait(until=now + AGAIN)]
        now += 1
        assert taker.handle(Tick(), now, {"a": 3}) == [AskFreeze("a")]
    assert taker.handle(Answered("outbid"), now, {"a": 3, "b": 4}) == [Wait(until=now + AGAIN)]
    assert taker.handle(Tick(), now + AGAIN, {"a": 3, "b": 4}) == [AskFreeze("b")]


def test_a_session_that_ended_with_its_connection_is_not_waited_for():
    taker = Taker("t", now=0.0)
    assert taker.begin(0.0, {"a": 3}) == [AskFreeze("a")]
    assert taker.handle(Answered("ended"), 0.0, {"a": 3}) == [Done(complete=True)]


@pytest.mark.parametrize(
    ("rows", "owner"), [({}, None), ({"a": 1}, "a"), ({"a": 2, "b": 1}, "a"), ({"a": 1, "b": 1}, "b")]
)
def test_the_highest_claim_counts(rows, owner):
    assert rightful(rows) == owner


def test_a_taker_whose_client_is_not_the_latest_leaves_the_session_where_it_is():
    taker = Taker("t", now=0.0)
    taker.begin(0.0, ROWS)
    assert taker.handle(Answered("kept"), 0.1, ROWS) == [Done()]
    assert (taker.state, taker.kept) == (Taker.DONE, True)
