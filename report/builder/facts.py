"""The facts: a tree of numbers, texts and counts from the data, which templates name by dotted paths.

A time is ms, with ms_p80 and best_ms beside it; a rate tflops; a share ..._pct; a ratio has no unit. The ends of a list
of numbers are least and most, each with case and value, and median. A rung of a ladder has speed_up, over the rung
before it. `report/build --facts` prints all facts with their values.
"""
from __future__ import annotations

import re
import statistics

import scaling as on_paper

from . import sources
from .errors import Failed
from .measured import (BYTE_PRODUCTS, CONTRACTS, INTEGER_OPERATIONS, INTEGER_ROOF, LADDER_CASES, WHO_ON_VALUES,
                       contracts_on_cpu, flop)
from .measured_backward import GRADIENTS, MASKS, Backward
from .measured_courses import BASE, LIMIT_BYTES, PASSES, Cs336, Lab5, Sweep, track_of
from .measured_half import (ANY_ORDER, CUDNN, FLASH2, FORMATS, FROM_BF16, HALF_TYPES, PAIR_PRODUCTS, PAIR_ROOF,
                            SAME_ACCURACY, Half, costs, half_gradients, half_ladder, half_lengths, half_rounds)
from .spread import Spread
from .words import with_crosses

MIB, GIB = 2.0 ** 20, 2.0 ** 30


def timing(seconds: Spread, work=None) -> dict:
    found = {"ms": seconds.mid * 1e3, "ms_p80": seconds.high * 1e3, "best_ms": seconds.best * 1e3}
    return found if work is None else {**found, "tflops": work * 1e-12 / seconds.mid}


def extremes(values: dict[str, float]) -> dict:
    """The smallest and the largest with their names, and the median."""
    least, most = min(values, key=values.get), max(values, key=values.get)
    return {"least": {"case": least, "value": values[least]}, "most": {"case": most, "value": values[most]},
            "median": statistics.median(values.values())}


