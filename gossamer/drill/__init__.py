"""Drills: a cluster of real processes is broken on purpose, under load, and observed while it heals.

::

    plan ─▶ conduct ─▶ back end (starts nodes, breaks the network)    record ─▶ judge ─▶ verdicts
              ├─▶ load (MQTT clients)  ─▶ tally                              └▶ html (a page)
              └─▶ watch (the nodes' own histories) ─▶ marks

``await conduct(plan)`` runs a drill and judges it; ``html(record)`` renders its report page;
``run_suite(suite_plans(…), …)`` runs all drills. :mod:`gossamer.drill.record` defines the record of a drill.
Modules that import the broker are loaded on first use, so that the command starts fast.
"""

from typing import TYPE_CHECKING

from gossamer.drill.record import unnamed
from gossamer.lazy import lazy

if TYPE_CHECKING:
    from gossamer.drill.report.page import html, suite_html
    from gossamer.drill.report.words import Summary, figures, happened, name_of, verdict_in_words
    from gossamer.drill.run.runner import Progress, StepName, backend_of, conduct
    from gossamer.drill.run.suite import SuiteResult, choose_plans, run_suite, suite_json, suite_plans

__all__ = [
    "Progress",
    "StepName",
    "SuiteResult",
    "Summary",
    "backend_of",
    "choose_plans",
    "conduct",
    "figures",
    "happened",
    "html",
    "name_of",
    "run_suite",
    "suite_html",
    "suite_json",
    "suite_plans",
    "unnamed",
    "verdict_in_words",
]

__getattr__, __dir__ = lazy(__name__)
