"""Rates and ratios of a case of report/bench_rounds, which has the seconds of every round by who took them."""
from __future__ import annotations

import statistics


def rate(record, who):
    """TFLOP/s, by the median of the rounds."""
    return record["flop"] / statistics.median(record["seconds"][who]) * 1e-12


def over(record, who, other):
    """How many times as fast as another, by the median of the rounds' own ratios."""
    return statistics.median(theirs / its for its, theirs in zip(record["seconds"][who], record["seconds"][other]))
