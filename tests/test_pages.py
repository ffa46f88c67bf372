"""The numbers of an axis are round, and what a template is given stays text."""

from gossamer.pages import environment, ticks


def test_what_a_template_is_given_stays_text():
    page = environment("gossamer.drill.report").from_string('<path class="{{ of }}"/>')
    assert page.render(of='a"b') == '<path class="a&#34;b"/>'


def test_ticks_are_round_and_reach_the_top():
    assert ticks(73) == [0, 20, 40, 60, 80]
    assert ticks(0) == [0, 1]
    assert ticks(3) == [0, 1, 2, 3]
    assert ticks(100) == [0, 20, 40, 60, 80, 100]
    assert [round(tick, 3) for tick in ticks(0.05)] == [0, 0.01, 0.02, 0.03, 0.04, 0.05]
