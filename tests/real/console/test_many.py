"""The console on many or busy nodes: faked ones behind a real API server."""

import re

import pytest
from playwright.sync_api import expect

from real.console.checks import OVERLAPS, PAINTINGS


@pytest.mark.parametrize("number", [7, 20])
def test_a_map_can_be_read_pointed_at_and_gone_through_by_keyboard(many, number):
    page = many(number)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 860})
        page.goto("/")
        page.reload()
        expect(page.locator(".map .node")).to_have_count(number)
        expect(page.locator(".map .edge"), "one line a healthy pair").to_have_count(
            number * (number - 1) // 2
        )
        assert page.evaluate(OVERLAPS) == []
    nodes, near = page.locator(".map .node"), page.locator(".map .edge.near")
    flows = page.locator(".map .flow")
    expect(flows).to_have_count(0)
    nodes.nth(2).locator("circle").hover()
    expect(near).to_have_count(number - 1)
    # What flows to and from it; not where two stand so close that nothing can be read between them.
    expect(flows.first).to_have_text(re.compile(r"B/s$"))
    assert flows.count() > (number - 1) // 2
    for at in range(number):
        nodes.nth(at).focus()
        assert page.evaluate(OVERLAPS) == [], f"node{at + 1} is looked at"
    nodes.nth(2).locator("circle").click()
    expect(page.get_by_role("heading", name="node3@127.0.0.1")).to_be_visible()
    page.mouse.move(2, 2)
    nodes.nth(6).focus()
    expect(near).to_have_count(number - 1)
    page.keyboard.press("Space")
    expect(page.get_by_role("heading", name="node7@127.0.0.1")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "label", "column", "sorts"),
    [
        ("subscriptions", "Subscriptions", "Filter", ["ascending", "descending"]),
        ("retained", "Retained messages", "Topic", ["ascending", "descending"]),
        ("retained", "Retained messages", "Size", ["descending", "ascending"]),
    ],
)
def test_lists_of_more_than_a_page_are_sorted_over_all_pages(many, path, label, column, sorts):
    """The topics are t/000 to t/149; the later, the smaller."""
    page = many(1)
    page.goto(f"/#/{path}")
    table = page.get_by_role("region", name=label)
    expect(page.get_by_role("button", name="next")).to_be_enabled()
    for sort in sorts:
        table.get_by_role("button", name=re.compile(f"^{column}")).click()
        expect(table.locator(f"th[aria-sort={sort}]")).to_contain_text(column)
        last = (sort == "descending") != (column == "Size")
        expect(table.get_by_role("row").nth(1)).to_contain_text("t/149" if last else "t/000")


def test_a_trace_of_a_thousand_lines_a_second_stays_fluid_and_can_be_held_still(many):
    page = many(1, rate=1000)
    page.goto("/#/clients")
    page.get_by_role("button", name="meter-00001").click()
    page.get_by_role("button", name="live trace").click()
    rows = page.get_by_role("region", name="Trace").get_by_role("row")
    expect(rows).to_have_count(201)
    # Before, each line made the page anew: less than one frame a second at a tenth of this rate.
    assert 0 < page.evaluate(PAINTINGS, 3000) < 50
    expect(rows.nth(1).get_by_role("cell").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))
    page.get_by_role("button", name="pause").click()
    first = rows.nth(1).inner_text()
    page.wait_for_timeout(500)
    assert rows.nth(1).inner_text() == first
    page.get_by_role("button", name="go on").click()
    expect(rows.nth(1)).not_to_have_text(first)