def name_of(text):
    """As a part of a path: '4,16384,128' becomes 4x16384x128, '1 stream' 1_stream."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text.replace(",", "x")).strip("_")


def rungs_of(rungs) -> dict:
    """Each rung by its kernel."""
    return {rung.kernel: {**timing(rung.seconds, rung.flop), "over_first": rungs[0].seconds.mid / rung.seconds.mid,
                          "speed_up": before.seconds.mid / rung.seconds.mid}
            for before, rung in zip([rungs[0], *rungs], rungs)}


# ---- The machine, and the kernels of f32


def machine(data):
    document = data.kernels
    return {"gpu": document["gpu"]["at_start"][0]["name"], "cuda": document["ladder"][0]["cuda"],
            "multiprocessors": round(data.profile["device"]["multiprocessors"]),
            "processors": document["machine"]["processors"], "torch": document["torch"]["torch"].partition("+")[0]}


def peak(data):
    return {"dram_tb_per_second": data.profile["device"]["peak_dram_bytes_per_second"] * 1e-12,
            "sgemm": {"tflops": data.kernels["sgemm"]["tflops"]}}


def ladder(data):
    highest = data.profile["device"]["peak_flop_per_second"] * 1e-12
    tree = {"rungs": len(data.rungs)}
    for case in LADDER_CASES:
        tree[case] = rungs_of(data.ladder(case))
        for rung in tree[case].values():
            rung["of_peak_pct"] = 100 * rung["tflops"] / highest
    return tree


def of_shape(shape, sgemm):
    return {"batches": shape.batches, "tokens": shape.tokens, "dim": shape.dim, **timing(shape.hw4, shape.flop),
            "torch_tflops": shape.tflops(shape.torch_best).mid, "speed_up": shape.speed_up,
            "of_sgemm_pct": 100 * shape.tflops(shape.hw4).mid / sgemm}


def cases(data):
    return {**{name_of(shape.name): of_shape(shape, data.kernels["sgemm"]["tflops"]) for shape in data.shapes},
            "count": len(data.cases)}


def lengths(data):
    tree = {}
    for shape in data.length_shapes:
        tree.setdefault(f"d{shape.dim}", {})[f"n{shape.tokens}"] = of_shape(shape, data.lengths["sgemm"]["tflops"])
    return {dim: {**of_dim, **{quantity: extremes({name: found[quantity] for name, found in of_dim.items()})
                               for quantity in ("tflops", "torch_tflops")}} for dim, of_dim in tree.items()}


def tilings(data):
    return {"tflops": extremes({
        f"{cell['rows']}x{cell['keys']}":
            flop(cell["batches"], cell["tokens"], cell["dim"]) * 1e-12 / statistics.median(cell["seconds"])
        for cell in data.tilings["tilings"]})}


def accuracy(data):
    errors = {case["name"]: case["largest_errors"] for case in data.accuracy["cases"]}
    return {**errors, **{who: extremes({name: values[who] for name, values in errors.items()})
                         for who in ("hw4", "hw4_fixed", "efficient", "naive")}}


# ---- What the profiler counted

COUNTS = ("registers", "block_threads", "grid_blocks", "instructions")  # whole numbers, whatever JSON makes of them
SHARED_BYTES_PER_CYCLE = 128  # of a multiprocessor's 32 banks
LANES, FLOP_PER_FMA = 32, 2


def waiting(launch):
    """Warps by reason, without those that were ready while another was issued: they wait for nothing."""
    return {reason: warps for reason, warps in launch["stalls"].items()
            if warps is not None and reason not in ("selected", "not_selected")}


def shared_pipe_pct(metrics, device):
    """How much of the time the banks of shared memory were delivering or taking; None where it was not counted."""
    rates = [metrics.get(f"shared_{what}_bytes_per_second") for what in ("load", "store")]
    if None in rates:
        return None
    return 100 * sum(rates) / (device["multiprocessors"] * SHARED_BYTES_PER_CYCLE * device["clock_hz"])


def quotient(top, bottom):
    return None if top is None or not bottom else top / bottom


def per_load(launch):
    """Wavefronts of a load of shared memory; None where there are no loads, or no counter."""
    return quotient(launch["metrics"].get("shared_load_wavefronts"), launch["metrics"].get("shared_load_instructions"))


def of_launch(launch, device):
    """Metrics in the units of prose: GB/s, KiB, percent; and what follows from them."""
    metrics = launch["metrics"]
    get = metrics.get
    work = flop(launch["batches"], launch["tokens"], launch["dim"])
    products = work / (LANES * FLOP_PER_FMA)  # instructions that the two products cannot do without
    found = {key: value for key, value in metrics.items() if key.endswith("_pct")}
    found |= {key.replace("_bytes_per_second", "_gb_per_second"): None if value is None else value * 1e-9
              for key, value in metrics.items() if key.endswith("_bytes_per_second")}
    found |= {key: None if get(key) is None else round(get(key)) for key in COUNTS}
    found |= {"ipc": get("ipc"), "shared_kib": quotient(get("shared_bytes_per_block"), 1024),
              "wavefronts_per_load": per_load(launch),
              "flop_over_formula": quotient(get("flop"), work),
              "loads_per_fma": quotient(get("shared_load_instructions"), products),
              "product_share_pct": quotient(100 * products, get("instructions")),
              "shared_pipe_pct": shared_pipe_pct(metrics, device)}
    shares = [get("sm_efficiency_pct"), get("issue_slots_busy_pct"), found["product_share_pct"]]
    found["explained_pct"] = None if None in shares else shares[0] * shares[1] * shares[2] * 1e-4
    stalls = waiting(launch)
    if stalls:
        longest = max(stalls, key=stalls.get)
        found["stall1"] = {"name": longest.replace("_", " "), "warps": stalls[longest]}
    return found


def profile_of_cases(data):
    """Each rung on each case."""
    tree = {}
    for launch in data.profile_of_cases["launches"]:
        tree.setdefault(launch["case"], {})[launch["kernel"]] = of_launch(launch, data.profile_of_cases["device"])
    return tree


# ---- Whole runs, the sequential program, the CPU engine


def files(data):
    tree = {}
    for record in data.files["cases"]:
        stages = record["stages"]
        start = stages["driver_seconds"] + stages["context_seconds"]
        tree[record["name"]] = {
            **{name_of(name): timing(Spread.of(samples)) for name, samples in record["seconds"].items()},
            "start_ms": start * 1e3, "work_ms": (stages["total_seconds"] - start) * 1e3,
            "chunk_batches": stages["chunk_batches"]}
    totals = {name: sum(Spread.of(record["seconds"][name]).mid for record in data.file_cases)
              for name in ("plain", "hw4")}
    memory = data.files["memory"]
    return {**tree, "total": {"hw4_seconds": totals["hw4"], "of_plain": totals["hw4"] / totals["plain"]},
            "memory": {"case": memory["case"], "beyond_mb": memory["beyond_bytes"] * 1e-6}}


def pipeline(data):
    """The two traces of t22."""
    tree = {}
    for streams in (4, 1):
        trace = data.trace(streams)
        context = trace.last("context") or 0.0
        tree[f"streams{streams}"] = {"after_context_ms": trace.end - context,
                                     "busy_ms": {stage: trace.busy(stage) for stage in trace.stages()},
                                     "share": {f"{who}s_pct": 100 * trace.share(who, context)
                                               for who in ("reader", "writer", "stream")}}
    return tree


def steps(data):
    """The steps by number, from 1; the last also by that name."""
    tree = {str(number): {"ms": statistics.median(step["seconds"]) * 1e3,
                          "kernel_ms": statistics.median(step["kernel_seconds"]) * 1e3}
            for number, step in enumerate(data.steps["steps"], 1)}
    return {**tree, "last": tree[str(len(tree))]}


def sequential(data):
    seconds = {case.name: data.sequential_seconds(case.name).mid for case in data.cases}
    whole = {name: took / Spread.of(data.file_case(name)["seconds"]["hw4"]).mid for name, took in seconds.items()}
    return {**{case.name: {"gflops": case.flop * 1e-9 / seconds[case.name]} for case in data.cases},
            "kernel": extremes({case.name: seconds[case.name] / case.hw4.mid for case in data.cases}),
            "files": extremes(whole)}


def cpu(data):
    first = data.cpu["cases"][0]
    over = {case["case"]: statistics.median(case["seconds"]["torch"]) / statistics.median(case["seconds"]["hw4"])
            for case in data.cpu["cases"]}
    return {"threads": first["threads"], "kernel": first["kernel"], "over_torch": extremes(over)}


def cpu_contracts(data):
    found = contracts_on_cpu(data)
    first, _ = found[0]
    return {"threads": first["threads"], "case": first["case"],
            **{record["contract"]: {"over_torch": over_torch["hw4"]} for record, over_torch in found}}


# ---- The contract fixed

TILE_SCORES = 64 * 64  # of 64 query rows and a tile of keys
ISSUED_PER_CYCLE = 4  # instructions of warps, by a multiprocessor
BYTES_PER_CYCLE = 4096  # multiply-adds, by its tensor cores


def fixed_profile(data, kernel):
    launch = data.fixed_launch(kernel)
    found = of_launch(launch, data.profile_of_fixed["device"])
    scores, instructions = launch["batches"] * launch["tokens"] ** 2, launch["metrics"].get("instructions")
    if instructions is not None:
        found["instructions_per_score"] = LANES * instructions / scores
        found["issue_cycles_per_tile"] = instructions / (scores / TILE_SCORES) / ISSUED_PER_CYCLE
    return found


def tensor_cycles_per_tile(byte_products):
    """What the products of a tile take at d = 64: the scores and as much again for the outputs."""
    return 2 * byte_products * TILE_SCORES * 64 / BYTES_PER_CYCLE


def fixed(data):
    float_peak = data.profile["device"]["peak_flop_per_second"]
    over_f32 = {shape.name: data.f32_beside(shape.name).mid / shape.hw4.mid for shape in data.fixed_shapes}
    return {
        "cases": {name_of(shape.name): {**timing(shape.hw4, shape.flop), "over_f32": over_f32[shape.name],
                                        "speed_up": shape.speed_up} for shape in data.fixed_shapes},
        "ladder": {name_of(shape.name): rungs_of(data.fixed_ladder(shape.name)) for shape in data.fixed_shapes},
        "profile": {kernel: fixed_profile(data, kernel) for kernel in data.fixed_rungs},
        "over_f32": extremes(over_f32), "count": len(over_f32),
        "tensor_cycles_per_tile": tensor_cycles_per_tile(BYTE_PRODUCTS),
        "roof": {"tops": INTEGER_OPERATIONS * 1e-12, "tflops": INTEGER_ROOF,
                 "over_float32": INTEGER_OPERATIONS / float_peak,
                 "tflops_over_float32": INTEGER_ROOF * 1e12 / float_peak}}


def distributions(data):
    """Errors by distribution and head size."""
    tree = {}
    for case in data.distributions["cases"]:
        errors = case["errors"]
        tree.setdefault(case["distribution"], {})[f"d{case['dim']}"] = {
            **errors, "largest_of_row_over_naive": quotient(errors["hw4_fixed"]["largest_of_row"],
                                                            errors["naive"]["largest_of_row"])}
    return tree


# ---- Values, the causal mask, backward

BEYOND = "stray:1000000"  # scores that neither contract's fast path takes


def values(data):
    """How much longer than the first kind the others take, those beyond the fast paths apart; and hw4's times over
    PyTorch's."""
    found = {f"{case.title}, d = {dim}": case for dim, kinds in data.kinds_of_values.items() for case in kinds}
    return {who: {"over_first": extremes({name: case.over_first(who) for name, case in found.items()
                                          if case.kind != BEYOND}),
                  "beyond": extremes({name: case.over_first(who) for name, case in found.items()
                                      if case.kind == BEYOND}),
                  "over_torch": extremes({name: case.seconds[who].mid / case.seconds["torch"].mid
                                          for name, case in found.items()})} for who in WHO_ON_VALUES}


