"""Drills: a cluster of real processes is broken on purpose, under load, and watched while it heals.

::

    plan ─▶ runner ─▶ back end (starts nodes, breaks the network)     record ─▶ promises ─▶ verdicts
              ├─▶ load (MQTT clients)  ─▶ tally                              └▶ report (HTML)
              └─▶ watch (the nodes' own histories) ─▶ marks

``runner.run(plan, backend, directory=…, on_event=…) -> DrillRecord`` carries a drill out;
``promises.judge(record) -> tuple[Verdict, ...]`` says what was kept;
``report.html(record) -> str`` makes a page of it.
"""

from gossamer.drill.backend import Ability, BackEnd, BackEndError, ClusterSpec, DrillNode, LinkFault
from gossamer.drill.record import DrillRecord, Plan, read_record, record_json

__all__ = [
    "Ability",
    "BackEnd",
    "BackEndError",
    "ClusterSpec",
    "DrillNode",
    "DrillRecord",
    "LinkFault",
    "Plan",
    "read_record",
    "record_json",
]
