"""The facts: a tree of numbers, texts and counts from the data, which templates name by dotted paths.

A time is ms; a rate tflops; a fraction ..._pct; a ratio has no unit. The ends of a list of numbers are least and most,
each with case and value, and median. A rung of a ladder has speed_up, over the rung before it. `report/build --facts`
prints all facts with their values.
"""
from __future__ import annotations

import re
import statistics

from . import beside, courses, sources, training
from .courses import MIB
from .errors import Failed
from .measured import (BYTE_OPERATIONS, BYTE_PRODUCTS, HALF_OPERATIONS, LADDERS, PROFILES, error_name, flop, named,
                       shape_of)
from .spread import Spread
from .words import count_of

GIB = 2.0 ** 30


def extremes(values: dict[str, float]) -> dict:
    """The smallest and the largest with their names, and the median."""
    if not values:
        raise Failed("report/data: no fair measurement of what a text names")
    least, most = min(values, key=values.get), max(values, key=values.get)
    return {"least": {"case": least, "value": values[least]}, "most": {"case": most, "value": values[most]},
            "median": statistics.median(values.values())}


def quotient(top, bottom):
    return None if top is None or not bottom else top / bottom


# ---- The machine, the ladders


def machine(data):
    return {"gpu": data["half_ladder"]["gpu"]["at_start"][0]["name"],
            "multiprocessors": round(data.device["multiprocessors"])}


def peaks(data):
    return {"dram_tb_per_second": data.device["peak_dram_bytes_per_second"] * 1e-12,
            "byte_tops": BYTE_OPERATIONS * 1e-12, "half": HALF_OPERATIONS * 1e-12,
            **{contract: data.peak(contract) for contract in ("f32", "fixed", "fixed16")}}


def ladder(data):
    """By contract, shape and kernel; `last` is the top kernel."""
    return {contract: {shape: rungs_of(rungs, data.peak("f32" if contract == "backward" else contract))
                       for shape, rungs in data.ladders(contract).items()} for contract in LADDERS}


def rungs_of(rungs, peak):
    tree = {rung.kernel: of_rung(rung, before, peak) for before, rung in zip([rungs[0], *rungs], rungs)}
    return {**tree, "last": tree[rungs[-1].kernel]}


def of_rung(rung, before, peak):
    if rung.seconds is None:
        return {}
    return {"ms": rung.seconds.mid * 1e3, "tflops": rung.tflops.mid, "of_peak_pct": 100 * rung.tflops.mid / peak,
            "speed_up": rung.over(before)}


# ---- Profiler counters

COUNTS = ("registers", "grid_blocks", "instructions")  # integers, even where JSON has floats
SHARED_BYTES_PER_CYCLE = 128  # for a multiprocessor's 32 banks
LANES, FLOP_PER_FMA = 32, 2
TILE_SCORES = 64 * 64  # 64 query rows and a tile of keys
ISSUED_PER_CYCLE = 4  # warp instructions per multiprocessor
BYTES_PER_CYCLE = 4096  # multiply-adds per multiprocessor's tensor cores


def waiting(launch):
    """Warps by reason, except warps that were ready while another was issued: they do not wait."""
    return {reason: warps for reason, warps in launch["stalls"].items()
            if warps is not None and reason not in ("selected", "not_selected")}


def shared_pipe_pct(metrics, device):
    """The fraction of the time in which shared memory's banks were busy; None where it was not counted."""
    rates = [metrics.get(f"shared_{what}_bytes_per_second") for what in ("load", "store")]
    if None in rates:
        return None
    return 100 * sum(rates) / (device["multiprocessors"] * SHARED_BYTES_PER_CYCLE * device["clock_hz"])


def per_load(launch):
    """Wavefronts per load of shared memory; None where there are no loads, or no counter."""
    return quotient(launch["metrics"].get("shared_load_wavefronts"), launch["metrics"].get("shared_load_instructions"))


