"""The contract fixed: its kernels beside those of f32, its roof, its errors."""
from __future__ import annotations

from ..measured import BYTE_PRODUCTS, INTEGER_OPERATIONS, INTEGER_ROOF
from .common import extremes, name_of, timing
from .profiles import LANES, of_launch

TILE_SCORES = 64 * 64  # of 64 query rows and a tile of keys
ISSUED_PER_CYCLE = 4  # instructions of warps, by a multiprocessor
BYTES_PER_CYCLE = 4096  # multiply-adds, by its tensor cores


def of_case(data, shape):
    f32 = data.f32_beside(shape.name)
    rate = shape.tflops(shape.hw4).mid
    return {"batches": shape.batches, "tokens": shape.tokens, "dim": shape.dim, "kernel": shape.kernel,
            **timing(shape.hw4, shape.flop), "f32_tflops": shape.tflops(f32).mid, "over_f32": f32.mid / shape.hw4.mid,
            "torch_tflops": shape.tflops(shape.torch_best).mid, "speed_up": shape.speed_up,
            "of_roof_pct": 100 * rate / INTEGER_ROOF}


def ladder_of(data, shape):
    rungs = data.fixed_ladder(shape.name)
    return {rung.kernel: {**timing(rung.seconds, rung.flop), "of_roof_pct": 100 * rung.tflops.mid / INTEGER_ROOF,
                          "speed_up": before.seconds.mid / rung.seconds.mid if before else 1.0}
            for before, rung in zip([None, *rungs], rungs)}


def of_profile(data, kernel):
    launch = data.fixed_launch(kernel)
    found = of_launch(launch, data.profile_of_fixed["device"])
    scores = launch["batches"] * launch["tokens"] ** 2
    instructions = launch["metrics"].get("instructions")
    found["instructions_per_score"] = None if instructions is None else LANES * instructions / scores
    found["issue_cycles_per_tile"] = (None if instructions is None
                                      else instructions / (scores / TILE_SCORES) / ISSUED_PER_CYCLE)
    return found


def fixed(data):
    shapes = data.fixed_shapes
    return {
        "cases": {name_of(shape.name): of_case(data, shape) for shape in shapes},
        "ladder": {name_of(shape.name): ladder_of(data, shape) for shape in shapes},
        "profile": {kernel: of_profile(data, kernel) for kernel in data.fixed_rungs},
        "over_f32": extremes({shape.name: data.f32_beside(shape.name).mid / shape.hw4.mid for shape in shapes}),
        "speed_up": extremes({shape.name: shape.speed_up for shape in shapes}),
        "tflops": extremes({shape.name: shape.tflops(shape.hw4).mid for shape in shapes}),
        "count": len(shapes), "rungs": len(data.fixed_rungs), "runs": data.kernels_fixed["runs"],
        "sgemm_tflops": data.kernels_fixed["sgemm"]["tflops"],
        # What the products of a tile take of the tensor cores at d = 64: the scores and as much again for the outputs.
        "tensor_cycles_per_tile": 2 * BYTE_PRODUCTS * TILE_SCORES * 64 / BYTES_PER_CYCLE,
        "roof": {"tops": INTEGER_OPERATIONS * 1e-12, "tflops": INTEGER_ROOF, "byte_products": BYTE_PRODUCTS,
                 "over_float32": INTEGER_OPERATIONS / data.profile["device"]["peak_flop_per_second"],
                 "tflops_over_float32": INTEGER_ROOF * 1e12 / data.profile["device"]["peak_flop_per_second"]}}


def distributions(data):
    """By distribution and head size."""
    tree = {}
    for case in data.distributions["cases"]:
        errors = {who: dict(figures) for who, figures in case["errors"].items()}
        for figure in ("largest", "largest_of_row", "rms"):
            naive = errors["naive"][figure]
            errors[f"{figure}_over_naive"] = errors["hw4_fixed"][figure] / naive if naive else None
        tree.setdefault(case["distribution"], {})[f"d{case['dim']}"] = errors
    return tree
