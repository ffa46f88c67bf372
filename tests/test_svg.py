"""Elements hold any text, and the numbers of an axis are round."""

from gossamer.svg import element, ticks


def test_text_of_an_attribute_stays_text():
    assert element("path", class_='a"b', d="M0 0") == '<path class="a&quot;b" d="M0 0"/>'


def test_ticks_are_round_and_reach_the_top():
    assert ticks(73) == [0, 20, 40, 60, 80]
    assert ticks(0) == [0, 1]
    assert ticks(3) == [0, 1, 2, 3]
    assert ticks(100) == [0, 20, 40, 60, 80, 100]
    assert [round(tick, 3) for tick in ticks(0.05)] == [0, 0.01, 0.02, 0.03, 0.04, 0.05]
