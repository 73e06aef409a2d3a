"""The GPU on which the launches ran and its peak rates, from ncu's columns; and the launches of profile/profile's JSON as
points under these roofs: FLOP per byte on x, FLOP/s on y."""
from __future__ import annotations

from metrics import quotient

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


def roof(device: dict, intensity: float | None) -> float | None:
    """The most FLOP/s that the GPU can reach with this many FLOP per byte of DRAM traffic."""
    peak, bandwidth = device["peak_flop_per_second"], device["peak_dram_bytes_per_second"]
    return None if None in (peak, bandwidth, intensity) else min(peak, bandwidth * intensity)


def ridge(device: dict) -> float | None:
    """The FLOP per byte above which the arithmetic is the limit, below which the memory is."""
    return quotient(device["peak_flop_per_second"], device["peak_dram_bytes_per_second"])


def _point(launch: dict, device: dict) -> dict:
    counted = launch["metrics"]
    flop, seconds = counted["flop"], counted["duration_seconds"]
    intensity = quotient(flop, counted["dram_bytes"])
    return {"case": launch["case"], "kernel": launch["kernel"], "flop": flop, "seconds": seconds,
            "dram_bytes": counted["dram_bytes"], "l2_bytes": counted["l2_bytes"],
            "dram_intensity": intensity, "l2_intensity": quotient(flop, counted["l2_bytes"]),
            "flop_per_second": quotient(flop, seconds), "roof_flop_per_second": roof(device, intensity)}


def points(document: dict) -> list[dict]:
    """A point for each launch, in the document's order. FLOP and bytes come from the counters; None where one is
    missing. The roof is DRAM's: the chip does not report the peak of its L2."""
    return [_point(launch, document["device"]) for launch in document["launches"]]
