"""The web console in a real browser, on a real cluster: its pages."""

import json
import os
import re
import signal
import subprocess

import pytest
from playwright.sync_api import expect

from real.console.checks import FAINT, MOVING, NAMELESS, NOTE_SILENCE, PAGES, PATIENCE, names
from real.harness import eventually, run


def test_the_map_shows_every_node_and_who_sees_whom(page, cluster):
    page.goto("/")
    for name in names(cluster):
        expect(page.get_by_role("button", name=f"{name}, running")).to_be_visible()
    expect(page.locator(".edge.good")).to_have_count(3)
    expect(page.get_by_text("3 of 3")).to_be_visible()


def test_clients_of_other_nodes_are_shown_with_what_they_subscribe_to_and_traced(page, cluster, subscriber):
    page.goto("/#/clients")
    row = page.get_by_role("row").filter(has_text="board")
    expect(row).to_contain_text(names(cluster)[1])
    row.click()
    expect(page.get_by_role("cell", name="plant/#")).to_be_visible()
    page.get_by_role("button", name="live trace").click()
    expect(page.get_by_role("cell", name="tracing")).to_be_visible()
    run("publish", "plant/1", "hello", "--api", cluster.api(3))


def test_clients_are_searched_for_and_sorted(page, cluster, subscriber):
    page.goto("/#/clients")
    table = page.get_by_role("region", name="Clients")
    page.get_by_label("Search").fill("OAR")
    expect(table.get_by_role("row").filter(has_text="board")).to_be_visible()
    page.get_by_role("button", name="Subscriptions").click()
    expect(table.locator("th[aria-sort=descending]")).to_contain_text("Subscriptions")
    page.get_by_role("combobox", name="In", exact=True).select_option("address")
    expect(page.get_by_text("No client is like that.")).to_be_visible()
    page.get_by_label("Search").fill("127.0.0.1:")
    expect(table.get_by_role("row").filter(has_text="board")).to_be_visible()


def test_subscriptions_retained_messages_and_events_are_listed(page, cluster, subscriber):
    page.goto("/#/subscriptions")
    page.get_by_label("Client or filter contains").fill("plant")
    row = page.get_by_role("region", name="Subscriptions").get_by_role("row").filter(has_text="plant/#")
    row.get_by_role("link", name="board").click()
    expect(page.get_by_role("heading", name="Clients", exact=True)).to_be_visible()
    expect(page.get_by_label("Search")).to_have_value("board")
    page.goto("/#/retained")
    expect(page.get_by_text("Nothing is retained.")).to_be_visible()
    run("publish", "shelf/1", "hello", "--retain", "--api", cluster.api(3))
    expect(page.get_by_role("region", name="Retained messages")).to_contain_text("5 B")
    page.get_by_label("Topic filter").fill("shelf/#/x")
    expect(page.locator("main").get_by_role("alert")).to_contain_text("#")
    page.get_by_label("Topic filter").fill("shelf/+")
    page.get_by_role("button", name="remove shelf/1").click()
    page.get_by_role("button", name="remove it").click()
    expect(page.get_by_text("No retained message has a topic")).to_be_visible()
    page.goto("/#/events")
    events = page.get_by_role("region", name="Events")
    expect(events).to_contain_text("link up")
    page.get_by_label("Kind").select_option("healed")
    expect(page.get_by_text("No event is like that.")).to_be_visible()


def test_the_last_hour_is_drawn_when_the_page_is_opened(page, cluster):
    eventually(lambda: len(cluster.get(2, "/api/v1/history?scope=node&step=5")["nodes"][0]["at"]) > 1)
    page.goto("/")
    chart = page.get_by_role("img", name="Clients of all nodes in the last hour; now")
    expect(chart.locator("path:not(.rule)")).to_have_attribute("d", re.compile("L"))


def test_a_topic_is_explained(page, cluster, subscriber):
    page.goto("/#/topics")
    page.get_by_label("Topic name").fill("plant/3/temperature")
    answer = page.locator("p").filter(has_text="A message to")
    expect(answer).to_contain_text(names(cluster)[1])
    expect(page.get_by_role("region", name="Matching filters")).to_contain_text("plant/#")


def test_processes_tables_and_api_are_listed(page, cluster):
    page.goto("/#/processes")
    for name in ("routes", "gossip", "mqtt_cluster"):
        expect(page.get_by_role("tree")).to_contain_text(name)
    page.locator("select").select_option(names(cluster)[2])
    expect(page.get_by_role("tree")).to_contain_text(f"<{names(cluster)[2]}.")
    page.goto("/#/tables")
    expect(page.get_by_role("region", name="Tables")).to_contain_text("retained_copies")
    page.goto("/docs")
    expect(page.get_by_role("heading", name="GET /cluster")).to_be_visible()