def of_launch(launch, device):
    """Metrics in the units of the text: GB/s, KiB, percent; and values derived from them."""
    metrics = launch["metrics"]
    get = metrics.get
    work = flop(*shape_of(launch))
    products = work / (LANES * FLOP_PER_FMA)  # instructions that the two products need at least
    scores = launch["batches"] * launch["tokens"] ** 2
    found = {key: value for key, value in metrics.items() if key.endswith("_pct")}
    found |= {key.replace("_bytes_per_second", "_gb_per_second"): None if value is None else value * 1e-9
              for key, value in metrics.items() if key.endswith("_bytes_per_second")}
    found |= {key: None if get(key) is None else round(get(key)) for key in COUNTS}
    found |= {"ipc": get("ipc"), "wavefronts_per_load": per_load(launch),
              "loads_per_fma": quotient(get("shared_load_instructions"), products),
              "product_share_pct": quotient(100 * products, get("instructions")),
              "instructions_per_score": quotient(get("instructions"), scores / LANES),
              "issue_cycles_per_tile": quotient(get("instructions"), ISSUED_PER_CYCLE * scores / TILE_SCORES),
              "shared_pipe_pct": shared_pipe_pct(metrics, device)}
    shares = [get("sm_efficiency_pct"), get("issue_slots_busy_pct"), found["product_share_pct"]]
    found["explained_pct"] = None if None in shares else shares[0] * shares[1] * shares[2] * 1e-4
    return {**found, "stall1": {"warps": max(waiting(launch).values(), default=None)}}


def profile(data):
    """Metrics by contract, shape and kernel."""
    return {contract: {shape: {kernel: of_launch(launch, data[file]["device"])
                               for kernel, launch in data.launches(contract, shape).items()}
                       for shape in data.ladders(contract)} for contract, file in PROFILES.items()}


def profile_of_cases(data):
    """Each rung on each case."""
    tree = {}
    for launch in data["profile_cases"]["launches"]:
        tree.setdefault(launch["case"], {})[launch["kernel"]] = of_launch(launch, data["profile_cases"]["device"])
    return tree


# ---- Whole runs, the sequential program, the CPU


def files(data):
    """Medians of the whole command in ms, by case and program."""
    tree = {record["name"]: {**{name.replace(" ", "_"): {"ms": Spread.of(samples).mid * 1e3}
                                for name, samples in record["seconds"].items()},
                             "chunk_batches": record["stages"]["chunk_batches"]} for record in data.file_cases}
    hw4, plain = (sum(Spread.of(record["seconds"][name]).mid for record in data.file_cases)
                  for name in ("hw4", "plain"))
    memory = data["files"]["memory"]
    return {**tree, "count": len(data.file_cases), "total": {"of_plain": hw4 / plain},
            "memory": {"case": memory["case"], "beyond_mb": memory["beyond_bytes"] * 1e-6}}


def pipeline(data):
    """The two traces of t22."""
    tree = {}
    for streams in (4, 1):
        trace = data.trace(streams)
        context = trace.last("context") or 0.0
        tree[f"streams{streams}"] = {"after_context_ms": trace.end - context,
                                     "share": {f"{worker}s_pct": 100 * trace.share(worker, context)
                                               for worker in ("reader", "writer", "stream")}}
    return tree


def sequential(data):
    times = {record["name"]: data.sequential_case(record["name"]) for record in data.file_cases}
    whole = {name: seconds.mid / Spread.of(data.file_case(name)["seconds"]["hw4"]).mid
             for name, (seconds, _) in times.items()}
    seconds, t28 = times["t28"]
    return {"files": extremes(whole), "t28_gflops": t28["flop"] * 1e-9 / seconds.mid}


def cpu(data):
    cases = data["cpu"]["cases"]
    rates = {case["contract"]: case["flop"] * 1e-9 / statistics.median(case["seconds"]) for case in cases}
    return {"case": data["cpu"]["case"], "threads": cases[0]["threads"],
            **{contract: {"gflops": rate, "over_f32": rate / rates["f32"]} for contract, rate in rates.items()}}