def causal(data):
    """Over all shapes what the mask saves, and how PyTorch compares."""
    return {"shapes": len(data.masked),
            **{who: {"gain": extremes({with_crosses(case.name): case.gain(who).mid for case in data.masked}),
                     "speed_up": extremes({with_crosses(case.name): case.speed_up(who) for case in data.masked})}
               for who in CONTRACTS}}


PAIR_BYTES = 20  # P and dS, written once; read for dV, and for dK and dQ


def backward(data):
    found = Backward(data)
    return {"torch": data.backward["torch"]["torch"].partition("+")[0], "ladder": backward_ladder(found),
            **backward_beside_torch(found), "memory": backward_memory(found), "cpu": backward_cpu(found),
            "errors": {"cases": len(found.document["errors"]), "compared": len(found.compared)},
            "lengths": {gradient: {"ratio": extremes({str(tokens): case.ratio(gradient) for tokens, case in
                                                      found.lengths.items()})} for gradient in GRADIENTS}}


def backward_ladder(found):
    tree = rungs_of(found.ladder)
    for line in found.document["ladder"]:
        tree[line["kernel"]]["scratch_mb"] = line["scratch_bytes"] * 1e-6
    return tree


def backward_beside_torch(found):
    """Times by shape and mask; over all shapes PyTorch's time over ours; and how much of the rate the mask leaves."""
    tree = {}
    for name, by_mask in found.shapes.items():
        whole = by_mask["none"].hw4
        pairs = whole.flop / (10 * int(name.rpartition(",")[2]))
        tree[name_of(name)] = {
            **{mask: {who: timing(rung.seconds, rung.flop) for who, rung in (("hw4", case.hw4), ("torch", case.torch))}
               for mask, case in by_mask.items()},
            "pairs_tb_per_second": PAIR_BYTES * pairs * 1e-12 / whole.seconds.mid}
    shapes = [(with_crosses(name), by_mask) for name, by_mask in found.shapes.items()]
    return {"shapes": tree,
            "speed_up": {mask: extremes({name: by_mask[mask].speed_up for name, by_mask in shapes}) for mask in MASKS},
            "causal_over_full": extremes({name: by_mask["causal"].hw4.tflops.mid / by_mask["none"].hw4.tflops.mid
                                          for name, by_mask in shapes})}


