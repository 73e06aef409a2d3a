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


SHARED_BYTES_PER_CYCLE = 128  # of a multiprocessor's 32 banks
LANES, FLOP_PER_FMA = 32, 2


def of_launch(launch, device):
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
    products = work / (LANES * FLOP_PER_FMA)  # instructions that the two products cannot do without
    facts["flop_over_formula"] = ratio(get("flop"), work)
    facts["loads_per_fma"] = ratio(get("shared_load_instructions"), products)
    facts["product_share_pct"] = ratio(100 * products, get("instructions"))
    facts["shared_pipe_pct"] = shared_pipe_pct(metrics, device)
    shares = [get("sm_efficiency_pct"), get("issue_slots_busy_pct"), facts["product_share_pct"]]
    facts["explained_pct"] = None if None in shares else shares[0] * shares[1] * shares[2] * 1e-4
    facts["dram_mb"] = ratio(get("dram_bytes"), 1e6)
    stalls = {reason: value for reason, value in launch["stalls"].items() if value is not None and reason != "selected"}
    facts["stalls"] = stalls
    facts["stalls_total"] = float(sum(stalls.values()))
    for place, reason in enumerate(sorted(waiting(launch), key=stalls.get, reverse=True)[:3], 1):
        facts[f"stall{place}"] = {"name": reason.replace("_", " "), "warps": stalls[reason]}
    return facts


def shared_pipe_pct(metrics, device):
    """How much of the time the banks of shared memory were delivering or taking; None where it was not counted."""
    rates = [metrics.get(f"shared_{what}_bytes_per_second") for what in ("load", "store")]
    if None in rates:
        return None
    return 100 * sum(rates) / (device["multiprocessors"] * SHARED_BYTES_PER_CYCLE * device["clock_hz"])


def profile(data):
    """By rung, on t28."""
    return {kernel: of_launch(data.launch(kernel), data.profile["device"]) for kernel in data.rungs}


def profile_of_cases(data):
    """By case and rung."""
    tree = {}
    for launch in data.profile_of_cases["launches"]:
        tree.setdefault(launch["case"], {})[launch["kernel"]] = of_launch(launch, data.profile_of_cases["device"])
    return tree
