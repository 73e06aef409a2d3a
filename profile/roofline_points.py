"""Where the launches of profile/profile's JSON lie in a roofline: FLOP per byte across, FLOP/s up."""
from __future__ import annotations


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def roof(device: dict, intensity: float | None) -> float | None:
    """FLOP/s that the GPU can reach at most where it does so many FLOP for each byte of DRAM traffic."""
    peak, bandwidth = device["peak_flop_per_second"], device["peak_dram_bytes_per_second"]
    return None if None in (peak, bandwidth, intensity) else min(peak, bandwidth * intensity)


def ridge(device: dict) -> float | None:
    """The FLOP per byte from which the arithmetic, no longer the memory, is the limit."""
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
    """A point for each launch, in the document's order. FLOP and bytes are those of the counters; None where one was
    not there. The roof is the one of DRAM: the chip says nothing about the peak of its L2."""
    return [_point(launch, document["device"]) for launch in document["launches"]]
