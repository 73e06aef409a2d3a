"""The launches of profile/profile's JSON as points of a roofline: FLOP per byte on x, FLOP/s on y."""
from __future__ import annotations


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def roof(device: dict, intensity: float | None) -> float | None:
    """The most FLOP/s that the GPU can reach with this many FLOP per byte of DRAM traffic."""
    peak, bandwidth = device["peak_flop_per_second"], device["peak_dram_bytes_per_second"]
    return None if None in (peak, bandwidth, intensity) else min(peak, bandwidth * intensity)


def ridge(device: dict) -> float | None:
    """The FLOP per byte above which the arithmetic is the limit, below which the memory is."""
    return _quotient(device["peak_flop_per_second"], device["peak_dram_bytes_per_second"])


def _point(launch: dict, device: dict) -> dict:
    counted = launch["metrics"]
    flop, seconds = counted["flop"], counted["duration_seconds"]
    intensity = _quotient(flop, counted["dram_bytes"])
    return {"case": launch["case"], "kernel": launch["kernel"], "flop": flop, "seconds": seconds,
            "dram_bytes": counted["dram_bytes"], "l2_bytes": counted["l2_bytes"],
            "dram_intensity": intensity, "l2_intensity": _quotient(flop, counted["l2_bytes"]),
            "flop_per_second": _quotient(flop, seconds), "roof_flop_per_second": roof(device, intensity)}


def points(document: dict) -> list[dict]:
    """A point for each launch, in the document's order. FLOP and bytes come from the counters; None where one is
    missing. The roof is DRAM's: the chip does not report the peak of its L2."""
    return [_point(launch, document["device"]) for launch in document["launches"]]
