"""Two nodes that held each other for dead meet again: what each of them raises."""

from gossamer.autoheal.marks import Marks


def meet(one: Marks, two: Marks, wall: float = 20.0):
    """Both links are back and one asks; what each raised."""
    question = one.question(two.node)
    two.question(one.node)
    assert question is not None
    answer, at_two = two.heard(question, wall)
    assert answer is not None
    _, at_one = one.heard(answer, wall)
    return at_one, at_two


def parted() -> tuple[Marks, Marks]:
    one, two = Marks(node="a", creation=1), Marks(node="b", creation=5)
    one.down("b", 5, "down", 10.0)
    two.down("a", 1, "down", 11.0)
    return one, two


def test_two_lives_that_ran_through_the_split_raise_the_running_context():
    at_one, at_two = meet(*parted())
    assert at_one is not None
    assert at_two is not None
    assert (at_one.context, at_one.peer) == ("running_partitioned_network", "b")
    assert (at_two.context, at_two.peer) == ("running_partitioned_network", "a")


def test_a_node_that_restarted_with_its_marks_raises_the_starting_context():
    one, two = parted()
    restarted = Marks(node="b", creation=6, marks=two.marks.values())
    at_one, at_two = meet(one, restarted)
    assert at_one is not None
    assert at_two is not None
    assert {at_one.context, at_two.context} == {"starting_partitioned_network"}


def test_a_split_is_raised_once_though_the_link_flaps():
    one, two = parted()
    meet(one, two)
    assert one.question("b") is None
    assert two.question("a") is None


def test_a_node_that_crashed_alone_mourns_nobody_and_raises_nothing():
    one = Marks(node="a", creation=1)
    one.down("b", 5, "down", 10.0)
    assert meet(one, Marks(node="b", creation=6)) == (None, None)
