"""The rules of src/bench/sampling.h: how often to launch a kernel to time it."""
from __future__ import annotations

import math

WARM_UP_SECONDS = 0.1
SAMPLE_SECONDS = 0.01
MOST_LAUNCHES = 1000
SLOW_SAMPLE = 0.05
LEAST_RUNS = 3


def launches_for(launch_seconds: float) -> int:
    if launch_seconds <= 0:
        return MOST_LAUNCHES
    return min(MOST_LAUNCHES, max(1, math.ceil(SAMPLE_SECONDS / launch_seconds)))


def runs_for(sample_seconds: float, runs: int) -> int:
    if sample_seconds <= SLOW_SAMPLE:
        return runs
    return min(runs, max(LEAST_RUNS, int(runs * SLOW_SAMPLE / sample_seconds)))
