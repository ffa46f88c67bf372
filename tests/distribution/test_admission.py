"""Which callers come in, and that forgetting is mutual and ends."""

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
        nonce=bytes(32),
    )


def decide(message, *, session=22, theirs=0, creation=3):
    return admit(creation=creation, session=session, theirs=theirs, hello=message)


def test_a_first_caller_comes_in():
    assert decide(hello()) == "accept"


def test_a_reconnect_of_the_same_session_comes_in():
    assert decide(hello(yours=22), theirs=11) == "accept"


def test_a_ghost_of_an_earlier_creation_stays_out():
    assert decide(hello(creation=2)) == "stale_creation"


def test_a_restarted_peer_begins_a_new_session():
    assert decide(hello(creation=4, yours=22)) == "renew"


def test_a_caller_that_resumes_a_session_we_ended_must_begin_anew():
    assert decide(hello(yours=21)) == "stale_session"


def test_a_caller_that_forgot_us_is_forgotten():
    assert decide(hello(session=12), theirs=11) == "renew"


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
