"""hw4 beside half precision: the rounds, and the errors."""
from __future__ import annotations

from ..measured_half import CUDNN, FLASH2, FORMATS, MASKS, PAIR_PRODUCTS, PAIR_ROOF, Half
from .common import extremes, name_of, timing
from .fixed import BYTES_PER_CYCLE, TILE_SCORES

BESIDE = {"flash2": FLASH2, "cudnn": CUDNN, "fixed": "fixed"}  # what fixed16's rates are divided by


def rounds(data):
    """By shape, mask and who; and by mask over all shapes what fixed16 is of the others."""
    half = Half(data)
    tree = {"rounds": data.rounds["rounds"], "runs": data.rounds["runs"], "shapes": len(half.under("none")),
            "torch": data.rounds["torch"]["torch"].partition("+")[0],
            "roof": {"tflops": PAIR_ROOF, "byte_products": PAIR_PRODUCTS},
            # As fixed.tensor_cycles_per_tile, of as many scores.
            "tensor_cycles_per_tile": 2 * PAIR_PRODUCTS * TILE_SCORES * 64 / BYTES_PER_CYCLE}
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
    return tree


def shown(case):
    return case.name.replace(",", "×")


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
