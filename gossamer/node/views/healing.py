"""The API's view of splits and heals, and commands to the healer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from gossamer.api import Alarms
from gossamer.api.model.cluster import (
    AlarmInfo,
    AlarmRequest,
    HealEpisode,
    HealPlanInfo,
    HealSettings,
    HealStatusInfo,
    PartitionInfo,
    QuarantinedRow,
)
from gossamer.autoheal import (
    AUTOHEAL,
    ChangeSetting,
    DryRun,
    HealPlan,
    HealStatus,
    Incident,
    Kept,
    Replay,
    describe,
)
from gossamer.clock import HybridLogicalClock
from gossamer.errors import GossamerError
from gossamer.node.parts import NodeParts
from gossamer.node.views.readiness import ReadinessCheck

_PATIENCE = 10.0
_SHOWN = 80


class Healing:
    """Implements :class:`gossamer.api.HealingView`."""

    def __init__(self, node: NodeParts, readiness: ReadinessCheck) -> None:
        self._node = node
        self._readiness = readiness
        self._of_others = Alarms()

    def status(self) -> HealStatusInfo:
        """Return the state of autoheal, as this node knows it."""
        status = self._node.healing
        return HealStatusInfo(
            name=self._node.name,
            autoheal=status.autoheal,
            autoclean=status.autoclean,
            phase=status.phase,
            leader=status.leader,
            open=tuple(map(PartitionInfo.model_validate, status.open)),
            plan=None if status.plan is None else _plan(status.plan),
            down={name: round(seconds, 1) for name, seconds in status.down.items()},
            cleaned={cleaned.member: cleaned.at for cleaned in status.cleaned},
            heals=len(status.history),
            quarantined=len(status.quarantine),
            quarantine_dropped=status.quarantine.dropped,
        )

    def history(self) -> Sequence[HealEpisode]:
        """Splits that were healed, latest last."""
        return [_incident(episode) for episode in self._node.healing.history]

    def alarms(self) -> Sequence[AlarmInfo]:
        """Those that last first, then what was healed, latest first."""
        handoff = self._node.broker.handoff
        overflows = () if handoff is None else handoff.hint_store.alarms()
        return [
            *(
                AlarmInfo(name="kept_overflow", active=True, since=since, until=0.0, text=text)
                for since, text in overflows
            ),
            *self._readiness.alarms(),
            *self._of_others.alarms(),
            *_alarms(self._node.healing),
        ]

    def order_alarm(self, order: AlarmRequest) -> AlarmInfo:
        """Raise or clear an alarm for a program beside the cluster."""
        return self._of_others.order(order, self._node.clock.wall())

    def quarantine(self) -> Iterator[QuarantinedRow]:
        """The rows of this node's quarantine."""
        return (_row(kept) for kept in list(self._node.healing.quarantine) if kept.real)

    async def rehearse(self) -> HealPlanInfo:
        """Return the plan of a heal now, as a dry run."""
        plan: HealPlan | None = await self._ask(DryRun())
        return HealPlanInfo(id="dry run", split=False) if plan is None else _plan(plan)

    async def replay(self, id: str) -> QuarantinedRow:  # noqa: A002 - the operator's word
        """Write a row of the quarantine again."""
        return _row(await self._ask(Replay(id)))

    async def configure(self, settings: HealSettings) -> HealStatusInfo:
        """Change what ``settings`` names."""
        if "autoheal" in settings.model_fields_set:
            await self._ask(ChangeSetting("autoheal", settings.autoheal))
        if "autoclean" in settings.model_fields_set:
            await self._ask(ChangeSetting("autoclean", settings.autoclean))
        return self.status()

    async def _ask(self, request: object) -> Any:
        answer = await self._node.runtime.call(AUTOHEAL, request, timeout=_PATIENCE)
        if isinstance(answer, GossamerError):
            raise answer
        return answer


def _alarms(status: HealStatus) -> Iterator[AlarmInfo]:
    """``partition`` for each pair of this node that is not healed; ``healed`` for each heal that was."""
    healer = "autoheal is off" if status.autoheal is None else "autoheal will make them one"
    for pair in status.open:
        yield AlarmInfo(
            name="partition",
            active=True,
            since=pair.down_at,
            until=0.0,
            text=f"{status.node} and {pair.peer} held each other for dead for "
            f"{pair.met_at - pair.down_at:.1f} s and have met again; {healer}",
            saw_down={status.node: (pair.peer,)},
        )
    for incident in reversed(status.history):
        yield AlarmInfo(
            name="healed",
            active=False,
            since=incident.split_at,
            until=incident.healed_at,
            text=describe(incident),
            plan=incident.plan,
            saw_down=incident.saw_down,
        )


def _plan(plan: HealPlan) -> HealPlanInfo:
    told = {name: getattr(plan, name) for name in HealPlanInfo.model_fields if name != "split"}
    return HealPlanInfo(split=True, **told)


def _incident(episode: Incident) -> HealEpisode:
    return HealEpisode.model_validate({**asdict(episode), "text": describe(episode)})


def _row(kept: Kept) -> QuarantinedRow:
    wall = HybridLogicalClock.wall_of
    return QuarantinedRow(
        id=kept.id,
        table=kept.table,
        key=_short(kept.key),
        value=_short(kept.value[0]) if kept.value else "",
        deleted=not kept.value,
        author=kept.version[1],
        written_at=wall(kept.version[0]),
        lost_to=kept.winner[1],
        lost_to_at=wall(kept.winner[0]),
        policy=kept.policy,
        plan=kept.plan,
        at=kept.at,
    )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