def test_groups_of_replicas_are_shown_with_who_leads_them_and_who_has_them(page, cluster):
    page.goto("/#/groups")
    groups = page.get_by_role("region", name="Groups of replicas")
    expect(groups.locator("tbody tr")).to_have_count(6)
    for name in ("names", "basekv/0", "basekv/3", "queues/default"):
        row = groups.locator("tbody tr").filter(has_text=name)
        expect(row.get_by_text("leads", exact=True)).to_have_count(1)
        expect(row.get_by_text("voter")).to_have_count(2)
    expect(page.get_by_text("6 of 6 have a leader")).to_be_visible()


def test_a_queue_is_shown_with_its_consumer_groups_and_who_is_stuck(page, cluster):
    create = "queues", "create", "jobs", "--visibility-timeout", "1s", "--api", cluster.api(2)
    # The replication group is founded some seconds after the nodes have met.
    eventually(lambda: run(*create).returncode == 0)
    run("queues", "publish", "jobs", "work", "--api", cluster.api(2))
    page.goto("/#/queues")
    row = page.get_by_role("region", name="Queues").locator("tbody tr")
    expect(row.get_by_text("none")).to_be_visible()
    row.get_by_role("button", name="jobs").click()
    expect(page.get_by_text("No consumer group: nobody has consumed.")).to_be_visible()
    subscribe = [
        "mosquitto_sub",
        "-V",
        "5",
        "-p",
        cluster.port(1),
        "-q",
        "1",
        "-t",
        "$queue/jobs/#",
        "-i",
        "idler",
    ]
    # It settles nothing.
    with subprocess.Popen(subscribe, stdout=subprocess.DEVNULL) as idler:
        consumer = page.get_by_role("region", name="Consumers").locator("tbody tr")
        expect(consumer).to_contain_text("idler")
        expect(consumer.get_by_text("stuck")).to_be_visible()
        idler.terminate()
    expect(page.get_by_role("region", name="Consumer groups")).to_contain_text("none")
    run("queues", "delete", "jobs", "--api", cluster.api(2))
    expect(page.get_by_text("No queues")).to_be_visible()


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
    expect(page.get_by_text("phone, viewer").first).to_be_visible()
    run("tokens", "revoke", listed[0]["id"], "--api", cluster.api(2))
    page.reload()
    expect(page.get_by_text("unknown or revoked")).to_be_visible()


def test_it_works_by_keyboard_and_in_the_dark(page):
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    expect(page.get_by_role("heading", name="Cluster", exact=True)).to_be_visible()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Light or dark").press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.get_by_role("link", name="Tables").press("Enter")
    expect(page.get_by_role("heading", name="Tables").first).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.set_viewport_size({"width": 390, "height": 800})
    for name in PAGES:
        page.goto(f"/#/{name}")
        expect(page.locator("main .card").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_what_a_viewer_may_not_is_said_in_words(page, cluster):
    made = run("tokens", "create", "guest", "--role", "viewer", "--json", "--api", cluster.api(1))
    page.goto("/")
    page.evaluate("token => sessionStorage.setItem('token', token)", json.loads(made.stdout)["token"])
    page.goto("/#/drills")
    page.reload()
    expect(page.get_by_text("Starting a drill takes the role operator, and you are viewer.")).to_be_visible()
    expect(page.get_by_role("button", name="start the drill")).to_be_disabled()
    page.goto("/#/audit")
    expect(page.get_by_text("Switching a recorder takes the role admin, and you are viewer.")).to_be_visible()
    expect(page.get_by_role("button", name="stop recording at node1")).to_be_disabled()
    expect(page.get_by_text("Running an audit takes the role operator")).to_be_visible()


def test_recorders_of_all_nodes_are_shown_and_switched(page, cluster):
    run("publish", "plant/1", "hello", "--api", cluster.api(2))
    page.goto("/#/audit")
    recorders = page.get_by_role("region", name="Recorders")
    for name in ("node1", "node2", "node3"):
        expect(recorders.get_by_role("row").filter(has_text=name)).to_contain_text("records")
    page.get_by_role("button", name="stop recording at node3").click()
    page.get_by_role("button", name="stop recording", exact=True).click()
    expect(recorders.get_by_role("row").filter(has_text="node3")).to_contain_text("off")
    assert cluster.get(3, "/api/v1/audit")["enabled"] is False
    page.get_by_role("button", name="start recording at node3").click()
    expect(recorders.get_by_role("row").filter(has_text="node3")).to_contain_text("records")


def test_an_audit_is_ordered_and_stopped(page, cluster):
    page.goto("/#/audit")
    if lacks := cluster.get(1, "/api/v1/audit/reports")["lacks"]:
        expect(page.get_by_text(lacks)).to_be_visible()
        return
    page.get_by_label("from").fill("tomorrow")
    page.get_by_role("button", name="run the audit").click()
    expect(page.locator(".notes .bad")).to_contain_text("from")
    page.get_by_label("from").fill("1h ago")
    page.get_by_role("button", name="run the audit").click()
    expect(page.get_by_role("list", name="Jobs of the audit")).to_be_visible()
    page.get_by_role("button", name="stop", exact=True).click()
    page.get_by_role("button", name="stop it").click()
    row = page.get_by_role("region", name="Reports").get_by_role("row").nth(1)
    # A small recording is judged in a second: it may have ended while the question stood, and stays then; on
    # a fast machine before a recorder has written its first file.
    expect(row).to_contain_text(re.compile("stopped|promises|no recorded events"))


def test_a_report_is_shown_in_a_frame_that_can_do_nothing(page, cluster):
    folder = cluster.data_dir / "node1" / "drills" / "from-elsewhere"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>What came of it</h1><script>parent.document.title='x'</script>")
    page.goto("/#/drills")
    page.get_by_role("button", name="from-elsewhere").click()
    page.get_by_role("button", name="report", exact=True).click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="What came of it")).to_be_visible()
    link = page.get_by_role("link", name="open in a tab").get_attribute("href")
    assert link.startswith("/console/report/")
    assert page.title() == "Drills · gossamer"


