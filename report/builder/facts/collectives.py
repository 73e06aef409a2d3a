"""Sums over ranks: in an order beside MPI's, and in buckets beside one call."""
from __future__ import annotations

import dataclasses

from ..errors import Failed
from ..needs import needs
from .common import extremes

LONG_BYTES = 100 << 20  # of vectors that are called long
ONE_STEP = ("cs336-xl",)  # models of which a single step is timed: their ratios are no ratios


@dataclasses.dataclass(frozen=True)
class Place:
    device: str
    ranks: int
    size: int

    @property
    def text(self) -> str:
        return f"{self.size / (1 << 20):g} MiB, {self.ranks} ranks, {self.device}"


@needs("collectives.json")
def collectives(data):
    ordered = required(ordered_over_mpi(data), "allreduce: no sum by mpi and ordered")
    by_length = {"short": {place: ratio for place, ratio in ordered.items() if place.size < LONG_BYTES},
                 "long": {place: ratio for place, ratio in ordered.items() if place.size >= LONG_BYTES}}
    return {"long_mib": LONG_BYTES >> 20,
            "ordered_over_mpi": {length: extremes({place.text: ratio for place, ratio in required(
                ratios, f"allreduce: no {length} sum by mpi and ordered").items()})
                                 for length, ratios in by_length.items()},
            "overlapped_over_flat": extremes(required(over_one_call(data, "overlapped"),
                                                      "gradients: none flat and overlapped"))}


def required(found, what):
    if not found:
        raise Failed(f"collectives.json: {what} ran")
    return found


def ordered_over_mpi(data):
    """How many times as fast, by size, ranks and device."""
    rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
             for row in data.collectives["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
    return {Place(device, ranks, size): rate / rates[device, ranks, size, "mpi"]
            for (device, ranks, size, via), rate in rates.items()
            if via == "ordered" and (device, ranks, size, "mpi") in rates}


def over_one_call(data, way):
    """How many times as fast the fastest of a way is as one call for all, by model, ranks and library."""
    steps = {}
    for row in data.collectives["gradients"]:
        if row["status"] == "ok" and "via" in row and row["model"] not in ONE_STEP:
            by_way = steps.setdefault((row["model"], row["ranks"], row["via"]), {})
            by_way.setdefault(row["way"], []).append(row["step_s"])
    return {f"{model}, {ranks} ranks, {via}": ways["flat"][0] / min(ways[way])
            for (model, ranks, via), ways in steps.items() if {"flat", way} <= set(ways)}


FACTS = {"collectives": collectives}
