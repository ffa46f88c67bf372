"""Stores of several nodes on virtual time, by script: one file of ``scenarios`` each.

A file opens with a sentence on what it shows. Commands follow, in blocks; after ``----`` stands what a block
answered. ``GOSSAMER_REWRITE=1 pytest tests/mnesia_like/test_scenarios.py`` writes the answers as they are
now: read the difference before you keep it.

::

    start a b [disc=True]    stop a    leave a    mute a      a life of a node; ``mute``: it never answers
    split a b [c …]    heal a b [c …]                         the links of the first to the others
    wait 10    clock a -3600                                  seconds go by; a wall clock is set back
    a create t [replication=…]    a write t KEY VALUE    a delete t KEY    a METHOD-of-the-store …
    a tx t KEY+1 KEY=5                                        a transaction that adds to a row, and sets one
    a visible t    a watch t                                  wait for peers; note changes, and what loses
    rows t    tombstones t    tables    events [PREFIX …]     of every node that runs
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import GossamerError
from gossamer.mnesia_like import Disc, LocalTable, OwnedTable, SharedTable, Transaction
from gossamer.testing import SimNetwork, run_simulation

from .hub import Host, Hub, host

SCRIPTS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(script: Path) -> None:
    text = script.read_text()
    with tempfile.TemporaryDirectory() as place:
        found, _ = run_simulation(lambda sim: played(text, Cluster(sim, Path(place))), seed=1)
    if os.environ.get("GOSSAMER_REWRITE"):
        script.write_text(found)
    assert found == text


async def played(text: str, cluster: Cluster) -> str:
    """The script, with the answers that it gives now."""
    blocks = []
    async with cluster.stack:
        for block in text.strip().split("\n\n"):
            commands = block.partition("\n----")[0]
            answers = []
            for line in commands.splitlines():
                if not line.startswith("#"):
                    answers += await cluster.run(line.split())
            blocks.append("\n".join([commands, *(["----", *answers] if answers else [])]))
    return "\n\n".join(blocks) + "\n"


class Cluster:
    """Hosts by name, and what was told to those who subscribed to their stores."""

    def __init__(self, sim: SimNetwork, place: Path) -> None:
        self.stack = contextlib.AsyncExitStack()
        self._sim = sim
        self._place = place
        self._hub = Hub()
        self._hosts: dict[str, Host] = {}
        self._ends: dict[str, contextlib.AsyncExitStack] = {}
        self._told: list[str] = []

    async def run(self, words: list[str]) -> list[str]:
        """Carry out one line."""
        options = {k: value(v) for k, v in (w.split("=", 1) for w in words if "=" in w and "+" not in w)}
        verb, *args = [w for w in words if "=" not in w]
        if verb in self._hosts and args[0] != "tx":
            verb, args = "_at", [verb, *args]
        elif verb in self._hosts:
            return await self._at(verb, "tx", *words[2:])
        answer = await getattr(self, verb)(*args, **options)
        return answer or []

    # -- hosts and links

    async def start(self, *names: str, disc: bool = False, **options: Any) -> None:
        for name in names:
            end = self._ends[name] = contextlib.AsyncExitStack()
            if disc:
                options["disc"] = Disc(self._place / name)
            clock = self._sim.host(name).clock
            made = host(name, self._hub, clock=clock, **{"tick": 0.1} | options)
            self._hosts[name] = await end.enter_async_context(made)
            await self.stack.enter_async_context(end)
            self._hosts[name].store.subscribe(lambda event, name=name: self._told.append(f"{name}: {event}"))

    async def stop(self, name: str, *, left: bool = False) -> None:
        del self._hosts[name]
        self._hub.part(name, left=left)
        await self._ends.pop(name).aclose()

    async def leave(self, name: str) -> None:
        await self.stop(name, left=True)

    async def mute(self, name: str) -> None:
        self._hub.join(name)

    async def split(self, one: str, *others: str) -> None:
        for other in others:
            if {one, other} <= self._hosts.keys():
                self._hub.partition(one, other)
            self._hub.cut.add(frozenset((one, other)))

    async def heal(self, one: str, *others: str) -> None:
        for other in others:
            self._hub.heal(one, other)

    async def wait(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    async def clock(self, name: str, seconds: str) -> None:
        self._sim.host(name).clock.jump(float(seconds))

    # -- tables

    async def _at(self, name: str, verb: str, *args: str, **options: Any) -> list[str]:
        store = self._hosts[name].store
        try:
            if verb == "create":
                await store.create_table(args[0], **options)
                return []
            if verb == "tx":
                await store.transaction(self._transaction, *args, timeout=20)
                return []
            if verb == "watch":
                return self._watch(name, store.table(args[0]))
            if verb == "visible":
                table: Any = store.table(args[0])
                return [str(await table.visible(store.replication.tables[args[0]].log.position, timeout=1.0))]
            if verb in ("write", "delete", "delete_object"):
                answer = getattr(store.table(args[0]), verb)(*map(value, args[1:]))
                return ["False"] if answer is False else []
            answer = getattr(store, verb)(*map(value, args), **options)
            answer = await answer if inspect.isawaitable(answer) else answer
        except (GossamerError, TimeoutError) as error:
            return [f"{type(error).__name__}: {error}"]
        return [] if answer is None or answer is True else [str(answer)]

    async def _transaction(self, tx: Transaction, table: str, *changes: str) -> None:
        for change in changes:
            if "+" in change:
                key, amount = change.split("+")
                await tx.write(table, key, await tx.read(table, key, 0, write=True) + int(amount))
            else:
                key, new = change.split("=")
                await tx.write(table, key, value(new))

    def _watch(self, name: str, table: Any) -> list[str]:
        table.subscribe(lambda events: self._told.append(f"{name}: {events}"))
        if isinstance(table, SharedTable):
            table.on_discard(
                lambda lost: self._told.append(f"{name}: lost {[(d.key, *d.value) for d in lost]}")
            )
        return []

    # -- what is seen

    async def rows(self, name: str) -> list[str]:
        return self._of_each(name, contents)

    async def tombstones(self, name: str) -> list[str]:
        return self._of_each(name, lambda table: table.core.tombstones)

    async def tables(self) -> list[str]:
        return [f"{name}: {' '.join(node.store.tables())}" for name, node in sorted(self._hosts.items())]

    async def events(self, *kinds: str) -> list[str]:
        told, self._told = self._told, []
        return [line for line in told if line.split()[1].startswith(kinds or "")]

    def _of_each(self, name: str, look: Any) -> list[str]:
        return [
            f"{at}: {look(node.store.copies[name]) if name in node.store.copies else 'no copy'}"
            for at, node in sorted(self._hosts.items())
        ]


def value(word: str) -> Any:
    try:
        return ast.literal_eval(word)
    except (SyntaxError, ValueError):
        return word.split(",") if "," in word else word


def contents(table: LocalTable | OwnedTable | SharedTable) -> dict[str, Any]:
    if isinstance(table, OwnedTable):
        return {f"{key}@{owner}": row for owner, key, row in sorted(table.rows(), key=str)}
    return dict(sorted(table.rows().items(), key=str))