def backward_memory(found):
    most = found.budgets[-1].rate.mid
    return {"tokens": found.memory_shape["tokens"],
            **{budget.asked_mib: {"taken_mib": budget.taken_mib, "of_all_pct": 100 * budget.rate.mid / most}
               for budget in found.budgets}}


def backward_cpu(found):
    told, spreads = found.document["cpu"], found.cpu
    return {**dict(zip(("batches", "tokens", "dim"), told["shape"])), "threads": told["threads"],
            "kernel": told["kernel"], **{who: timing(spread) for who, spread in spreads.items()},
            "over_torch": min(spreads[who].mid for who in ("sdpa", "naive")) / spreads["hw4"].mid}


# ---- hw4 beside half precision

BESIDE = {"flash2": FLASH2, "cudnn": CUDNN, "fixed": "fixed"}  # what fixed16's rates are divided by


def rounds(data):
    """What fixed16 is of the others, by shape and mask, and by mask over all shapes."""
    half = Half(data)
    tree = {"rounds": data.rounds["rounds"], "torch": data.rounds["torch"]["torch"].partition("+")[0]}
    for case in half.in_turns:
        tree.setdefault(name_of(case.name), {})[case.mask] = {"fixed16": {
            "tflops": case.rate("fixed16"), "of_roof_pct": 100 * case.rate("fixed16") / PAIR_ROOF,
            **{f"over_{name}": case.over("fixed16", who) for name, who in BESIDE.items()}}}
    for mask in MASKS:
        def over(who, other, cases=half.under(mask)):
            return extremes({with_crosses(case.name): case.over(who, other) for case in cases})

        tree[mask] = {"fixed16": {f"over_{name}": over("fixed16", who) for name, who in BESIDE.items()},
                      "from_bf16": {"over_fixed16": over(FROM_BF16, "fixed16")}}
    return tree


