"""Sums over ranks: in an order beside MPI's, and in buckets beside one call."""
from __future__ import annotations

from ..errors import Failed
from ..needs import needs
from .common import extremes


@needs("collectives.json")
def collectives(data):
    return {"ordered_over_mpi": extremes(required(ordered_over_mpi(data), "allreduce: no sum by mpi and ordered")),
            "overlapped_over_flat": extremes(required(gains_of_buckets(data), "gradients: none flat and overlapped"))}


def required(found, what):
    if not found:
        raise Failed(f"collectives.json: {what} ran")
    return found


def ordered_over_mpi(data):
    """How many times as fast, by size, ranks and device."""
    rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
             for row in data.collectives["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
    return {f"{size / (1 << 20):g} MiB, {ranks} ranks, {device}": rate / rates[device, ranks, size, "mpi"]
            for (device, ranks, size, via), rate in rates.items()
            if via == "ordered" and (device, ranks, size, "mpi") in rates}


def gains_of_buckets(data):
    """The fastest bucket's over one call, by model, ranks and library."""
    steps = {}
    for row in data.collectives["gradients"]:
        if row["status"] == "ok" and "via" in row:
            by_way = steps.setdefault((row["model"], row["ranks"], row["via"]), {})
            by_way.setdefault(row["way"], []).append(row["step_s"])
    return {f"{model}, {ranks} ranks, {via}": ways["flat"][0] / min(ways["overlapped"])
            for (model, ranks, via), ways in steps.items() if {"flat", "overlapped"} <= set(ways)}


FACTS = {"collectives": collectives}
