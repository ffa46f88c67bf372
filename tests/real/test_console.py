"""The web console in a real browser, on a real cluster."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from real.harness import Cluster, eventually, run

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "gossamer" / "api" / "console"
WEIGHT = 500_000
"""Bytes of a page with all that it loads."""
PATIENCE = 30_000
"""Milliseconds that a page gets to show something."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("console"), "--ws-port", "0") as cluster:
        yield cluster


def names(cluster):
    return [node["name"] for node in cluster.nodes]


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "expected chromium; script/test installs it"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, cluster):
    """A page of node 1 that must not complain."""
    page = browser.new_page(base_url=cluster.api(1))
    page.set_default_timeout(PATIENCE)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    yield page
    page.close()
    # That a node was killed, or a token revoked, is said by the browser, too.
    expected = ("ERR_", "503", "401", "403", "429")
    assert [line for line in wrong if not any(word in line for word in expected)] == []


@pytest.fixture
def subscriber(cluster):
    """A client of node 2 that subscribes to plant/#."""
    process = subprocess.Popen(
        ["mosquitto_sub", "-p", str(cluster.port(2)), "-i", "board", "-t", "plant/#", "-q", "1"],
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: "board" in run("clients", "--api", cluster.api(1)).stdout)
    yield process
    process.kill()
    process.wait()


def test_the_built_files_are_those_of_the_sources():
    digest = hashlib.sha256()
    folder = ROOT / "console"
    names = ["package.json", "build.mjs", "tsconfig.json"]
    names += [f"src/{path.name}" for path in sorted((folder / "src").iterdir(), key=lambda path: path.name)]
    for name in names:
        digest.update(f"{name}\0".encode() + (folder / name).read_bytes() + b"\0")
    expected = (BUILT / "built-from").read_text().strip()
    assert digest.hexdigest() == expected, "run `npm install && npm run build` in console/"


def test_all_of_the_console_weighs_less_than_half_a_megabyte():
    assert sum(path.stat().st_size for path in BUILT.iterdir()) < WEIGHT


def test_the_map_shows_every_node_and_who_sees_whom(page, cluster):
    page.goto("/")
    for name in names(cluster):
        expect(page.get_by_role("button", name=f"{name}, running")).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".edge.good")).to_have_count(6, timeout=PATIENCE)
    expect(page.get_by_text("3 of 3")).to_be_visible()


def test_clients_of_other_nodes_are_shown_with_what_they_subscribe_to_and_traced(page, cluster, subscriber):
    page.goto("/#/clients")
    row = page.get_by_role("row").filter(has_text="board")
    expect(row).to_contain_text(names(cluster)[1], timeout=PATIENCE)
    row.click()
    expect(page.get_by_role("cell", name="plant/#")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("button", name="live trace").click()
    expect(page.get_by_role("cell", name="tracing")).to_be_visible(timeout=PATIENCE)
    run("publish", "plant/1", "hello", "--api", cluster.api(3))


def test_a_topic_is_explained(page, cluster, subscriber):
    page.goto("/#/topics")
    page.get_by_label("Topic name").fill("plant/3/temperature")
    answer = page.locator("p").filter(has_text="A message to")
    expect(answer).to_contain_text(names(cluster)[1], timeout=PATIENCE)
    expect(page.get_by_role("region", name="Matching filters")).to_contain_text("plant/#")


def test_processes_tables_and_api_are_listed(page, cluster):
    page.goto("/#/processes")
    for name in ("routes", "gossip", "mqtt_cluster"):
        expect(page.get_by_role("tree")).to_contain_text(name, timeout=PATIENCE)
    page.locator("select").select_option(names(cluster)[2])
    expect(page.get_by_role("tree")).to_contain_text(f"<{names(cluster)[2]}.", timeout=PATIENCE)
    page.goto("/#/tables")
    expect(page.get_by_role("region", name="Tables")).to_contain_text("retained_copies", timeout=PATIENCE)
    page.goto("/docs")
    expect(page.get_by_role("heading", name="GET /cluster")).to_be_visible(timeout=PATIENCE)


def test_messages_go_and_come_over_websocket(page):
    page.goto("/#/mqtt")
    page.get_by_role("button", name="connect").click()
    expect(page.get_by_text("connected", exact=True)).to_be_visible(timeout=PATIENCE)
    page.get_by_label("Filter").fill("console/#")
    page.get_by_role("button", name="subscribe").click()
    page.get_by_label("Topic").fill("console/test")
    page.get_by_label("Payload").fill("grüße")
    page.get_by_role("button", name="publish").click()
    expect(page.get_by_role("cell", name="grüße")).to_be_visible(timeout=PATIENCE)


def test_tokens_are_made_used_and_revoked(page, cluster):
    page.goto("/#/settings")
    page.get_by_label("Name").fill("phone")
    page.get_by_role("button", name="make a token").click()
    token = page.locator(".banner code").inner_text(timeout=PATIENCE)
    assert token.startswith("gsm_")
    listed = json.loads(run("tokens", "list", "--json", "--api", cluster.api(2)).stdout)["items"]
    assert [row["name"] for row in listed] == ["phone"]
    page.evaluate("token => sessionStorage.setItem('token', token)", token)
    page.reload()
    expect(page.get_by_text("phone, viewer").first).to_be_visible(timeout=PATIENCE)
    run("tokens", "revoke", listed[0]["id"], "--api", cluster.api(2))
    page.reload()
    expect(page.get_by_text("unknown or revoked")).to_be_visible(timeout=PATIENCE)


def test_it_works_by_keyboard_and_in_the_dark(page):
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    expect(page.get_by_role("heading", name="Cluster", exact=True)).to_be_visible(timeout=PATIENCE)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Light or dark").press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.get_by_role("link", name="Tables").press("Enter")
    expect(page.get_by_role("heading", name="Tables").first).to_be_visible(timeout=PATIENCE)


def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("overview", "clients", "topics", "processes", "tables", "healing", "mqtt", "settings"):
        page.goto(f"/#/{name}")
        expect(page.locator("main .card").first).to_be_visible(timeout=PATIENCE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_a_killed_node_is_seen_as_down_and_as_back(page, cluster):
    """Last of the module: it kills one."""
    page.goto("/")
    name = names(cluster)[2]
    expect(page.get_by_role("button", name=f"{name}, running")).to_be_visible(timeout=PATIENCE)
    os.kill(cluster.facts_file()["nodes"][2]["pid"], signal.SIGKILL)
    expect(page.get_by_role("button", name=f"{name}, does not answer")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("button", name=f"{name}, running")).to_be_visible(timeout=2 * PATIENCE)