def half_errors(data):
    """What the errors of the formats are of fixed16's: by distribution, and by length and head size."""
    half = Half(data)
    tree = {"count": len(half.errors), "not_above": {form: len(half.not_above(form)) for form in FORMATS}}
    for name, found in half.by_distribution().items():
        tree[name] = {form: extremes({case.shape: case.over_fixed16(form) for case in found}) for form in FORMATS}
        for case in found:
            tree[name].setdefault(f"n{case.tokens}", {})[f"d{case.dim}"] = {
                f"{form}_over_fixed16": case.over_fixed16(form) for form in FORMATS}
    return tree


def counted_ladder(data, file, profiled):
    """Rungs by head size and kernel, with what the profiler counted."""
    counted = {(launch["dim"], launch["kernel"]): launch["metrics"]
               for launch in data.documents.get(profiled, {"launches": []})["launches"]}
    tree = {}
    for dim, rungs in half_ladder(data, file).items():
        of_dim = rungs_of(rungs)
        for kernel, found in of_dim.items():
            metrics = counted.get((dim, kernel), {})
            found |= {key: metrics.get(key) for key in ("tensor_pipe_pct", "issue_slots_busy_pct")}
        last = rungs[-1]
        tree[f"d{dim}"] = {**of_dim, "last": {**of_dim[last.kernel],
                                              "over_second": rungs[:2][-1].seconds.mid / last.seconds.mid}}
    return tree


def ratios_of(found, who, other):
    return extremes({f"{case.text}, {'causal' if case.mask == 'causal' else 'no mask'}": case.over(who, other)
                     for case in found})


def turns_of(found, document):
    """Over all shapes and masks what bf16 and fp16 are of the others."""
    return {"rounds": document["rounds"], "count": len(found), "fp16_over_bf16": ratios_of(found, "fp16", "bf16"),
            **{who: {f"over_{peer}": ratios_of(found, who, f"{peer} {who}") for peer in ("flash2", "cudnn")}
               for who in HALF_TYPES}}


def gradients_in_turns(data):
    """Also what the order of dQ's parts costs."""
    found = half_gradients(data)
    return {**turns_of(found, data.documents["half_backward.json"]), "any_order": ratios_of(found, ANY_ORDER, "bf16")}


def bf16_lengths(data):
    return {f"d{dim}": {mask: {"over_cudnn": ratios_of(found, "bf16", CUDNN)} for mask, found in by_mask.items()}
            for dim, by_mask in half_lengths(data).items()}


