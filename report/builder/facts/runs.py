"""Whole runs from file to file; the sequential program; the CPU engine."""
from __future__ import annotations

import statistics

from ..measured_cpu import contracts_on_cpu
from ..needs import needs
from ..schema import STAGES
from ..spread import Spread
from .common import extremes, name_of, timing


def files(data):
    tree = {"runs": data.files["runs"]}
    ratios = {"context": {}, "plain": {}}
    totals = dict.fromkeys(("context", "plain", "hw4"), 0.0)
    for record in data.files["cases"]:
        spreads = {name: Spread.of(samples) for name, samples in record["seconds"].items()}
        stages = record["stages"]
        start = stages["driver_seconds"] + stages["context_seconds"]
        facts = {name_of(name): timing(spread) for name, spread in spreads.items()}
        facts["of_context"] = spreads["hw4"].mid / spreads["context"].mid
        facts["of_plain"] = spreads["hw4"].mid / spreads["plain"].mid
        facts["best_of_context"] = spreads["hw4"].best / spreads["context"].best
        facts["best_of_plain"] = spreads["hw4"].best / spreads["plain"].best
        facts["input_mb"], facts["output_mb"] = stages["read_bytes"] * 1e-6, stages["write_bytes"] * 1e-6
        facts["stage_ms"] = {stage: stages[f"{stage}_seconds"] * 1e3 for stage in STAGES}
        facts["start_ms"], facts["work_ms"] = start * 1e3, (stages["total_seconds"] - start) * 1e3
        facts["total_ms"] = stages["total_seconds"] * 1e3
        facts["outside_ms"] = (spreads["hw4"].mid - stages["total_seconds"]) * 1e3
        facts["overlap"] = stages["overlap"]
        for name in ("streams", "copies", "readers", "writers", "chunk_batches"):
            facts[name] = stages[name]
        for name in ("staging", "host_peak", "device_peak"):
            facts[f"{name}_mb"] = stages[f"{name}_bytes"] * 1e-6
        tree[record["name"]] = facts
    for record in data.file_cases:
        for name in ratios:
            ratios[name][record["name"]] = tree[record["name"]][f"of_{name}"]
        for name in totals:
            totals[name] += Spread.of(record["seconds"][name]).mid
    tree["of_context"], tree["of_plain"] = extremes(ratios["context"]), extremes(ratios["plain"])
    tree["total"] = {f"{name}_seconds": seconds for name, seconds in totals.items()}
    tree["total"]["of_plain"], tree["total"]["of_context"] = (totals["hw4"] / totals[name]
                                                              for name in ("plain", "context"))
    memory = data.files["memory"]
    tree["memory"] = {"case": memory["case"], "hw4_mb": memory["hw4_bytes"] * 1e-6,
                      "context_mb": memory["context_bytes"] * 1e-6, "beyond_mb": memory["beyond_bytes"] * 1e-6}
    return tree


def pipeline(data):
    """The two traces of t22."""
    tree = {}
    for streams in (4, 1):
        trace = data.trace(streams)
        context = trace.last("context") or 0.0
        tree[f"streams{streams}"] = {"total_ms": trace.end, "context_ms": context,
                                     "after_context_ms": trace.end - context,
                                     "busy_ms": {stage: trace.busy(stage) for stage in trace.stages()},
                                     "share": {f"{who}s_pct": 100 * trace.share(who, context)
                                               for who in ("reader", "writer", "stream")}}
    tree["gain"] = tree["streams1"]["after_context_ms"] / tree["streams4"]["after_context_ms"]
    return tree


def steps(data):
    """By number, from 1; the last also by that name."""
    tree = {"case": data.steps["case"], "count": len(data.steps["steps"])}
    for number, step in enumerate(data.steps["steps"], 1):
        tree[str(number)] = {"label": step["label"], "kernel": step["kernel"], "streams": step["streams"],
                             **timing(Spread.of(step["seconds"])),
                             "kernel_ms": statistics.median(step["kernel_seconds"]) * 1e3}
    first, last = tree["1"], tree[str(tree["count"])]
    tree["last"] = last
    tree["gain"] = first["ms"] / last["ms"]
    tree["kernel_gain"] = first["kernel_ms"] / last["kernel_ms"]
    return tree


def sequential(data):
    tree = {"processor": data.sequential["machine"]["processor"], "kernel": {}, "files": {}}
    kernel, whole = {}, {}
    for case in data.cases:
        seconds = data.sequential_seconds(case.name).mid
        tree[case.name] = {"seconds": seconds, "gflops": case.flop * 1e-9 / seconds}
        kernel[case.name] = tree[case.name]["kernel_speed_up"] = seconds / case.hw4.mid
        files_seconds = Spread.of(data.file_case(case.name)["seconds"]["hw4"]).mid
        whole[case.name] = tree[case.name]["files_speed_up"] = seconds / files_seconds
    tree["kernel"], tree["files"] = extremes(kernel), extremes(whole)
    return tree


def cpu(data):
    tree = {"processor": data.cpu["machine"]["processor"], "processors": data.cpu["machine"]["processors"],
            "threads": data.cpu["cases"][0]["threads"], "kernel": data.cpu["cases"][0]["kernel"]}
    over = {"torch": {}, "seq": {}}
    for case in data.cpu["cases"]:
        spreads = {who: Spread.of(samples) for who, samples in case["seconds"].items() if samples}
        tree[case["case"]] = {who: {**timing(spread), "gflops": case["flop"] * 1e-9 / spread.mid}
                              for who, spread in spreads.items()}
        for who in over:
            if who in spreads:
                over[who][case["case"]] = tree[case["case"]][f"over_{who}"] = spreads[who].mid / spreads["hw4"].mid
    for who, ratios in over.items():
        if ratios:
            tree[f"over_{who}"] = extremes(ratios)
    return tree


@needs("cpu_contracts.json")
def cpu_contracts(data):
    """By contract: its time and rate, and PyTorch's time over it."""
    cases = contracts_on_cpu(data)
    return {"threads": cases[0].record["threads"], "case": cases[0].record["case"],
            **{case.record["contract"]: {**timing(case.seconds("hw4"), case.record["flop"]),
                                         "over_torch": case.over_torch("hw4")} for case in cases}}


FACTS = {"cpu_contracts": cpu_contracts}