@pytest.mark.timeout(170)
def test_this_cluster_is_cut_seen_as_split_healed_and_judged(page, cluster):
    """One drill for three pages: its own, the map, and what the heal put aside."""
    page.goto("/#/drills")
    page.get_by_role("combobox", name="Of", exact=True).select_option("this-cluster")
    page.get_by_label("split").fill("2/1")
    page.get_by_label("seconds").fill("8")
    page.get_by_role("button", name="start the drill").click()
    question = page.get_by_role("dialog", name="Cut this cluster?")
    expect(question).to_contain_text("node1, node2")
    expect(question.get_by_role("button", name="cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    assert cluster.get(1, "/api/v1/drills")["running"] == ""
    page.get_by_role("button", name="start the drill").press("Enter")
    question.get_by_role("button", name="cut this cluster").click()
    expect(page.get_by_role("list", name="Steps of the drill")).to_be_visible()
    expect(page.locator(".banner").filter(has_text="Out of reach: node3")).to_be_visible()
    for number in (1, 3):
        run("publish", "both/sides", f"of {number}", "--retain", "--api", cluster.api(number))
    page.goto("/#/overview")
    expect(page.locator(".edge.bad").first).to_be_attached()
    page.goto("/#/drills")
    expect(page.get_by_text("All promises were kept.").first).to_be_visible(timeout=4 * PATIENCE)
    expect(page.get_by_role("region", name="Verdicts")).to_contain_text("kept")
    page.goto("/#/healing")
    expect(page.locator(".timeline li").first).to_contain_text("node3 apart from node1, node2")
    row = page.get_by_role("region", name="Quarantine").get_by_role("row").filter(has_text="both/sides")
    expect(row.first).to_be_visible()
    kept = row.count()
    row.first.get_by_role("button", name="write again").click()
    page.get_by_role("button", name="write it again").click()
    expect(row).to_have_count(kept - 1)


def test_a_page_whose_question_is_not_answered_says_so(page):
    page.route("**/tables", lambda route: route.abort())
    page.goto("/#/tables")
    expect(page.locator("main").get_by_role("alert")).to_contain_text("the node does not answer")


def test_names_focus_and_contrast_are_as_people_need_them(page):
    """Every field has a name, every table and picture too; Tab goes from the skip link through the menu."""
    page.goto("/")
    page.locator(".figures").wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for name in PAGES:
        page.goto(f"/#/{name}")
        page.locator("main .card").first.wait_for()
        assert page.evaluate(NAMELESS) == [], name
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(FAINT) == [], (name, scheme)
        assert page.locator("h1").count() == 1
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == []


def test_a_killed_node_is_told_on_every_page_and_is_back(browser, cluster):
    """Last of the module: it kills one."""
    name = names(cluster)[2]
    pages = {}
    for one in PAGES:
        # A context each: one opens six connections to a node and no more, and each page keeps one.
        pages[one] = browser.new_page(base_url=cluster.api(1))
        pages[one].set_default_timeout(PATIENCE)
        pages[one].goto(f"/#/{one}")
    map_ = pages["overview"]
    expect(map_.get_by_role("button", name=f"{name}, running")).to_be_visible()
    pages["processes"].locator("select").select_option(name)
    pages["tables"].locator("select").select_option(name)
    expect(pages["tables"].get_by_role("region", name="Tables")).to_be_visible()
    for page in pages.values():
        page.locator("main .card").first.wait_for()
        page.evaluate(NOTE_SILENCE, "node3")
    os.kill(cluster.facts_file()["nodes"][2]["pid"], signal.SIGKILL)
    expect(map_.get_by_role("button", name=f"{name}, does not answer")).to_be_visible()
    for page in pages.values():
        page.locator("html[data-told=node3]").wait_for(state="attached")
    expect(map_.get_by_role("button", name=f"{name}, running")).to_be_visible(timeout=2 * PATIENCE)
    for page in pages.values():
        page.close()
