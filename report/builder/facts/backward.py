"""The backward pass."""
from __future__ import annotations

from ..measured_backward import GRADIENTS, MASKS, Backward
from .common import extremes, name_of, timing


def backward(data):
    found = Backward(data)
    return {"runs": data.backward["runs"], "torch": data.backward["torch"]["torch"].partition("+")[0],
            "ladder": ladder(found), **beside_torch(found), "memory": memory(found), "cpu": cpu(found),
            "errors": errors(found), "lengths": lengths(found)}


PAIR_BYTES = 20  # P and dS, written once; read for dV, and for dK and dQ


def ladder(found):
    tree, before = {name: found.ladder_shape[name] for name in ("batches", "tokens", "dim")}, None
    for rung, line in zip(found.ladder, found.document["ladder"]):
        tree[rung.kernel] = {**timing(rung.seconds, rung.flop), "scratch_mb": line["scratch_bytes"] * 1e-6}
        if before:
            tree[rung.kernel]["speed_up"] = before.seconds.mid / rung.seconds.mid
        before = rung
    return tree


def beside_torch(found):
    """By shape and mask; over all shapes of a mask PyTorch's time over ours; and how much of the rate the mask leaves."""
    tree, speed_ups, left = {}, {mask: {} for mask in MASKS}, {}
    for name, by_mask in found.shapes.items():
        shown = name.replace(",", "×")
        tree[name_of(name)] = {mask: {"hw4": timing(case.hw4.seconds, case.hw4.flop),
                                      "torch": timing(case.torch.seconds, case.torch.flop), "speed_up": case.speed_up}
                               for mask, case in by_mask.items()}
        pairs = by_mask["none"].hw4.flop / (10 * int(name.rpartition(",")[2]))
        tree[name_of(name)]["pairs_tb_per_second"] = PAIR_BYTES * pairs * 1e-12 / by_mask["none"].hw4.seconds.mid
        for mask, case in by_mask.items():
            speed_ups[mask][shown] = case.speed_up
        left[shown] = by_mask["causal"].hw4.tflops.mid / by_mask["none"].hw4.tflops.mid
    return {"shapes": tree, "speed_up": {mask: extremes(values) for mask, values in speed_ups.items()},
            "causal_over_full": extremes(left)}


def memory(found):
    tree = {name: found.memory_shape[name] for name in ("batches", "tokens", "dim")}
    for budget in found.budgets:
        tree[budget.asked_mib] = {"taken_mib": budget.taken_mib, "tflops": budget.rate.mid}
    most = found.budgets[-1].rate.mid
    for budget in found.budgets:
        tree[budget.asked_mib]["of_all_pct"] = 100 * budget.rate.mid / most
    return tree


def cpu(found):
    told, spreads = found.document["cpu"], found.cpu
    over = {who: spreads[who].mid / spreads["hw4"].mid for who in ("sdpa", "naive")}
    return {**dict(zip(("batches", "tokens", "dim"), told["shape"])), "threads": told["threads"],
            "kernel": told["kernel"], **{who: timing(spread) for who, spread in spreads.items()},
            "over_sdpa": over["sdpa"], "over_naive": over["naive"], "over_torch": min(over.values())}


def errors(found):
    """Of the cases' gradients that PyTorch gives too."""
    compared = found.compared
    tree = {"cases": len(found.document["errors"]), "compared": len(compared), "gradients": 3 * len(compared)}
    for gradient in GRADIENTS:
        tree[gradient] = {"not_above": sum(case.not_above(gradient) for case in compared.values()),
                          "ratio": extremes(found.ratios(gradient))}
    tree["not_above"] = sum(tree[gradient]["not_above"] for gradient in GRADIENTS)
    return tree


def lengths(found):
    tree = {}
    for tokens, case in found.lengths.items():
        tree[f"n{tokens}"] = {"hw4": dict(case.hw4), "efficient": dict(case.efficient)}
    for gradient in GRADIENTS:
        tree[gradient] = {"ratio": extremes({str(tokens): case.ratio(gradient)
                                             for tokens, case in found.lengths.items()})}
    return tree
