"""The facts: a tree of numbers, texts and counts from the data, which templates name by dotted paths.

Times are in milliseconds (ms, ms_p20, ms_p80, best_ms), rates in tflops, shares in percent (..._pct), ratios as such.
`report/build --facts` prints all of them with their values.
"""
from __future__ import annotations

from .. import sources
from . import kernels, machine, profiles, runs


def all_facts(data) -> dict:
    return {"machine": machine.machine(data), "peak": machine.peaks(data), "ladder": kernels.ladder(data),
            "cases": kernels.cases(data), "lengths": kernels.lengths(data), "tilings": kernels.tilings(data),
            "accuracy": kernels.accuracy(data), "profile": profiles.profile(data),
            "profile_of_cases": profiles.profile_of_cases(data), "files": runs.files(data),
            "pipeline": runs.pipeline(data), "steps": runs.steps(data), "seq": runs.sequential(data),
            "cpu": runs.cpu(data), "code": sources.constants()}


def listed(facts, prefix=""):
    """(path, value) of every fact, in order."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from listed(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
