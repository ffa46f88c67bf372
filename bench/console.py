"""How soon the console paints, what it weighs, and how soon it shows that a node was killed, in Chromium.

    python bench/console.py [--rounds 10]

Three nodes on this machine; a browser opens the console of the first one again and again, each time with an
empty cache. First paint is the browser's own (``paint`` timing), from the start of the navigation. Weight is
what came over the wire. Then the third node is killed (SIGKILL), and what counts is the time until the page
says that it is out of reach. Bars: first paint 1 s, weight 500 KB.
"""

import argparse
import os
import shutil
import signal
import statistics
import sys
import time

from api import Cluster
from playwright.sync_api import Browser, sync_playwright

PAINT = 1000.0
"""Milliseconds."""
WEIGHT = 500_000
PATIENCE = 60_000
PAINTED = """() => Object.fromEntries(
  performance.getEntriesByType('paint').map(one => [one.name, one.startTime]))"""
WEIGHED = """() => ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))
  .filter(one => !one.name.includes('/api/')).reduce((sum, one) => sum + one.transferSize, 0)"""


def visit(browser: Browser, base: str) -> tuple[float, float, float, int]:
    """First paint, first content and data in milliseconds, and bytes, of one visit with an empty cache."""
    page = browser.new_page(base_url=base)
    page.goto("/")
    page.locator(".map .node").nth(2).wait_for(timeout=PATIENCE)
    data = page.evaluate("performance.now()")
    painted, weight = page.evaluate(PAINTED), page.evaluate(WEIGHED)
    page.close()
    return painted["first-paint"], painted["first-contentful-paint"], data, weight


def told_after_kill(browser: Browser, base: str, pid: int) -> float:
    """Seconds from SIGKILL until the page says so."""
    page = browser.new_page(base_url=base)
    page.goto("/")
    page.locator(".map .node").nth(2).wait_for(timeout=PATIENCE)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    page.get_by_text("Out of reach").wait_for(timeout=PATIENCE)
    took = time.monotonic() - begin
    page.close()
    return took


def row(name: str, values: list[float], unit: str, bar: float | None) -> bool:
    """Print one; whether it is within its bar."""
    worst, kept = max(values), bar is None or max(values) <= bar
    verdict = "" if bar is None else f"  bar {bar:,.0f} {unit}: {'kept' if kept else 'BROKEN'}"
    print(f"{name:28}{statistics.median(values):>10,.0f} {unit}  worst {worst:,.0f} {unit}{verdict}")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("expected chromium; script/test installs it")
    load = os.getloadavg()[0]
    with Cluster(3) as cluster, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        base = f"http://127.0.0.1:{cluster.api[0]}"
        visits = [visit(browser, base) for _ in range(args.rounds)]
        paints, contents, datas, weights = (list(column) for column in zip(*visits, strict=True))
        print(f"{args.rounds} visits with an empty cache; {os.cpu_count()} cores, load {load:.1f}")
        kept = [
            row("first paint", paints, "ms", PAINT),
            row("first contentful paint", contents, "ms", PAINT),
            row("map of three nodes", datas, "ms", None),
            row("weight", weights, "B", WEIGHT),
        ]
        took = told_after_kill(browser, base, cluster.pids[2])
        print(f"a killed node is told after {took:.1f} s")
        browser.close()
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
