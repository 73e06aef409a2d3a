"""Samples and their spread: the median, and the range from p20 to p80, which contains six of ten samples."""
from __future__ import annotations

import dataclasses
import statistics

MOST_DRIFT = 0.02


def percentile(samples: list[float], share: float) -> float:
    """Interpolates between neighbouring samples."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def drifts(samples: list[float]) -> bool:
    """Whether the last half of the samples differs by more than 2 % from the first: then no median is meaningful."""
    half = max(1, len(samples) // 2)
    return abs(statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1) > MOST_DRIFT


@dataclasses.dataclass(frozen=True)
class Spread:
    low: float  # p20
    mid: float  # median
    high: float  # p80
    count: int

    @staticmethod
    def of(samples: list[float]) -> Spread:
        return Spread(*(percentile(samples, share) for share in (0.2, 0.5, 0.8)), len(samples))

    def times(self, factor: float) -> Spread:
        return Spread(self.low * factor, self.mid * factor, self.high * factor, self.count)

    def under(self, numerator: float) -> Spread:
        """numerator / samples: turns times into rates."""
        return Spread(numerator / self.high, numerator / self.mid, numerator / self.low, self.count)
