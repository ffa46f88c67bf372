"""Take the pictures that docs/guide/console.md shows: ``.venv/bin/python script/screenshots.py``.

A cluster of three nodes is started, with 200 clients that talk, and is left alone, cut by a drill and healed,
while a browser looks at each page. Minutes; what was there is replaced. Names of pages take those only:
``script/screenshots.py overview audit``. ``--width 390 --dark --out DIR`` shows what a phone at night does.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.async_api import Page, async_playwright

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "guide" / "console"
HEIGHT = 860
LARGEST = 120_000
"""Bytes of a picture."""
CLIENTS = 200
SETTINGS = {
    "GOSSAMER_DRILL__FAULTS": "true",
    "GOSSAMER_AUDIT__ENABLE": "true",
    "GOSSAMER_AUDIT__ROTATE_AFTER": "10s",
    "GOSSAMER_CLUSTER__AUTOHEAL": "2s",
}
ORDER = (
    *("overview", "clients", "subscriptions", "topics", "retained", "processes", "tables", "groups"),
    *("settings", "api", "mqtt", "audit", "drills", "split", "healing", "events", "history"),
)
"""What is broken comes last."""


@asynccontextmanager
async def cluster(directory: str) -> AsyncIterator[list[dict[str, Any]]]:
    """``gossamer up`` on free ports; its nodes."""
    ports = [f"--{name}-port=0" for name in ("mqtt", "api", "gossip", "distribution")]
    command = [sys.executable, "-m", "gossamer.cli", "up", "--json", "--nodes=3", *ports]
    up = await asyncio.create_subprocess_exec(
        *command,
        # Where it is kept can be seen in pictures.
        "--data-dir=data",
        cwd=directory,
        # One directory for what all record, so that it is judged together.
        env={**os.environ, **SETTINGS, "GOSSAMER_AUDIT__DIR": f"{directory}/recorded"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield json.loads(await up.stdout.readline())["nodes"]  # type: ignore[union-attr] - it is a pipe
    finally:
        up.terminate()
        await up.wait()


async def talk(nodes: list[dict[str, Any]]) -> None:
    """Clients that publish what they measure, and hear of each other, until cancelled."""
    network, clients = SystemNetwork(), list[MqttClient]()
    for number in range(CLIENTS):
        port = nodes[number % 3]["ports"]["mqtt"]
        client = await MqttClient.connect(network, ("127.0.0.1", port), f"meter-{number:03}")
        await client.subscribe(f"plant/{number % 40}/#")
        clients.append(client)
    await clients[0].subscribe("plant/+/alarm")
    turn = 0
    while True:
        for _ in range(5):
            turn += 1
            client = clients[turn % CLIENTS]
            client.messages.clear()
            if client.connected:
                await client.publish(f"plant/{turn * 7 % 40}/temperature", f"{20 + turn % 9} °C".encode())
        await asyncio.sleep(0.1)


class Show:
    """A browser before a cluster."""

    def __init__(self, page: Page, apis: list[str]) -> None:
        self.page = page
        self.apis = apis
        self.http = httpx.AsyncClient(base_url=f"{apis[0]}/api/v1", trust_env=False, timeout=30)

    async def scene(self, name: str) -> None:
        """Go to a page and do what makes it worth a picture."""
        page = self.page
        await page.goto(f"/#/{'overview' if name in ('split', 'history') else name}")
        await page.locator("main .card").first.wait_for()
        match name:
            case "overview":
                await page.wait_for_timeout(12_000)
            case "clients":
                await page.get_by_role("button", name="meter-021").click()
                await page.get_by_role("button", name="live trace").click()
                await page.wait_for_timeout(6000)
                await page.evaluate("scrollTo(0, 0)")
            case "history":
                await page.wait_for_timeout(15_000)
                await page.get_by_role("heading", name="The last hour").scroll_into_view_if_needed()
                await page.evaluate(
                    "scrollTo(0, document.querySelector('.charts').getBoundingClientRect().top - 80)"
                )
            case "groups":
                await page.get_by_text("5 of 5 have a leader").wait_for(timeout=60_000)
                # Leaders are spread some seconds after all have their voters.
                await page.wait_for_timeout(25_000)
            case "subscriptions":
                await page.get_by_label("Client or filter contains").fill("plant/1")
            case "retained":
                for number in range(6):
                    row = {
                        "topic": f"plant/{number}/limit",
                        "payload": f"{number + 20} °C",
                        "retain": True,
                        "qos": 1,
                    }
                    await self.http.post("/publish", json=row)
                await page.get_by_label("Topic filter").fill("plant/#")
                await page.wait_for_timeout(1000)
            case "topics":
                await page.get_by_label("Topic name").fill("plant/3/temperature")
            case "mqtt":
                await page.get_by_role("button", name="connect").click()
                await page.get_by_text("connected", exact=True).wait_for()
                await page.get_by_label("Filter").fill("plant/#")
                await page.get_by_role("button", name="subscribe").click()
                await page.wait_for_timeout(2000)
            case "audit":
                await self.run("/audit/runs", "/audit/reports", {"job": "completeness"})
            case "drills":
                await self.run("/drills", "/drills", {"kind": "partition", "seconds": 5, "autoheal": 2})
            case "split":
                cut = {"kind": "partition", "on": "this-cluster", "split": "2/1", "seconds": 15}
                await self.http.post("/drills", json=cut)
                await page.locator(".banner").wait_for()
                # Both sides write one row, so that one of them loses it when they heal.
                for number, api in enumerate((self.apis[0], self.apis[2]), start=1):
                    row = {"topic": "plant/limit", "payload": f"{number}0 °C", "retain": True}
                    await self.http.post(f"{api}/api/v1/publish", json=row)
                await page.wait_for_timeout(3000)
            case "healing":
                await page.locator(".timeline li").first.wait_for(timeout=60_000)
        await page.wait_for_timeout(1500)

    async def run(self, orders: str, runs: str, order: dict[str, Any]) -> None:
        """Order something, and wait until it is over; the page shows it."""
        answer = await self.http.post(orders, json=order)
        if answer.status_code != 201:
            # The page says why, and that is worth a picture, too.
            return
        path = f"{runs}/{answer.json()['id']}"
        async with asyncio.timeout(300):
            while (await self.http.get(path)).json()["state"] == "running":  # noqa: ASYNC110 - of another process
                await asyncio.sleep(1)


def keep(shot: bytes, file: Path) -> None:
    """What the browser showed, small: the console has few colours."""
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    small = picture.quantize(colors=256, dither=Image.Dither.NONE)
    small.save(file, optimize=True)
    size = file.stat().st_size
    sys.stdout.write(f"{file}: {size:,} bytes\n")
    if size > LARGEST:
        sys.exit(f"{file}: got {size} bytes, expected {LARGEST} at most")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages", nargs="*", default=ORDER, metavar="PAGE", help=", ".join(ORDER))
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    args = parser.parse_args()
    if unknown := set(args.pages) - set(ORDER):
        parser.error(f"got {', '.join(sorted(unknown))}, expected some of {', '.join(ORDER)}")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        sys.exit("expected chromium; script/test installs it")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="screenshots-") as directory:
        async with cluster(directory) as nodes, async_playwright() as driver:
            talking = asyncio.create_task(talk(nodes), name="talk")
            apis = [f"http://127.0.0.1:{node['ports']['api']}" for node in nodes]
            browser = await driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = await browser.new_page(
                base_url=apis[0],
                viewport={"width": args.width, "height": HEIGHT},
                color_scheme="dark" if args.dark else "light",
            )
            # A machine that is busy takes its time.
            page.set_default_timeout(120_000)
            show = Show(page, apis)
            for name in ORDER:
                if name in args.pages:
                    await show.scene(name)
                    await page.evaluate("document.activeElement?.blur()")
                    keep(await page.screenshot(), args.out / f"{name}.png")
            talking.cancel()
            await asyncio.wait({talking})
            await show.http.aclose()
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
