"""A browser, and its pages of a real cluster or of many faked nodes."""

import shutil
import subprocess
from contextlib import ExitStack, contextmanager

import pytest
from playwright.sync_api import expect, sync_playwright

from real.console.checks import PATIENCE
from real.console.fakes import fake_cluster
from real.harness import Cluster, eventually, run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes with gates, that record, and heal soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOSSAMER_DRILL__FAULTS", "true")
        patch.setenv("GOSSAMER_AUDIT__ENABLE", "true")
        patch.setenv("GOSSAMER_CLUSTER__AUTOHEAL", "1s")
        with Cluster(tmp_path_factory.mktemp("console")) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def launched():
    """``launched("--option")``: a browser, until its block ends."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "expected chromium; script/test installs it"
    expect.set_options(timeout=PATIENCE)

    @contextmanager
    def launch(*options):
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", *options])
        yield browser
        browser.close()

    with sync_playwright() as driver:
        yield launch


@pytest.fixture(scope="module")
def browser(launched):
    with launched() as browser:
        yield browser


def _said(line):
    return f"{line.text} {line.location['url']}"


@pytest.fixture
def page(browser, cluster):
    """A page of node 1 that must not complain."""
    page = browser.new_page(base_url=cluster.api(1))
    page.set_default_timeout(PATIENCE)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(_said(line)) if line.type == "error" else None)
    yield page
    page.close()
    # That a node was killed, a token revoked, an order refused, or a queue that is open here deleted, is said
    # by the browser, too.
    expected = ("ERR_", "Blocked script", "503", "400", "401", "403", "422", "429", "/api/v1/queues/jobs")
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


@pytest.fixture
def many(browser):
    """A page of a cluster of faked nodes: ``many(20)``."""
    with ExitStack() as opened:

        def show(number, **options):
            url = opened.enter_context(fake_cluster(number, **options))
            page = browser.new_page(base_url=url)
            opened.callback(page.close)
            page.set_default_timeout(PATIENCE)
            return page

        yield show
