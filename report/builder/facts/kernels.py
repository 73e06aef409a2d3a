"""The kernels alone: the ladder, the cases, lengths, tile sizes, errors."""
from __future__ import annotations

from .. import sources
from ..measured import LADDER_CASES, flop
from ..spread import Spread
from .common import extremes, name_of, timing


def ladder(data):
    peak = data.profile["device"]["peak_flop_per_second"] * 1e-12
    sgemm = data.kernels["sgemm"]["tflops"]
    tree = {"rungs": len(data.rungs), "first": data.rungs[0], "last": data.rungs[-1], "chosen": data.chosen}
    for case in LADDER_CASES:
        rungs = data.ladder(case)
        tree[case] = {}
        for before, rung in zip([None, *rungs], rungs):
            tree[case][rung.kernel] = {
                **timing(rung.seconds, rung.flop), "idea": sources.idea(rung.kernel),
                "speed_up": before.seconds.mid / rung.seconds.mid if before else 1.0,  # over the rung before
                "over_first": rungs[0].seconds.mid / rung.seconds.mid,
                "of_peak_pct": 100 * rung.tflops.mid / peak, "of_sgemm_pct": 100 * rung.tflops.mid / sgemm}
        gains = {name: facts["speed_up"] for name, facts in list(tree[case].items())[1:]}
        tree[case]["gain"] = extremes(gains)  # .most.case is the rung that brings most
    return tree


def of_shape(shape, sgemm):
    return {"batches": shape.batches, "tokens": shape.tokens, "dim": shape.dim, "kernel": shape.kernel,
            **timing(shape.hw4, shape.flop), "gflop": shape.flop * 1e-9,
            "torch": {name: timing(spread, shape.flop) for name, spread in shape.torch.items()},
            "torch_ms": shape.torch_best.mid * 1e3, "torch_tflops": shape.tflops(shape.torch_best).mid,
            "torch_backend": shape.torch_backend, "speed_up": shape.speed_up,
            "of_sgemm_pct": 100 * shape.tflops(shape.hw4).mid / sgemm}


def cases(data):
    sgemm = data.kernels["sgemm"]["tflops"]
    tree = {name_of(shape.name): of_shape(shape, sgemm) for shape in data.shapes}
    course = data.cases
    speed_ups = {case.name: case.speed_up for case in course}
    tree["count"] = len(course)
    tree["faster_than_torch"] = sum(value > 1 for value in speed_ups.values())
    tree["speed_up"] = extremes(speed_ups)
    tree["tflops"] = extremes({case.name: case.tflops(case.hw4).mid for case in course})
    for dim in sorted({case.dim for case in course}):
        tree[f"tflops_d{dim}"] = extremes({case.name: case.tflops(case.hw4).mid for case in course if case.dim == dim})
        tree[f"speed_up_d{dim}"] = extremes({case.name: case.speed_up for case in course if case.dim == dim})
    return tree


def lengths(data):
    sgemm = data.lengths["sgemm"]["tflops"]
    tree = {}
    for shape in data.length_shapes:
        tree.setdefault(f"d{shape.dim}", {})[f"n{shape.tokens}"] = of_shape(shape, sgemm)
    for dim, of_dim in list(tree.items()):
        for quantity in ("tflops", "torch_tflops", "speed_up"):
            tree[dim][quantity] = extremes({name: facts[quantity] for name, facts in of_dim.items()
                                            if name.startswith("n")})
    return tree


def tilings(data):
    found = data.tilings["tilings"]
    tree = {f"{cell['rows']}x{cell['keys']}": {
        **timing(Spread.of(cell["seconds"]), flop(cell["batches"], cell["tokens"], cell["dim"])),
        "registers": cell["registers"], "shared_kib": cell["shared_bytes"] / 1024,
        "blocks_per_multiprocessor": cell["blocks_per_multiprocessor"]} for cell in found}
    rates = {name: facts["tflops"] for name, facts in tree.items()}
    return {**tree, "tflops": extremes(rates), "count": len(found), "left_out": len(data.tilings["left_out"])}


def accuracy(data):
    found = data.accuracy["cases"]
    errors = {case["name"]: case["largest_errors"] for case in found}
    tree = {**errors, "count": len(found)}
    for who in ("hw4", "hw4_fixed", "efficient", "naive"):
        tree[who] = extremes({name: values[who] for name, values in errors.items()})
    for who in ("hw4", "hw4_fixed"):
        tree[f"{who}_not_above_efficient"] = sum(values[who] <= values["efficient"] for values in errors.values())
        tree[f"{who}_below_naive"] = sum(values[who] < values["naive"] for values in errors.values())
    return tree
