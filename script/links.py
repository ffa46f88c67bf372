"""Ask other sites whether what the documents link to is there: ``./script/docs --links``.

Links between pages are checked by the build, without a network. Each address is asked for once; what refuses
programs (403, 429) counts as there.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 8
THERE = frozenset({401, 403, 405, 429})


def addresses() -> dict[str, list[Path]]:
    """Every external address, with the pages that have it."""
    found: dict[str, list[Path]] = {}
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for address in re.findall(r"\]\((https?://[^)\s]+)\)", text):
            found.setdefault(address.partition("#")[0], []).append(page.relative_to(ROOT))
    return found


async def fault_of(address: str, client: httpx.AsyncClient, gate: asyncio.Semaphore) -> str:
    """Why it is not there; empty where it is."""
    async with gate:
        try:
            async with client.stream("GET", address) as answer:
                gone = answer.status_code >= 400 and answer.status_code not in THERE
                return f"answers {answer.status_code}" if gone else ""
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"


async def main() -> int:
    found = addresses()
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(follow_redirects=True, timeout=20) as client:
        faults = await asyncio.gather(*(fault_of(address, client, gate) for address in found))
    bad = {address: fault for address, fault in zip(found, faults, strict=True) if fault}
    for address, fault in bad.items():
        sys.stdout.write(f"{', '.join(map(str, found[address]))}: {address} {fault}\n")
    sys.stdout.write(f"{len(found)} addresses, {len(bad)} not there\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
