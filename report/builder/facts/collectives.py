"""Sums over ranks: in an order beside MPI's, and in buckets beside one call."""
from __future__ import annotations

from ..needs import needs
from .common import extremes


@needs("collectives.json")
def collectives(data):
    found = [row for row in data.collectives["allreduce"] if row["status"] == "ok" and row["ranks"] > 1]
    rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"] for row in found}
    ordered = {f"{size >> 20} MiB, {ranks} ranks, {device}": rate / rates[device, ranks, size, "mpi"]
               for (device, ranks, size, via), rate in rates.items() if via == "ordered"}
    return {"ordered_over_mpi": extremes(ordered), "overlapped_over_flat": extremes(gains_of_buckets(data))}


def gains_of_buckets(data):
    """The fastest bucket's over one call, by model, ranks and library."""
    steps = {}
    for row in data.collectives["gradients"]:
        if row["status"] == "ok" and "via" in row:
            steps.setdefault((row["model"], row["ranks"], row["via"]), {}).setdefault(row["way"], []).append(row["step_s"])
    return {f"{model}, {ranks} ranks, {via}": ways["flat"][0] / min(ways["overlapped"])
            for (model, ranks, via), ways in steps.items()}


FACTS = {"collectives": collectives}
