"""The garbage collector, set for a program of many small long-lived objects.

CPython looks for cycles after every 700 new objects, and a node with 100,000 processes makes millions
that stay: most of the time of starting them went into looking at them again. Measured, microseconds of
processor time to start and stop one of 1,000 / 10,000 / 50,000 GenServers: 27 / 51 / 85 as Python sets
it, 33 / 40 / 43 with thresholds of 10,000, 20 and 50, 26 / 26 / 25 with the collector off. Off is no choice:
users' code makes cycles. With the 50,000 below, 100 times 1,000 children take 142 times the time, and 157
with 10,000.
"""

from __future__ import annotations

import gc
import time
from typing import Any

from gossamer.histogram import Histogram

__all__ = ["PAUSES", "tune_collector"]

THRESHOLDS = (50_000, 20, 50)

PAUSES = tuple(Histogram() for _ in THRESHOLDS)
"""Histograms of the seconds that garbage collections took, one for each generation."""


def tune_collector() -> None:
    """Collect garbage less often, and exempt what is loaded by now; to be called when a node starts."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _measure not in gc.callbacks:
        gc.callbacks.append(_measure)


_begun = 0.0


def _measure(phase: str, info: dict[str, Any]) -> None:
    global _begun
    if phase == "start":
        _begun = time.perf_counter()
    else:
        PAUSES[info["generation"]].observe(time.perf_counter() - _begun)