def own_errors(data):
    """hw4's largest errors over FlashAttention-2's in the same type."""
    return {who: extremes({f"{case.title}, {case.shape}": case.largest[f"hw4_{who}"] / case.largest[f"flash2 {who}"]
                           for case in Half(data).errors}) for who in HALF_TYPES}


def exactness(data):
    """What each exact contract takes over the fastest that is not."""
    return {"same_accuracy": SAME_ACCURACY,
            **{cost.exact.who: {"over_as_accurate": cost.over_as_accurate, "over_fastest": cost.over_fastest}
               for cost in costs(data)}}


# ---- Lab5 and CS336


def of_row(row) -> dict:
    """The passes that ran, and backward's time over forward's."""
    passes = {name: getattr(row, name) for name in PASSES}
    return {**{name: {**timing(found.seconds, found.flop), "peak_mib": found.peak_bytes / MIB}
               for name, found in passes.items() if found.ok},
            "backward_over_forward": ratio(row.backward, row.forward)}


def ratio(above, below):
    """The quotient of two times; None where one is missing."""
    return above.seconds.mid / below.seconds.mid if above.ok and below.ok else None


def lab5(data):
    found = Lab5(data)
    full, masked = found.over_length(False), found.over_length(True)
    tree = {**{f"base_{name}": value for name, value in BASE.items() if name != "causal"},
            "base": {name_of(who): of_row(row) for who, row in found.base().items()}, "gain": {}, "heads": {}}
    # The lengths that all of them have: a sweep may have ended early.
    common = sorted(set.intersection(*(set(rows) for rows in full.values()))) if full else []
    if common:
        tree["length"] = {"none": {end: {"tokens": tokens, **{name_of(who): of_row(rows[tokens])
                                                              for who, rows in full.items()}}
                                   for end, tokens in (("first", common[0]), ("last", common[-1]))}}
    for who, rows in full.items():  # what the mask saves of forward's time
        gains = [gain for tokens, row in rows.items() if (other := masked.get(who, {}).get(tokens))
                 and (gain := ratio(row.forward, other.forward)) is not None]
        if gains:
            tree["gain"][name_of(who)] = {"first": gains[0], "last": gains[-1]}
    for who, rows in found.over("heads").items():
        for heads, row in rows.items():
            tree["heads"].setdefault(f"h{heads}", {})[name_of(who)] = of_row(row)
    return tree


def cs336(data):
    found = Cs336(data)
    return {"limit_gib": LIMIT_BYTES / GIB, "sizes": len(found.grid()), "batches": found.attention.rows[0].batches,
            **{name_of(who): {"out_of_memory": sum(row.forward.out_of_memory or row.backward.out_of_memory
                                                   for row in found.attention.where(who=who))}
               for who in found.attention.everybody}}


def cs336_memory(data):
    """The pass that was refused memory: what it held, and what it wanted."""
    track = track_of(data, "naive", "forward", refused=True)
    return {} if track is None else {"refused": {
        "tokens": track.tokens, "dim": track.dim, "held_mib": track.peak / MIB,
        "wanted_gib": track.refused["bytes"] / GIB}}


