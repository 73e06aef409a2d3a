"""The GPU on which the launches ran and its peak rates, from ncu's columns."""
from __future__ import annotations

CLOCK = "sm__cycles_elapsed.avg.per_second"
NAME = "device__attribute_display_name"
MULTIPROCESSORS = "device__attribute_multiprocessor_count"
LARGEST_CLOCK = "device__attribute_clock_rate"  # kHz
MEMORY_CLOCK = "device__attribute_memory_clock_rate"  # kHz
MEMORY_BUS = "device__attribute_global_memory_bus_width"  # bits
COLUMNS = (CLOCK, NAME, MULTIPROCESSORS, LARGEST_CLOCK, MEMORY_CLOCK, MEMORY_BUS)

FLOP_PER_FMA = 2
TRANSFERS_PER_CLOCK = 2  # double data rate
FEWER_LANES = {"7.5": 64, "8.0": 64}  # float32 lanes per multiprocessor, by compute capability
LANES = 128  # all others since 7.5


def _product(*factors):
    result = 1
    for factor in factors:
        if factor is None:
            return None
        result *= factor
    return result


def _measured_clock(rows, durations):
    """Total cycles over total seconds, so that long launches count for more."""
    pairs = [(row.number(CLOCK), seconds) for row, seconds in zip(rows, durations)]
    pairs = [(clock, seconds) for clock, seconds in pairs if clock is not None and seconds]
    total = sum(seconds for _, seconds in pairs)
    return sum(clock * seconds for clock, seconds in pairs) / total if total else None


def describe(rows, durations):
    """The `device` of the JSON document. The rows are launches on one GPU, the durations are in seconds."""
    first = rows[0]
    clock, clock_from = _measured_clock(rows, durations), f"{CLOCK} of the launches"
    if clock is None:
        clock, clock_from = _product(first.number(LARGEST_CLOCK), 1000), LARGEST_CLOCK
    lanes = FEWER_LANES.get(first.text("CC"), LANES)
    return {
        "name": first.text(NAME),
        "multiprocessors": first.number(MULTIPROCESSORS),
        "clock_hz": clock,
        "clock_from": clock_from if clock is not None else None,
        "peak_flop_per_second": _product(first.number(MULTIPROCESSORS), lanes, FLOP_PER_FMA, clock),
        "peak_dram_bytes_per_second": _product(first.number(MEMORY_CLOCK), 1000, TRANSFERS_PER_CLOCK,
                                               first.number(MEMORY_BUS), 1 / 8),
    }
