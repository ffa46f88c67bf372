"""Drills: a cluster of real processes is broken on purpose, under load, and watched while it heals.

::

    plan ─▶ conduct ─▶ back end (starts nodes, breaks the network)    record ─▶ judge ─▶ verdicts
              ├─▶ load (MQTT clients)  ─▶ tally                              └▶ html (a page)
              └─▶ watch (the nodes' own histories) ─▶ marks

``await conduct(plan)`` carries a drill out and judges it; ``html(record)`` makes a page of it. What brings
the broker along is imported when it is first used, so that the command starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gossamer.drill.backend import Ability, BackEnd, BackEndError, ClusterSpec, DrillNode, LinkFault
from gossamer.drill.record import DrillRecord, Plan, read_record, record_json

if TYPE_CHECKING:
    from gossamer.drill.conductor import conduct, unnamed
    from gossamer.drill.promises import judge
    from gossamer.drill.report import html
    from gossamer.drill.runner import Progress, StepName

__all__ = [
    "Ability",
    "BackEnd",
    "BackEndError",
    "ClusterSpec",
    "DrillNode",
    "DrillRecord",
    "LinkFault",
    "Plan",
    "Progress",
    "StepName",
    "conduct",
    "html",
    "judge",
    "read_record",
    "record_json",
    "unnamed",
]

_HOMES = {
    "Progress": "runner",
    "StepName": "runner",
    "conduct": "conductor",
    "html": "report",
    "judge": "promises",
    "unnamed": "conductor",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'gossamer.drill' has no attribute {name!r}")
    value = getattr(import_module(f"gossamer.drill.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
