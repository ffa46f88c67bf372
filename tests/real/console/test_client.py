"""The console's MQTT client in a real browser, on a real cluster."""

import subprocess
import sys

import pytest
from playwright.sync_api import expect

from real.console.checks import PAINTINGS, talk


def test_messages_go_and_come_over_websocket(page):
    page.goto("/#/mqtt")
    talk(page, "grüße")


@pytest.fixture
def chatter(cluster):
    """A client of node 2 that publishes to chatter/1, two hundred times a second."""
    talk = "import time\nwhile True: print(time.time(), flush=True); time.sleep(0.005)"
    with subprocess.Popen([sys.executable, "-c", talk], stdout=subprocess.PIPE) as talker:
        publish = ["mosquitto_pub", "-p", str(cluster.port(2)), "-t", "chatter/1", "-l"]
        with subprocess.Popen(publish, stdin=talker.stdout) as publisher:
            yield
            talker.kill()
            publisher.kill()


def test_two_hundred_messages_a_second_leave_the_client_usable(page, chatter):
    page.goto("/#/mqtt")
    page.get_by_role("button", name="connect").click()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    page.get_by_label("Filter").fill("chatter/#")
    page.get_by_role("button", name="subscribe").click()
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows).to_have_count(201)
    # Before, each message made the page anew: three messages a second came, and no button could be pressed.
    assert 0 < page.evaluate(PAINTINGS, 3000) < 50
    page.get_by_role("button", name="pause").click()
    first = rows.nth(1).inner_text()
    page.wait_for_timeout(500)
    assert rows.nth(1).inner_text() == first
    page.get_by_role("button", name="go on").click()
    expect(rows.nth(1)).not_to_have_text(first)
    page.get_by_role("button", name="unsubscribe from chatter/#").click()
    page.get_by_label("Filter").fill("console/#")
    page.get_by_role("button", name="subscribe", exact=True).click()
    page.get_by_label("Topic").fill("console/last")
    page.get_by_role("button", name="publish").click()
    expect(rows.nth(1)).to_contain_text("console/last")


def test_why_the_node_ended_the_clients_connection_is_told(page):
    page.goto("/#/mqtt")
    page.get_by_role("button", name="connect").click()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    page.get_by_label("Topic").fill("plant/+/limit")
    page.get_by_role("button", name="publish").click()
    expect(page.locator(".notes .bad")).to_contain_text("reason 0x81: topic name contains a wildcard")


def test_who_is_refused_is_told_and_may_try_again(page):
    page.goto("/#/mqtt")
    page.get_by_label("User name").fill("nobody")
    # CONNACK of MQTT 5 with reason 0x86; the nodes of `up` let everybody in.
    refused = b"\x20\x03\x00\x86\x00"
    page.route_web_socket("**/mqtt", lambda socket: socket.on_message(lambda _: socket.send(refused)))
    page.get_by_role("button", name="connect").click()
    expect(page.locator(".notes .bad")).to_contain_text("Bad User Name or Password")
    expect(page.get_by_text("off", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="connect", exact=True)).to_be_enabled()


def test_where_no_node_listens_for_websockets_the_page_says_what_to_add(many):
    page = many(1)
    page.goto("/#/mqtt")
    expect(page.locator(".hint")).to_contain_text("{type: ws, port: 8083}")
    expect(page.get_by_role("button", name="connect")).to_be_disabled()
