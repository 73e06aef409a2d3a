"""What the facts share: how a time is told, and the ends of a list of numbers."""
from __future__ import annotations

import re
import statistics

from ..spread import Spread


def timing(seconds: Spread, work=None) -> dict:
    facts = {"ms": seconds.mid * 1e3, "ms_p20": seconds.low * 1e3, "ms_p80": seconds.high * 1e3,
             "best_ms": seconds.best * 1e3, "seconds": seconds.mid, "samples": seconds.count,
             "spread_pct": 100 * (seconds.high - seconds.low) / seconds.mid}
    if work is not None:
        facts["tflops"] = work * 1e-12 / seconds.mid
    return facts


def extremes(values: dict[str, float]) -> dict:
    """The smallest and the largest with their names, and the median."""
    least, most = min(values, key=values.get), max(values, key=values.get)
    return {"least": {"case": least, "value": values[least]}, "most": {"case": most, "value": values[most]},
            "median": statistics.median(values.values()), "count": len(values)}


def name_of(text):
    """As a part of a path: '4,16384,128' becomes 4x16384x128, '1 stream' 1_stream."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text.replace(",", "x")).strip("_")
