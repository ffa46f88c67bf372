"""The numbers of one node, gathered from where they are kept.

Rules, which a test holds: 1. Names carry their unit, and it is a base unit: seconds, bytes.  2. Counters end
in ``_total`` and never fall.  3. Labels have few values: nodes, tables, reasons; never clients or topics.
"""

from gossamer.node.metrics.readings import LOOP_WATCH, Census, loop_watch, metrics_of, take_census

__all__ = ["LOOP_WATCH", "Census", "loop_watch", "metrics_of", "take_census"]
