"""The forms of ids, names and times that an order holds, and what each is called where another one came.

Plain values, without the machinery of the schema: the command checks by them before it asks a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ROW_ID = r"^[0-9a-f]{12}$"
"""Of a token, or a row of the quarantine."""
RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Of a drill or an audit; it is the name of a directory, and leads nowhere else."""
ALARM_NAME = r"^[a-z][a-z0-9_.-]{0,63}$"
TOKEN_NAME = r"^[A-Za-z0-9_.@ -]{1,100}$"  # noqa: S105 - a form, no secret
QUEUE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
QUEUE_KEY = r"^([^$+#\x00][^+#\x00]*)?$"
"""What may stand behind ``$queue/NAME/``, as MQTT has it for topics."""
MOMENT = (
    r"^(now|today|yesterday|\d{1,6} ?[smhdw]( ago)?"
    r"|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?)$"
)
"""UTC where it names no zone."""

FORMS: Mapping[str, str] = {
    ROW_ID: "an id as the list shows it: 12 digits of 0-9 and a-f",
    RUN_ID: "an id as the list shows it: letters, digits and . _ -",
    ALARM_NAME: "a name in lower case, such as backup.late",
    TOKEN_NAME: "up to 100 letters, digits, spaces and . _ @ -",
    QUEUE_NAME: "a name of letters, digits, '_', '.' and '-', 63 at most",
    QUEUE_KEY: "a key without + and #, and without $ at its beginning",
    MOMENT: "a time such as 2026-01-31T07:00, 6h, 2d ago, yesterday or now",
}
"""Each in words."""

Job = Literal[
    "report", "completeness", "latency", "routes", "partitions", "hotspots", "sessions", "anomalies", "queues"
]
Promise = Literal[
    "lost",
    "doubled",
    "late",
    "misrouted",
    "undecidable",
    "missing",
    "stale",
    "unneeded",
    "flapping",
    "lost_jobs",
    "doubled_jobs",
    "undecidable_jobs",
]
