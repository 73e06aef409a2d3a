"""hw4 beside half precision: the rounds, and the errors."""
from __future__ import annotations

from ..measured_half import (ANY_ORDER, APART, CUDNN, FLASH2, FORMATS, FROM_BF16, HALF_TYPES, MASKS, PAIR_PRODUCTS,
                             PAIR_ROOF, SAME_ACCURACY, Half, costs, half_gradients, half_ladder, half_lengths, half_rounds)
from ..needs import needs
from .common import extremes, name_of, timing
from .fixed import BYTES_PER_CYCLE, TILE_SCORES

BESIDE = {"flash2": FLASH2, "cudnn": CUDNN, "fixed": "fixed"}  # what fixed16's rates are divided by


def fixed16(_):
    return {"roof": {"tflops": PAIR_ROOF, "byte_products": PAIR_PRODUCTS},
            # As fixed.tensor_cycles_per_tile, of as many scores.
            "tensor_cycles_per_tile": 2 * PAIR_PRODUCTS * TILE_SCORES * 64 / BYTES_PER_CYCLE}


@needs("rounds.json")
def rounds(data):
    """By shape, mask and who; and by mask over all shapes what fixed16 is of the others."""
    half = Half(data)
    tree = {"rounds": data.rounds["rounds"], "runs": data.rounds["runs"], "shapes": len(half.under("none")),
            "torch": data.rounds["torch"]["torch"].partition("+")[0]}
    for case in half.in_turns:
        by_who = {name_of(who): timing(case.seconds(who), case.record["flop"]) for who in case.record["seconds"]}
        by_who["fixed16"].update(of_roof_pct=100 * case.rate("fixed16") / PAIR_ROOF,
                                 **{f"over_{name}": case.over("fixed16", who) for name, who in BESIDE.items()})
        tree.setdefault(name_of(case.name), {})[case.mask] = by_who
    for mask in MASKS:
        cases = half.under(mask)
        tree[mask] = {who: {"tflops": extremes({shown(case): case.rate(who) for case in cases})}
                      for who in ("fixed", "fixed16")}
        for name, who in BESIDE.items():
            ratios = {shown(case): case.over("fixed16", who) for case in cases}
            tree[mask]["fixed16"][f"over_{name}"] = extremes(ratios)
            tree[mask]["fixed16"][f"faster_than_{name}"] = len(half.faster_than(who, mask))
        tree[mask]["from_bf16"] = {
            "over_fixed16": extremes({shown(case): case.over(FROM_BF16, "fixed16") for case in cases})}
    return tree


def shown(case):
    return case.name.replace(",", "×")


@needs("half_errors.json")
def half_errors(data):
    """By distribution, length and head size; and what the errors of the formats are of fixed16's."""
    half = Half(data)
    tree = {"count": len(half.errors), "torch": data.half_errors["torch"].partition("+")[0],
            "not_above": {form: len(half.not_above(form)) for form in FORMATS},
            "over_fixed16": {form: extremes({f"{case.title}, {case.shape}": case.over_fixed16(form)
                                             for case in half.errors}) for form in FORMATS}}
    for name, cases in half.by_distribution().items():
        tree[name] = {form: extremes({case.shape: case.over_fixed16(form) for case in cases}) for form in FORMATS}
        for case in cases:
            tree[name].setdefault(f"n{case.tokens}", {})[f"d{case.dim}"] = {
                **{name_of(who): error for who, error in case.largest.items()},
                **{f"{form}_over_fixed16": case.over_fixed16(form) for form in FORMATS}}
    return tree


# ---- Half precision's own kernels


