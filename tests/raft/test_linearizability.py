"""The judge of histories, on histories that are known to be good and to be bad, and against all orders."""

from dataclasses import replace
from itertools import permutations, product
from math import inf
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gossamer.testing.raft.linearizability import Operation, step, violation

OPS = {"get": "get", "put": "put", "add": "append", "cas": "cas"}


def history(text):
    """An operation a line: client, called-returned, what, and its outcome, ``?`` if that is not known."""
    found = []
    for line in text.strip().splitlines():
        head, _, outcome = line.partition("=")
        client, span, op, *values = head.split()
        called, _, returned = span.partition("-")
        expected, value = ("", *values)[-2:] if len(values) > 1 else ("", "".join(values))
        known = None if "?" in outcome else outcome.strip().strip(".")
        end = float(returned) if returned else inf
        found.append(Operation(int(client), OPS[op], "k", value, expected, known, float(called), end))
    return found


GOOD = """
1 0-1 put a = a
2 2-3 get = a

1 0-5 put a = a
2 1-2 get = .
2 3-4 get = a

1 0-5 put a = a
2 0-5 put b = b
3 6-7 get = a

1 0- put a = ?
2 1-2 get = .
2 3-4 get = a

1 0- put a = ?
2 1-2 get = .
2 3-4 put b = b
2 5-6 get = b

1 0-1 add a = a
2 0-2 add b = ab
1 3-4 cas ab c = c
2 3-5 cas ab d = c

1 0- add a = ?
1 2- add b = ?
2 3-9 add c = abc
"""
BAD = {
    "a stale read": """
1 0-1 put a = a
1 2-3 put b = b
2 4-5 get = a
""",
    "a read from the future": """
1 0-1 get = a
2 2-3 put a = a
""",
    "a lost write": """
1 0-1 put a = a
2 2-3 get = .
""",
    "a write that came back": """
1 0-1 put a = a
2 2-3 put b = b
1 4-5 get = b
1 6-7 get = a
""",
    "two reads in another order at each reader": """
1 0-9 put a = a
2 0-9 put b = b
3 1-2 get = a
3 3-4 get = b
4 1-2 get = b
4 3-4 get = a
""",
    "a request that counted twice": """
1 0-1 add a = a
2 2-3 add b = aab
""",
    "a lost update": """
1 0-1 put a = a
1 2-4 cas a b = b
2 2-4 cas a c = c
3 5-6 get = b
4 7-8 get = c
5 9-10 get = b
""",
    "an unknown write that was seen, and then not": """
1 0- put a = ?
2 1-2 get = a
2 3-4 get = .
""",
    "an unknown write that took effect before it was called": """
2 0-1 get = a
1 2- put a = ?
""",
}


def test_good_histories_are_good():
    for text in GOOD.strip().split("\n\n"):
        assert not violation(history(text)), text


def test_bad_histories_are_bad():
    for name, text in BAD.items():
        assert violation(history(text)).startswith("key k: no order of its"), name


def test_keys_are_judged_apart():
    good = history("1 0-1 put a = a")
    other = [replace(one, key="other") for one in history(BAD["a lost write"])]
    assert violation(good + other).startswith("key other:")


def by_all_orders(operations):
    """The definition: some order of all that returned, and of some that did not, that time allows."""
    known = [one for one in operations if one.outcome is not None]
    unknown = [one for one in operations if one.outcome is None]
    for chosen in product((True, False), repeat=len(unknown)):
        some = known + [one for one, yes in zip(unknown, chosen, strict=True) if yes]
        for order in permutations(some):
            state, fits = "", True
            for place, one in enumerate(order):
                state = step(state, one.op, one.value, one.expected)
                late = any(later.returned < one.called for later in order[place + 1 :])
                if late or one.outcome not in (None, state):
                    fits = False
                    break
            if fits:
                return True
    return False


@given(st.integers(0, 10**9))
def test_it_agrees_with_the_definition(seed):
    """On short random histories, most of them bad."""
    rng = Random(seed)
    operations, seen = [], ["", "a", "b", "ab", "ba", "c", "ac", "cb"]
    for client, value in enumerate("abc" + "de"[: rng.randrange(3)]):
        called = rng.randrange(8)
        op = rng.choice(("get", "put", "append", "cas"))
        after = value if op == "put" else rng.choice(seen)
        if rng.random() < 0.25 and op != "get":
            operations.append(Operation(client, op, "k", value, rng.choice(seen), None, called))
        else:
            end = called + rng.randrange(1, 5)
            operations.append(Operation(client, op, "k", value, rng.choice(seen), after, called, end))
    assert (not violation(operations)) == by_all_orders(operations)
