"""The page of what a node reports: its event log, alarms, and the schema of the flow recorder."""

from __future__ import annotations

from gossamer.api import OWN_ALARMS
from gossamer.audit.schema import COLUMNS, EVENTS, PARTITION_KEYS, VERSION
from gossamer.node import HAPPENINGS
from script.references.markdown import cell, code, flow, table

_HEAD = """
# Events and alarms

## What happened at a node

`GET /api/v1/events` has the last things that a node's own processes saw, numbered by `serial`; drills and
scripts read there when something was. The fields are those of [EventInfo](http.md#eventinfo).
"""

_ALARMS = """
## Alarms

`gossamer alarms`, `GET /api/v1/alarms` and the console show what an operator has to know;
`gossamer_alarm_active` counts those that last. A node raises these by itself; programs beside the cluster
raise others by `POST /api/v1/alarms`, under names of their own.
"""

_AUDIT = f"""
## What the flow recorder writes

Version {VERSION}: Parquet, one row an event at one node, in directories by
{", ".join(code(f"{key}=…") for key in PARTITION_KEYS)}. A version only ever adds columns that may be null and
kinds of events. How it is written and asked: [Audit](../design/audit.md).

### Kinds of events

Every event has the columns that are marked as always there; the others are named here.
"""


def events_page() -> str:
    """Three vocabularies, each from the module that defines it."""
    parts = [
        flow(_HEAD),
        table(("kind", "happened"), ((code(kind), cell(meaning)) for kind, meaning in HAPPENINGS.items())),
        flow(_ALARMS),
        table(("alarm", "means"), ((code(name), cell(meaning)) for name, meaning in OWN_ALARMS.items())),
        flow(_AUDIT),
        table(
            ("event", "when", "columns"),
            (
                (code(event.name), cell(event.meaning), " ".join(map(code, event.columns)) or "–")
                for event in sorted(EVENTS, key=lambda event: event.name)
            ),
        ),
        "### Columns\n",
        table(
            ("column", "type", "always", "holds"),
            (
                (code(column.name), column.type, "yes" if column.required else "", cell(column.meaning))
                for column in COLUMNS
            ),
        ),
    ]
    return "\n".join(parts)