def counted_ladder(data, ladder, profile):
    """By head size and kernel; and what the profiler counted of it."""
    tree = {}
    for dim, rungs in half_ladder(data, ladder).items():
        of_dim, before = {"rungs": len(rungs)}, None
        for rung in rungs:
            of_dim[rung.kernel] = timing(rung.seconds, rung.flop)
            if before:
                of_dim[rung.kernel]["speed_up"] = before.seconds.mid / rung.seconds.mid
            of_dim[rung.kernel]["over_first"] = rungs[0].seconds.mid / rung.seconds.mid
            before = rung
        of_dim[before.kernel]["over_second"] = rungs[min(1, len(rungs) - 1)].seconds.mid / before.seconds.mid
        of_dim["last"] = {"name": before.kernel, **of_dim[before.kernel]}
        tree[f"d{dim}"] = of_dim
    for launch in data.documents.get(profile, {"launches": []})["launches"]:
        of_kernel = tree.get(f"d{launch['dim']}", {}).get(launch["kernel"])
        if of_kernel is not None:
            of_kernel.update({key: launch["metrics"].get(key) for key in
                              ("tensor_pipe_pct", "issue_slots_busy_pct", "registers", "l2_throughput_pct")})
            if tree[f"d{launch['dim']}"]["last"]["name"] == launch["kernel"]:
                tree[f"d{launch['dim']}"]["last"].update(of_kernel)
    return tree


@needs("half_ladder.json", "profile_half.json")
def ladder(data):
    return counted_ladder(data, "half_ladder.json", "profile_half.json")


@needs("fixed16_ladder.json")
def fixed16_ladder(data):
    return counted_ladder(data, "fixed16_ladder.json", "profile_fixed16.json")


def ratios_of(cases, who, other):
    return extremes({f"{case.text}, {'causal' if case.mask == 'causal' else 'no mask'}": case.over(who, other)
                     for case in cases})


def turns_of(cases, document):
    """By shape and mask; and over all what bf16 and fp16 are of the others."""
    tree = {"rounds": document["rounds"], "count": len(cases), "torch": document["torch"]["torch"].partition("+")[0],
            "fp16_over_bf16": ratios_of(cases, "fp16", "bf16")}
    for who in HALF_TYPES:
        tree[who] = {"over_flash2": ratios_of(cases, who, f"flash2 {who}"),
                     "over_cudnn": ratios_of(cases, who, f"cudnn {who}")}
    for case in cases:
        tree.setdefault(name_of(case.name), {})[case.mask] = {
            name_of(who): timing(case.seconds(who), case.record["flop"]) for who in case.record["seconds"]}
    return tree


@needs("half_rounds.json")
def in_turns(data):
    return turns_of(half_rounds(data), data.documents["half_rounds.json"])


@needs("half_backward.json")
def gradients(data):
    """Also what the order of dQ's parts costs, and a kernel of its own for dQ."""
    cases = half_gradients(data)
    tree = turns_of(cases, data.documents["half_backward.json"])
    return {**tree, "any_order": ratios_of(cases, ANY_ORDER, "bf16"), "apart": ratios_of(cases, APART, "bf16")}


@needs("half_lengths.json")
def lengths(data):
    tree = {}
    for dim, by_mask in half_lengths(data).items():
        for mask, cases in by_mask.items():
            found = {"over_flash2": ratios_of(cases, "bf16", FLASH2), "over_cudnn": ratios_of(cases, "bf16", CUDNN)}
            for case in cases:
                found[f"n{case.tokens}"] = {name_of(who): timing(case.seconds(who), case.record["flop"])
                                            for who in case.record["seconds"]}
            tree.setdefault(f"d{dim}", {})[mask] = found
    return tree


@needs("half_errors.json")
def own_errors(data):
    """hw4's largest errors over FlashAttention-2's in the same type."""
    errors = Half(data).errors
    return {who: extremes({f"{case.title}, {case.shape}": case.largest[f"hw4_{who}"] / case.largest[f"flash2 {who}"]
                           for case in errors}) for who in HALF_TYPES}


@needs("rounds.json", "half_errors.json")
def exactness(data):
    """What each exact contract takes over the fastest that is not."""
    tree = {"same_accuracy": SAME_ACCURACY}
    for cost in costs(data):
        tree[cost.exact.who] = {"error": cost.exact.error, "tflops": cost.exact.rate,
                                "over_as_accurate": cost.over_as_accurate, "over_fastest": cost.over_fastest}
    return tree


FACTS = {"fixed16": fixed16, "rounds": rounds, "half_errors": half_errors, "half_ladder": ladder,
         "fixed16_ladder": fixed16_ladder,
         "half_rounds": in_turns, "half_gradients": gradients, "half_lengths": lengths,
         "half_own_errors": own_errors, "exactness": exactness}
