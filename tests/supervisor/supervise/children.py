"""Children that write down when they start and end, and what tests ask of their supervisors."""

from __future__ import annotations

import asyncio

import gossamer.supervisor as otp
from tests.supervisor.harness import Worker, settle


class Probe(Worker):
    """Writes down when it starts and ends."""

    async def init(self, name, events, stop_after=None, ends_with=None):
        otp.trap_exit(True)
        await super().init()
        self.name, self.events = name, events
        self.stop_after, self.ends_with = stop_after, ends_with
        events.append(f"+{name}")

    async def terminate(self, reason):
        if self.stop_after is not None:
            await asyncio.sleep(self.stop_after)
        self.events.append(f"-{self.name}")


def probe(name, events, *, fails=None, stop_after=None, **options):
    """``fails`` is a list; while it holds something, starting pops and fails with it."""

    async def start():
        if fails:
            reason = fails.pop()
            if reason == "ignore":
                raise otp.Ignore
            raise otp.StartFailed(name, reason)
        return await Probe.start_link(name, events, stop_after, name=name)

    return otp.ChildSpec(name, start, **options)


async def crash(name, reason="bad"):
    """End a child and let the supervisor do what it does."""
    pid = otp.whereis(name)
    if reason == "kill":
        otp.exit(pid, "kill")
    else:
        await otp.call(pid, ("stop", reason))
    await settle(100)
    return pid


async def children(sup):
    return [(info.id, info.pid) for info in await otp.Supervisor.which_children(sup)]
