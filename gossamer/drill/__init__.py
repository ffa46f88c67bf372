"""Drills: a cluster of real processes is broken on purpose, under load, and watched while it heals.

::

    plan ─▶ conduct ─▶ back end (starts nodes, breaks the network)    record ─▶ judge ─▶ verdicts
              ├─▶ load (MQTT clients)  ─▶ tally                              └▶ html (a page)
              └─▶ watch (the nodes' own histories) ─▶ marks

``await conduct(plan)`` carries a drill out and judges it; ``html(record)`` makes a page of it;
``run_suite(suite_plans(…), …)`` does so with all drills there are. What brings
the broker along is imported when it is first used, so that the command starts fast.
"""

from typing import TYPE_CHECKING

from gossamer.drill.backend import Ability, BackEnd, BackEndError, ClusterSpec, DrillNode, LinkFault
from gossamer.drill.record import DrillRecord, Plan, read_record, record_json
from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.drill.conductor import backend_of, conduct, unnamed
    from gossamer.drill.promises import judge
    from gossamer.drill.report import html, suite_html
    from gossamer.drill.runner import Progress, StepName
    from gossamer.drill.suite import SuiteResult, choose_plans, run_suite, suite_json, suite_plans
    from gossamer.drill.summary import Summary
    from gossamer.drill.words import name_of, verdict_in_words

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
    "SuiteResult",
    "Summary",
    "backend_of",
    "choose_plans",
    "conduct",
    "html",
    "judge",
    "name_of",
    "read_record",
    "record_json",
    "run_suite",
    "suite_html",
    "suite_json",
    "suite_plans",
    "unnamed",
    "verdict_in_words",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "conductor": ("backend_of", "conduct", "unnamed"),
        "promises": ("judge",),
        "report": ("html", "suite_html"),
        "runner": ("Progress", "StepName"),
        "suite": ("SuiteResult", "choose_plans", "run_suite", "suite_json", "suite_plans"),
        "summary": ("Summary",),
        "words": ("name_of", "verdict_in_words"),
    },
)