# ---- Errors


def accuracy(data):
    errors = {case["name"]: case["largest_errors"] for case in data["accuracy"]["cases"]}

    def not_above(program, other):
        return count_of(sum(case[program] <= case[other] for case in errors.values()), len(errors), "cases")

    return {**{program: extremes({name: values[program] for name, values in errors.items()})
               for program in ("hw4", "hw4_fixed", "efficient", "naive")},
            **{f"{program}_not_above_{other}": not_above(program, other) for program in ("hw4", "hw4_fixed")
               for other in ("efficient", "naive")}}


def distributions(data):
    """Errors by distribution and head size."""
    tree = {}
    for case in data["distributions"]["cases"]:
        errors = case["errors"]
        tree.setdefault(case["distribution"], {})[f"d{case['dim']}"] = {
            **errors, "fixed_over_naive": quotient(errors["hw4_fixed"]["largest_of_row"],
                                                   errors["naive"]["largest_of_row"])}
    return tree


FORMATS = {"bf16": "flash2 bf16", "fp16": "flash2 fp16"}  # rows with the formats' errors


def half_errors(data):
    """Errors of other formats relative to fixed16's by distribution, ours relative to FlashAttention-2's by type."""
    cases = data["half_errors"]["cases"]
    ratios, own = {}, {}
    for case in cases:
        largest = {program: errors["largest"] for program, errors in case["errors"].items()}
        name = f"N = {case['tokens']}, d = {case['dim']}"
        for form, program in FORMATS.items():
            of_kind = ratios.setdefault(case["distribution"], {}).setdefault(form, {})
            of_kind[name] = largest[program] / largest["hw4_fixed16"]
            own.setdefault(form, {})[f"{case['distribution']}, {name}"] = largest[error_name(form)] / largest[program]
    every = {form: [value for of in ratios.values() for value in of[form].values()] for form in FORMATS}
    return {"own": {form: extremes(values) for form, values in own.items()},
            "not_above": {form: count_of(sum(value >= 1 for value in values), len(values), "cases")
                          for form, values in every.items()},
            **{kind: {form: extremes(values) for form, values in of.items()} for kind, of in ratios.items()}}


# ---- Lab5 and CS336


def lab5(data):
    """Rates by mask, contract and length."""
    tree = {"base": {name: value for name, value in courses.BASE.items() if name != "causal"}}
    for mask, causal in (("none", False), ("causal", True)):
        for impl, rows in courses.over_length(data, causal).items():
            tree.setdefault(mask, {})[impl] = {f"n{tokens}": of_row(row) for tokens, row in rows.items()}
    return tree


def of_row(row):
    found = {name: {"mib": row.mib(name=name)} for name in courses.PASSES if row.status(name) == "ok"}
    for name in found:
        if row.seconds(name):
            found[name] |= {"ms": row.seconds(name).mid * 1e3, "tflops": row.tflops(name).mid}
    return {**found, "backward_over_forward": row.backward_over_forward}


