"""Which callers come in, and that forgetting is mutual and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.distribution.links.admission import admit
from gossamer.distribution.wire import Hello


def hello(*, session=11, yours=0, creation=3):
    return Hello(
        version=1,
        env="",
        purpose="control",
        name="a",
        creation=creation,
        to="b",
        session=session,
        yours=yours,
        key=bytes(32),
    )


def decide(message, *, session=22, theirs=0, creation=3):
    return admit(creation=creation, session=session, theirs=theirs, hello=message)


@pytest.mark.parametrize(
    ("message", "theirs", "verdict"),
    [
        pytest.param({}, 0, "accept", id="a first caller comes in"),
        pytest.param({"yours": 22}, 11, "accept", id="a reconnect of the same session comes in"),
        pytest.param({"creation": 2}, 0, "stale_creation", id="a ghost of an earlier creation stays out"),
        pytest.param({"creation": 4, "yours": 22}, 0, "renew", id="a restarted peer begins a new session"),
        pytest.param({"yours": 21}, 0, "stale_session", id="who resumes an ended session must begin anew"),
        pytest.param({"session": 12}, 11, "renew", id="a caller that forgot us is forgotten"),
    ],
)
def test_who_comes_in(message, theirs, verdict):
    assert decide(hello(**message), theirs=theirs) == verdict


class Side:
    def __init__(self, draw):
        self.draw = draw
        self.begin()

    def begin(self):
        self.session, self.theirs = self.draw(), 0


@given(st.lists(st.sampled_from(["ab", "ba", "endA", "endB", "late"]), max_size=30))
def test_sessions_settle_once_nobody_ends_them(steps):
    """Whatever Hellos were delayed or sessions ended, a few exchanges later both know both sessions."""
    numbers = iter(range(1, 10_000))
    a, b = Side(lambda: next(numbers)), Side(lambda: next(numbers))
    delayed = []

    def call(caller, called, message=None):
        message = message or hello(session=caller.session, yours=caller.theirs)
        match decide(message, session=called.session, theirs=called.theirs):
            case "stale_session":
                if message.session == caller.session:
                    caller.begin()
                return False
            case "renew":
                called.begin()
        called.theirs = message.session
        return True

    for step in steps:
        match step:
            case "ab":
                call(a, b)
            case "ba":
                call(b, a)
            case "endA":
                delayed.append((a, b, hello(session=a.session, yours=a.theirs)))
                a.begin()
            case "endB":
                delayed.append((b, a, hello(session=b.session, yours=b.theirs)))
                b.begin()
            case "late" if delayed:
                call(*delayed.pop(0))
    for _ in range(4):
        call(a, b)
        call(b, a)
    assert (a.session, a.theirs) == (b.theirs, b.session)