def warmups(data):
    """The first sample over the median of the others, by who and by how many launches were before."""
    tree = {}
    for row in Sweep(data, "warmups.json").rows:
        if row.forward.ok and len(row.forward.samples) > 1:
            first, *others = row.forward.samples
            tree.setdefault(name_of(row.who), {})[f"w{row.warmup}"] = {
                "first_over_rest": first / sorted(others)[len(others) // 2]}
    return tree


def accumulate(data):
    """Errors by device, sum and chain."""
    tree = {}
    for device, found in data.documents["accumulate.json"]["by_device"].items():
        tree[device] = {"count": found["count"], "term": found["term"]}
        for one in found["sums"]:
            chain = f"chain{one['chain']}" if one["chain"] else "plain"
            tree[device].setdefault(f"{one['term']}_in_{one['sum']}", {})[chain] = {
                "error": one["result"] - one["exact"]}
    return tree


# ---- Many ranks and many cards

LONG_BYTES = 100 << 20  # of vectors that are called long
ONE_STEP = ("cs336-xl",)  # models of which a single step is timed: their ratios are no ratios


def collectives(data):
    def required(found, what):
        if not found:
            raise Failed(f"collectives.json: {what} ran")
        return extremes(found)

    ordered = ordered_over_mpi(data)
    return {"long_mib": LONG_BYTES >> 20,
            "ordered_over_mpi": {length: required(
                {f"{size / MIB:g} MiB, {ranks} ranks, {device}": value for (device, ranks, size), value in
                 ordered.items() if (size >= LONG_BYTES) == (length == "long")},
                f"allreduce: no {length} sum by mpi and ordered") for length in ("short", "long")},
            "overlapped_over_flat": required(over_one_call(data, "overlapped"), "gradients: none flat and overlapped")}


def ordered_over_mpi(data):
    """How many times as fast, by device, ranks and size."""
    rates = {(row["device"], row["ranks"], row["size"], row["via"]): row["busbw_gb_s"]
             for row in data.collectives["allreduce"] if row["status"] == "ok" and row["ranks"] > 1}
    return {key[:3]: rate / rates[(*key[:3], "mpi")] for key, rate in rates.items()
            if key[3] == "ordered" and (*key[:3], "mpi") in rates}


def over_one_call(data, way):
    """How many times as fast the fastest of a way is as one call for all, by model, ranks and library."""
    steps_of = {}
    for row in data.collectives["gradients"]:
        if row["status"] == "ok" and "via" in row and row["model"] not in ONE_STEP:
            by_way = steps_of.setdefault((row["model"], row["ranks"], row["via"]), {})
            by_way.setdefault(row["way"], []).append(row["step_s"])
    return {f"{model}, {ranks} ranks, {via}": ways["flat"][0] / min(ways[way])
            for (model, ranks, via), ways in steps_of.items() if {"flat", way} <= set(ways)}


def scaling(data):
    """A case of 1 M tokens on many cards."""
    parts = on_paper.parts_of(data)
    tree = {"start_ms": parts.start * 1e3}
    for heads in on_paper.HEADS:
        tree[f"heads{heads}"] = {contract: {f"cards{cards}": {
            "seconds": on_paper.run_of(parts, contract, heads, cards, False).total,
            "speed_up": on_paper.speed_up(parts, contract, heads, cards, False),
            "one_disk_speed_up": on_paper.speed_up(parts, contract, heads, cards, True)}
            for cards in on_paper.CARDS} for contract in on_paper.CONTRACTS}
    return tree


FACTS = {"machine": machine, "peak": peak, "ladder": ladder, "cases": cases, "lengths": lengths, "tilings": tilings,
         "accuracy": accuracy, "profile_of_cases": profile_of_cases, "files": files,
         "profile": lambda data: {kernel: of_launch(data.launch(kernel), data.profile["device"])
                                  for kernel in data.rungs},
         "pipeline": pipeline, "steps": steps, "seq": sequential, "cpu": cpu, "cpu_contracts": cpu_contracts,
         "fixed": fixed, "distributions": distributions, "values": values, "causal": causal, "backward": backward,
         "fixed16": lambda _: {"roof": {"tflops": PAIR_ROOF},
                               "tensor_cycles_per_tile": tensor_cycles_per_tile(PAIR_PRODUCTS)},
         "rounds": rounds, "half_errors": half_errors,
         "half_ladder": lambda data: counted_ladder(data, "half_ladder.json", "profile_half.json"),
         "fixed16_ladder": lambda data: counted_ladder(data, "fixed16_ladder.json", "profile_fixed16.json"),
         "half_rounds": lambda data: turns_of(half_rounds(data), data.documents["half_rounds.json"]),
         "half_gradients": gradients_in_turns,
         "half_lengths": bf16_lengths, "half_own_errors": own_errors, "exactness": exactness, "lab5": lab5,
         "cs336": cs336, "cs336_memory": cs336_memory, "warmups": warmups, "accumulate": accumulate,
         "collectives": collectives, "scaling": scaling, "code": lambda _: sources.constants()}


def all_facts(data) -> dict:
    return {name: function(data) for name, function in FACTS.items()}


def listed(facts, prefix=""):
    """(path, value) of every fact, in order."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from listed(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