def cs336(data):
    """Sizes, by which implementation lacked memory; and on how many the naive form of hw4 bench was faster."""
    by_size = {}
    for row in courses.sweep(data, "cs336_attention"):
        by_size.setdefault((row.cell["emb_dim"], row.cell["seq_len"]), {})[row.impl] = row
    lacked = {impl: sum("oom" in (rows[impl].status("forward"), rows[impl].status("backward"))
                       for rows in by_size.values()) for impl in ("naive", "f32")}
    faster = {}
    for name in ("forward", "backward"):
        both = {size: (rows["naive"].seconds(name), rows["f32"].seconds(name)) for size, rows in by_size.items()
                if rows["naive"].seconds("backward") and rows["naive"].seconds(name) and rows["f32"].seconds(name)}
        sizes = [size for size, (naive, f32) in both.items() if naive.mid < f32.mid]
        faster[name] = {"count": count_of(len(sizes), len(both), "sizes"),
                        "longest": max((tokens for _, tokens in sizes), default=0),
                        "at_d128": sum(dim == 128 for dim, _ in sizes)}
    track = courses.track_of(data, "naive", "forward", refused=True)
    tree = {"sizes": len(by_size), "limit_gib": data["cs336_attention"]["settings"]["memory_limit"] / GIB,
            "batches": data["cs336_attention"]["settings"]["batch_size"], "out_of_memory": lacked,
            "naive_faster": faster, "refused": {"tokens": track.tokens, "dim": track.dim, "held_mib": track.peak / MIB,
                                                "wanted_gib": track.refused["bytes"] / GIB}}
    for row in courses.sweep(data, "memory"):
        if row.status("forward_backward") == "ok":
            tree.setdefault("memory", {}).setdefault(row.impl, {})[f"n{row.cell['seq_len']}"] = {
                "forward_mib": row.mib(), "both_mib": row.mib(name="forward_backward")}
    return tree


def warmups(data):
    """The first sample over the median of the others, by the number of warm-up launches."""
    tree = {}
    for row in courses.sweep(data, "warmups"):
        first, *others = row.passes["forward"]["samples"]
        tree[f"w{row.cell['warmup']}"] = {"first_over_rest": first / statistics.median(others)}
    return tree


def accumulate(data):
    """Errors on the GPU, by sum and chain."""
    found = data["accumulate"]["by_device"]["gpu"]
    tree = {"count": found["count"], "term": found["term"]}
    for one in found["sums"]:
        chain = f"chain{one['chain']}" if one["chain"] else "plain"
        tree.setdefault(f"{one['term']}_in_{one['sum']}", {})[chain] = {"error": one["result"] - one["exact"]}
    return tree


LONG_BYTES = 100 << 20  # length of long vectors


