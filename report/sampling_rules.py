"""The rules of src/bench/sampling.h: how often to launch a kernel to time it; and samples of what PyTorch does."""
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


def warm_up(sample) -> float:
    """Seconds of the fastest launch but for the first. sample(k) takes a sample of k launches and returns the seconds
    of one."""
    sample(1)
    busy = least = sample(1)
    while busy < WARM_UP_SECONDS:
        seconds = sample(1)
        busy, least = busy + seconds, min(least, seconds)
    return least


class EventSampler:
    """Seconds of a step, of so many in a row, between two CUDA events."""

    def __init__(self, torch, step):
        self._torch, self._step = torch, step

    def run(self, launches: int):
        for _ in range(launches):
            self._step()

    def __call__(self, launches: int) -> float:
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run(launches)
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / launches
