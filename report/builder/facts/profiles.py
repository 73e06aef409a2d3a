"""What the profiler counted."""
from __future__ import annotations

from ..measured import flop

# Counters that are whole numbers, whatever JSON makes of them.
COUNTS = ("registers", "shared_bytes_per_block", "block_threads", "grid_blocks", "instructions",
          "shared_load_instructions", "shared_load_wavefronts", "shared_load_conflicts", "shared_store_conflicts",
          "local_load_instructions")


def waiting(launch):
    """Warps by reason, without those that were ready while another was issued: they wait for nothing."""
    return {reason: warps for reason, warps in launch["stalls"].items()
            if warps is not None and reason not in ("selected", "not_selected")}


def of_launch(launch):
    """Metrics in the units of prose: GB/s, KiB, percent; and what follows from them."""
    metrics = launch["metrics"]
    facts = {}
    for key, value in metrics.items():
        if key.endswith("_bytes_per_second"):
            facts[key.replace("_bytes_per_second", "_gb_per_second")] = None if value is None else value * 1e-9
        elif key in COUNTS and value is not None:
            facts[key] = round(value)
        else:
            facts[key] = value
    ratio = lambda top, bottom: None if top is None or not bottom else top / bottom  # noqa: E731
    get = metrics.get
    facts["duration_ms"] = None if get("duration_seconds") is None else get("duration_seconds") * 1e3
    facts["wavefronts_per_load"] = ratio(get("shared_load_wavefronts"), get("shared_load_instructions"))
    facts["conflicts_per_load"] = ratio(get("shared_load_conflicts"), get("shared_load_instructions"))
    facts["shared_kib"] = ratio(get("shared_bytes_per_block"), 1024)
    work = flop(launch["batches"], launch["tokens"], launch["dim"])
    facts["flop_per_l2_byte"] = ratio(work, get("l2_bytes"))
    facts["flop_per_dram_byte"] = ratio(work, get("dram_bytes"))
    facts["dram_mb"] = ratio(get("dram_bytes"), 1e6)
    stalls = {reason: value for reason, value in launch["stalls"].items() if value is not None and reason != "selected"}
    facts["stalls"] = stalls
    facts["stalls_total"] = float(sum(stalls.values()))
    for place, reason in enumerate(sorted(waiting(launch), key=stalls.get, reverse=True)[:3], 1):
        facts[f"stall{place}"] = {"name": reason.replace("_", " "), "warps": stalls[reason]}
    return facts


def profile(data):
    """By rung, on t28."""
    return {kernel: of_launch(data.launch(kernel)) for kernel in data.rungs}


def profile_of_cases(data):
    """By case and rung."""
    tree = {}
    for launch in data.profile_of_cases["launches"]:
        tree.setdefault(launch["case"], {})[launch["kernel"]] = of_launch(launch)
    return tree