def collectives(data):
    """The speed-up of sums in order over MPI's, by device, ranks and size."""
    rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
             for row in data["collectives"]["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
    ratios = {key[:3]: rate / rates[(*key[:3], "mpi")] for key, rate in rates.items()
              if key[3] == "ordered" and (*key[:3], "mpi") in rates}
    tree = {"long_mib": LONG_BYTES >> 20, "same_bytes": same_bytes(data["collectives"]["allreduce"])}
    for length in ("short", "long"):
        some = {f"{size / MIB:g} MiB, {ranks} ranks, {device}": value for (device, ranks, size), value in ratios.items()
                if (size >= LONG_BYTES) == (length == "long")}
        if not some:
            raise Failed(f"collectives.json: allreduce: no {length} sum by mpi and ordered ran")
        tree[length] = extremes(some)
    return tree


def same_bytes(rows):
    """1 where the sums in order of every size are the same for every number of ranks."""
    found = {}
    for row in rows:
        if row["via"] == "ordered" and row["status"] == "ok":
            found.setdefault(row["size"], {}).setdefault(row["crc32"], set()).add(row["ranks"])
    if not found or any(len(set().union(*checksums.values())) < 2 for checksums in found.values()):
        raise Failed("collectives.json: allreduce: need sums in order of every size by two numbers of ranks or more")
    return int(all(len(checksums) == 1 for checksums in found.values()))


def of_training(data):
    """Ratios of mean steps, and how many are losses."""
    found = {(row["contract"], row["attention"], row["model"], row["seq_len"]): row["step"]["mean"]
             for row in training.warm(data)}
    faster = [mean < found[("f32", "ours", *cell)] for (_, form, *cell), mean in found.items() if form == "naive"]
    losses = [row["ratio"] < 1 for row in data["training_beside"]["rows"]]
    return {"naive_faster": count_of(sum(faster), len(faster), "contexts"), "bf16_over_f32": extremes({
        cell[0]: found[("f32", "ours", *cell)] / mean for (contract, _, *cell), mean in found.items()
        if contract == "bf16" and ("f32", "ours", *cell) in found}),
            "pytorch_faster": count_of(sum(losses), len(losses), "rows")}


DECODING = (("f32", "float32"), ("f32", "bf16"), ("bf16", "bf16"))  # contracts and caches


def beside_peers(data):
    """Ratios to the fastest peer, and the times of hw4's pages and packed sequences over those without."""
    tree = {}
    for contract in ("f32", "bf16"):
        some = beside.by_cell(beside.pairs(data, "lengths", contract=contract), "regime", "values").values()
        best = [pair for pair in map(beside.best_peer, some) if pair]
        ratios = {}
        for pair in best:
            of_pass = ratios.setdefault(f"d{pair.cell[3]}", {}).setdefault(pair.passes, {})
            of_pass[f"{pair.title}, {pair.regime}, {pair.values}"] = pair.ratio
        tree[contract] = {"ahead": count_of(sum(pair.ratio > 1 for pair in best), len(best), "comparisons"),
                          "left_out": len(some) - len(best), **{
                              dim: {passes: extremes(values) for passes, values in of_dim.items()}
                              for dim, of_dim in ratios.items()}}
    for name in ("lab5", "cs336"):
        tree[name] = {"lost": sum(pair.ratio < 1 for pair in beside.sustained(data, name))}
    for name, peer in (("paged", "paged"), ("packed", "lengths")):
        tree[name] = extremes({f"{pair.contract}, {pair.dtype}, {pair.title}": pair.ratio
                               for pair in beside.pairs(data, "decode", "packed", peer=peer) if pair.fair})
    tree["decode"] = {f"{contract}_{dtype}": extremes({
        pair.title: pair.ratio for some in beside.by_cell(beside.pairs(
            data, "decode", passes="decode", contract=contract, dtype=dtype)).values()
        if (pair := beside.best_peer(some))}) for contract, dtype in DECODING}
    rates = {pair.cell[1]: pair.rate for pair in beside.sustained(data, "decode", passes="forward", causal=False)}
    one, four = (named(heads, rates.items(), "beside_decode.json: fair rows by heads") for heads in (1, 4))
    return {**tree, "one_head_of_four_pct": 100 * one / four}


def published(data):
    found, ours = data["published"], courses.rates_of_bf16(data)
    return {**{field: found[field] for field in ("where", "gpu", "type")},
            **{f"d{rate['dim']}_{'causal' if rate['causal'] else 'none'}_n{rate['tokens']}": {
                "tflops": rate["tflops"], "ours": ours.get((rate["dim"], rate["causal"], rate["tokens"]))}
               for rate in found["rates"]}}


def ablation(data):
    """The fraction of a kernel's rate without a part, by kernel and part."""
    tree = {}
    for cell, share in data.ablation:
        tree.setdefault(cell["kernel"], {})[re.sub(r"\W+", "_", cell["without"])] = share
    return tree


FACTS = {"machine": machine, "peak": peaks, "ladder": ladder, "profile": profile, "profile_of_cases": profile_of_cases,
         "files": files, "pipeline": pipeline, "seq": sequential, "cpu": cpu, "accuracy": accuracy,
         "distributions": distributions, "half_errors": half_errors, "lab5": lab5, "cs336": cs336, "warmups": warmups,
         "accumulate": accumulate, "collectives": collectives, "published": published, "training": of_training,
         "ablation": ablation, "beside": beside_peers,
         "tensor_cycles": lambda _: {contract: 2 * products * TILE_SCORES * 64 / BYTES_PER_CYCLE
                                     for contract, products in BYTE_PRODUCTS.items()},  # a tile at d = 64
         "code": lambda _: sources.constants()}


def all_facts(data) -> dict:
    return {name: function(data) for name, function in FACTS.items()}


def listed(facts, prefix=""):
    """(path, value) of every fact, in order."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from listed(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
