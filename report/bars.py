"""The targets set for an H200. The report says how many are met."""
from __future__ import annotations

SMALL_CASES = tuple(f"t{number:02}" for number in range(1, 11))
COURSE_CASES = tuple(f"t{number:02}" for number in range(1, 31))
LONG_HEADS = "4,16384,128"  # no test case has d = 128

# The least of each figure, by shape. speed_up: PyTorch's time over ours; over_f32: the time of f32's kernel over ours.
KERNELS = {
    **dict.fromkeys(("t22", "t24", "t28", "t30"), {"tflops": 47, "of_sgemm": 0.92}),
    **dict.fromkeys(("t21", "t27", "t29"), {"tflops": 42}),
    LONG_HEADS: {"tflops": 46},
    **dict.fromkeys(("t11", "t13"), {"tflops": 34}),
    **dict.fromkeys(SMALL_CASES, {"speed_up": 1}),
}
FIXED = {
    **dict.fromkeys(("t28", "t30"), {"tflops": 180}),
    **dict.fromkeys(("t22", "t24"), {"tflops": 165}),
    "t29": {"tflops": 110},
    LONG_HEADS: {"tflops": 190},
    **dict.fromkeys(("t11", "t12"), {"over_f32": 1}),
}
# From file to file, by the best run of each: hw4's time is at most so many times that of a plain program.
FILES = {
    **dict.fromkeys(SMALL_CASES, ("context", 1.10)),
    **dict.fromkeys(("t28", "t30"), ("context", 1.25)),
    **dict.fromkeys(("t12", "t22"), ("plain", 0.50)),
    "total": ("plain", 0.60),  # of all course cases
}
MEMORY_BYTES = 128_000_000  # of the host, beyond those of a CUDA context


def least_met(bars, figures):
    """{name: whether every figure is at least its bar}, for the shapes that have figures."""
    return {name: all(found[figure] is not None and found[figure] >= least for figure, least in bars[name].items())
            for name, found in figures.items() if name in bars}


def file_ratios(cases):
    """{name: hw4's best time over its reference's} of the cases with a bar, and of the total where all were measured.
    cases: {name: {program: seconds of every run}}"""
    best = {name: {program: min(runs) for program, runs in seconds.items()} for name, seconds in cases.items()}
    if set(COURSE_CASES) <= set(best):
        best["total"] = {program: sum(best[name][program] for name in COURSE_CASES) for program in ("plain", "hw4")}
    return {name: best[name]["hw4"] / best[name][reference] for name, (reference, _) in FILES.items() if name in best}


def files_met(cases, beyond_bytes):
    return {**{name: ratio <= FILES[name][1] for name, ratio in file_ratios(cases).items()},
            "memory": beyond_bytes <= MEMORY_BYTES}


# {name: whether its target is met}, of each document that has targets.
VERDICTS = {
    "kernels.json": lambda document: least_met(KERNELS, {shape["name"]: shape for shape in document["shapes"]}),
    "kernels_fixed.json": lambda document: least_met(FIXED, {shape["name"]: shape for shape in
                                                             document["fixed"]["shapes"]}),
    "files.json": lambda document: files_met({case["name"]: case["seconds"] for case in document["cases"]},
                                             document["memory"]["beyond_bytes"]),
}
