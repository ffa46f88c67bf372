"""Supervisors by script: what starts and stops, and when. One file of ``scenarios`` a theme.

A block is one scenario, opened by a sentence on what it shows. Each line is a command; after ``=>`` stands
what it led to: starts (``+a``) and ends (``-a``) of children in order, the seconds that it took where it is
no ``wait``, the error that it raised, and the end of the supervisor. To write scripts anew: ``scripts``.

::

    start STRATEGY [key=value …] CHILD …     also ``dynamic``; ``backoff`` stands for waits of 1, 2, 4 s
    CHILD: name[:restart][*]                 a star: significant; ``name~9/2`` takes 9 s to stop, has 2
    kill a    end a REASON    shutdown       of children, and of the supervisor by its parent
    fail a [TIMES]    ignore a    heal a     how it starts next; it starts well again
    add CHILD    terminate a    restart a    delete a
    wait SECONDS    states    counts    suspend    resume
"""

from __future__ import annotations

import ast
import asyncio
import random
import re
from pathlib import Path

import gossamer.supervisor as otp
from tests.scripts import commands, compare, scripted
from tests.supervisor.harness import settle
from tests.supervisor.supervise.children import probe

STEADY = otp.Backoff(initial=1.0, maximum=8.0, jitter=0.0, reset_after=100.0)
CHILD = re.compile(r"(\w+?)(?::(\w+))?(\*)?(?:~([\d.]+))?(?:/(\w+))?$")


@scripted(Path(__file__).parent / "scenarios")
async def test_scenario(rt, file, block):
    otp.trap_exit(True)
    scene = Scene(rt)
    compare(file, block, [await scene.run(*words) for words in commands(block)])


class Scene:
    """One supervisor and what became of its children."""

    def __init__(self, rt):
        self.rt = rt
        self.kind, self.sup, self.ended = otp.Supervisor, None, False
        self.events, self.fails = [], {}

    async def run(self, verb="", *words):
        """Carry out one line; what it led to, as text."""
        if not verb:
            return ""
        begun = self.rt.loop.time()
        try:
            said = await getattr(self, verb)(*words)
        except Exception as error:  # noqa: BLE001 - which one it is, the script says
            said = type(error).__name__
        await settle(100)
        took = self.rt.loop.time() - begun
        answer = [*self.events, *([said] if said else [])]
        del self.events[:]
        if took and verb != "wait":
            answer.append(f"after {took:g} s")
        if self.sup is not None and not self.ended and not self.rt.alive(self.sup):
            self.ended = True
            end = await otp.receive(match=lambda m: isinstance(m, otp.Exit) and m.source == self.sup)
            left = len(self.rt.processes()) - 1
            answer.append(f"ended: {end.reason}" + (f", {left} left" if left else ""))
        return " ".join(answer)

    def child(self, word):
        name, restart, star, stop_after, shutdown = CHILD.match(word).groups()
        options = {"fails": self.fails.setdefault(name, []), "significant": bool(star)}
        if restart:
            options["restart"] = restart
        if stop_after:
            options["stop_after"] = float(stop_after)
        if shutdown:
            options["shutdown"] = shutdown if shutdown.isalpha() or "_" in shutdown else float(shutdown)
        return probe(name, self.events, **options)

    async def start(self, strategy, *words):
        options = {"backoff": STEADY, "rng": random.Random(1)} if "backoff" in words else {}
        options |= {k: _value(v) for k, v in (w.split("=") for w in words if "=" in w)}
        specs = [self.child(word) for word in words if "=" not in word and word != "backoff"]
        if strategy == "dynamic":
            self.kind = otp.DynamicSupervisor
            self.sup = await self.kind.start_link(**options)
            for spec in specs:
                await self.kind.start_child(self.sup, spec)
        else:
            self.sup = await self.kind.start_link(specs, strategy=strategy, **options)

    # -- children

    async def kill(self, *names):
        for name in names:
            otp.exit(otp.whereis(name), "kill")

    async def end(self, name, reason):
        await otp.call(otp.whereis(name), ("stop", reason))

    async def fail(self, name, times="1"):
        self.fails.setdefault(name, []).extend(["no luck"] * int(times))

    async def ignore(self, name):
        self.fails.setdefault(name, []).append("ignore")

    async def heal(self, name):
        self.fails[name].clear()

    # -- the supervisor

    async def add(self, word):
        await self.kind.start_child(self.sup, self.child(word))

    async def terminate(self, name):
        child = name if self.kind is otp.Supervisor else otp.whereis(name)
        await self.kind.terminate_child(self.sup, child)

    async def restart(self, name):
        await otp.Supervisor.restart_child(self.sup, name)

    async def delete(self, name):
        await otp.Supervisor.delete_child(self.sup, name)

    async def shutdown(self):
        ended = self.rt.join(self.sup)
        otp.exit(self.sup, "shutdown")
        await ended

    async def suspend(self):
        await otp.suspend(self.sup)

    async def resume(self):
        await otp.resume(self.sup)

    async def wait(self, seconds):
        await asyncio.sleep(float(seconds))

    async def states(self):
        found = await self.kind.which_children(self.sup)
        runs = {info.id: otp.whereis(info.id) for info in found}
        said = [f"{i.id} {'runs' if i.pid and i.pid == runs[i.id] else i.pid}" for i in found]
        return ", ".join(said) or "none"

    async def counts(self):
        counts = await self.kind.count_children(self.sup)
        return f"{counts.specs} specified, {counts.active} active"


def _value(word):
    try:
        return ast.literal_eval(word)
    except ValueError:
        return word
