"""What the builder expects of each file in report/data, checked when it is read: what comes after can rely on it.

A schema is a type (number, positive, error, whole, text, flag, anything); a list [schema] of any length; a dict of
fields that must be there, more may be; some(schema), a list that is not empty; each(schema), an object with any fields;
maybe(schema), or null; exactly(value).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import Failed


class Type(NamedTuple):
    name: str
    holds: Callable[[Any], bool]


class Of(NamedTuple):
    kind: str  # each, maybe, some
    schema: Any


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


number = Type("a number", is_number)
positive = Type("a number above 0", lambda value: is_number(value) and value > 0)
# The largest of a result: NaN or infinite where the result is.
error = Type("a number", lambda value: isinstance(value, float) or is_number(value))
whole = Type("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
text = Type("a text", lambda value: isinstance(value, str))
flag = Type("true or false", lambda value: isinstance(value, bool))
anything = Type("anything", lambda value: True)


def exactly(expected):
    return Type(repr(expected).lower(), lambda value: value is expected)


def each(schema):
    return Of("each", schema)


def maybe(schema):
    return Of("maybe", schema)


def some(schema):
    """A list that is not empty."""
    return Of("some", schema)


SAMPLES = some(positive)
KERNEL, TORCH = {"kernel": text, "seconds": SAMPLES}, {"torch": text, "cuda": text}

COMMON = {
    "command": [text],
    "complete": exactly(True),  # a run that was cut short is no report
    "wall_seconds": number,
    "machine": {"system": text, "processor": text, "processors": whole, "python": text, "gpus": [text]},
    "git": {"commit": text, "dirty": flag},
    "compilers": [text],
    "build": {"cpp": maybe(text), "cu": maybe(text)},
}
SHAPE = {"batches": whole, "tokens": whole, "dim": whole}
CLOCKS = {"name": text, "driver": text, "sm_clock_mhz": maybe(number), "sm_clock_max_mhz": maybe(number),
          "memory_clock_mhz": maybe(number), "temperature_c": maybe(number), "power_w": maybe(number),
          "power_limit_w": maybe(number)}
TIMED_SHAPE = {**SHAPE, "name": text, "hw4": KERNEL,
               "torch": each({"seconds": [positive]}), "torch_best": text, "tflops": positive,
               "speed_up": maybe(positive), "of_sgemm": maybe(positive)}
BY_MASK = {mask: KERNEL for mask in ("none", "causal")}
LADDER = some({**SHAPE, "kernel": text, "cuda": text, "seconds": SAMPLES})
GRADIENT_ERRORS = {gradient: error for gradient in ("dQ", "dK", "dV")}
ERRORS = {"largest": number, "largest_of_row": number, "rms": number}
HALF_ERRORS = {**ERRORS, "largest": positive}  # stands on a logarithmic axis and under ratios
SGEMM = {"size": whole, "tflops": positive, "begin": {"tflops": number}, "end": {"tflops": number}}
STAGES = ("driver", "context", "pin", "allocate", "load", "prepare", "read", "check", "copy_in", "kernel", "copy_out",
          "write", "release")
# What hw4 --json writes; of the lengths it wrote `tokens` once, `queries` and `keys` now.
RUN = {"batches": whole, "dim": whole, "kernel": text, "streams": whole, "copies": text, "readers": whole, "writers": whole,
       "chunk_batches": whole, "staging_bytes": whole, "host_peak_bytes": whole, "device_peak_bytes": whole,
       "read_bytes": whole, "write_bytes": whole, "overlap": number, "total_seconds": number,
       **{f"{stage}_seconds": number for stage in STAGES}}
PROFILE = {
    **COMMON,
    "launches": some({**SHAPE, "case": text, "kernel": text, "function": text, "metrics": each(maybe(number)),
                      "stalls": each(maybe(number))}),
    "metrics": [{"key": text, "label": text, "unit": text}],
    "ncu": {"version": text},
    "device": {"name": text, "multiprocessors": number, "clock_hz": positive, "peak_flop_per_second": positive,
               "peak_dram_bytes_per_second": positive},
}
IN_TURNS = {**COMMON, "torch": TORCH, "runs": whole, "rounds": whole,
            "cases": some({**SHAPE, "name": text, "mask": text, "flop": positive, "seconds": each(SAMPLES)})}
PASS = {"status": text}  # and what was measured, where it is ok
SWEEP = {**COMMON, "torch": maybe(text), "cut_short": flag, "settings": each(anything),
         "rows": some({"forward": PASS, "backward": PASS, "forward_backward": PASS})}
SUMS = {"count": whole, "term": positive,
        "sums": some({"term": text, "sum": text, "chain": maybe(whole), "result": number, "exact": number})}
TRACE = {"traceEvents": some({"ph": text, "name": text, "pid": whole})}

# What all rows of a measurement by several ranks have.
BY_RANKS = {"device": text, "ranks": whole, "cards": whole, "shares_cards": flag, "status": text, "samples": [positive]}
DOCUMENTS = {
    "kernels.json": {
        **COMMON, "gpu": {"at_start": some(CLOCKS), "at_end": some(CLOCKS)},
        "torch": TORCH, "runs": whole, "sgemm": SGEMM, "shapes": some(TIMED_SHAPE),
        "ladder": LADDER},
    "kernels_fixed.json": {
        **COMMON, "torch": TORCH, "runs": whole, "sgemm": SGEMM,
        "fixed": {"shapes": some({**TIMED_SHAPE, "f32": KERNEL, "over_f32": positive}), "ladder": LADDER}},
    "lengths.json": {**COMMON, "sgemm": SGEMM, "shapes": some(TIMED_SHAPE)},
    "tilings.json": {
        **COMMON, "left_out": [{"rows": whole, "keys": whole, "why": text}],
        "tilings": some({**SHAPE, "rows": whole, "keys": whole, "seconds": SAMPLES, "registers": whole,
                         "shared_bytes": whole, "blocks_per_multiprocessor": whole})},
    "files.json": {
        **COMMON, "runs": whole,
        "cases": some({"name": text, "seconds": each(SAMPLES), "stages": RUN}),
        "memory": {"case": text, "hw4_bytes": whole, "context_bytes": whole, "beyond_bytes": whole},
        "start_up": {"return": {"outside_steps_seconds": number, "steps": some(text)}}},
    "t22_streams4.trace.json": TRACE,
    "t22_streams1.trace.json": TRACE,
    "steps.json": {
        **COMMON, "case": text,
        "steps": some({"label": text, "kernel": text, "streams": whole, "copies": text, "seconds": SAMPLES,
                       "kernel_seconds": SAMPLES})},
    "accuracy.json": {
        **COMMON, "torch": text,
        "cases": some({**SHAPE, "name": text,
                       "largest_errors": {"hw4": number, "hw4_fixed": number, "efficient": number, "naive": number}})},
    "distributions.json": {
        **COMMON, "torch": text, "distributions": each(text),
        "cases": some({**SHAPE, "distribution": text,
                       "errors": {"hw4": ERRORS, "hw4_fixed": ERRORS, "efficient": ERRORS, "naive": ERRORS}})},
    "rounds.json": IN_TURNS,
    "half_errors.json": {
        **COMMON, "torch": text, "distributions": each(text),
        "cases": some({**SHAPE, "distribution": text,
                       "errors": {who: HALF_ERRORS for who in
                                  ("hw4", "hw4_fixed", "hw4_fixed16", "hw4_bf16", "hw4_fp16", "efficient",
                                   "flash2 bf16", "cudnn bf16", "flash2 fp16", "naive tf32")}})},
    "half_rounds.json": IN_TURNS,
    "half_backward.json": IN_TURNS,
    "half_lengths.json": IN_TURNS,
    "half_ladder.json": {**COMMON, "contract": text, "ladder": LADDER},
    "profile_half.json": PROFILE,
    "fixed16_ladder.json": {**COMMON, "contract": text, "ladder": LADDER},
    "profile_fixed16.json": PROFILE,
    **{f"{name}.json": SWEEP for name in ("lab5", "lab5_sweep", "cs336_attention", "cs336_flash", "warmups")},
    "memory.json": {
        **SWEEP, "tracks": some({"cell": text, "pass": text,
                                 "events": some({"microseconds": number, "purpose": text, "bytes": whole,
                                                 "taken": whole})})},
    "accumulate.json": {**COMMON, "by_device": each(SUMS)},
    "collectives.json": {
        **COMMON, "allreduce": some({**BY_RANKS, "via": text, "size": whole}),
        "gradients": some({**BY_RANKS, "model": text, "way": text, "bytes": whole, "calls": whole})},
    "values.json": {
        **COMMON, "torch": TORCH, "runs": whole, "kinds": each(text),
        "cases": some({**SHAPE, "kind": text, "hw4": KERNEL,
                       "hw4_fixed": KERNEL, "torch": {"seconds": SAMPLES}})},
    "causal.json": {
        **COMMON, "torch": TORCH, "runs": whole,
        "cases": some({**SHAPE, "hw4": BY_MASK, "hw4_fixed": BY_MASK, "torch": {"seconds": SAMPLES}})},
    "backward.json": {
        **COMMON, "torch": TORCH, "runs": whole,
        "ladder": some({**SHAPE, "kernel": text, "scratch_bytes": whole, "seconds": SAMPLES}),
        "bars": some({"mask": text, "hw4": {**SHAPE, "kernel": text, "seconds": SAMPLES},
                      "torch": {"seconds": SAMPLES}}),
        "memory": some({**SHAPE, "budget_mib": text, "scratch_bytes": whole, "seconds": SAMPLES}),
        "cpu": {"shape": some(whole), "threads": whole, "kernel": text, "hw4": SAMPLES, "sdpa": SAMPLES,
                "naive": SAMPLES},
        "errors": some({"case": text, "hw4": GRADIENT_ERRORS, "efficient": maybe(GRADIENT_ERRORS)}),
        "lengths": some({"tokens": whole, "hw4": GRADIENT_ERRORS, "efficient": GRADIENT_ERRORS})},
    "cpu.json": {
        **COMMON,
        "cases": some({"case": text, "flop": positive, "kernel": text, "threads": whole,
                       "seconds": {"hw4": SAMPLES, "from_file": SAMPLES, "torch": [positive], "seq": [positive]}})},
    "cpu_contracts.json": {
        **COMMON,
        "cases": some({"case": text, "contract": text, "flop": positive, "kernel": text, "threads": whole,
                       "seconds": {"hw4": SAMPLES, "from_file": SAMPLES, "torch": SAMPLES}})},
    "sequential.json": {
        **COMMON, "cases": some({**SHAPE, "name": text, "measured_batches": whole, "seconds": SAMPLES})},
    "profile_ladder.json": PROFILE,
    "profile_cases.json": PROFILE,
    "profile_fixed.json": PROFILE,
}

# Those without which the report lacks a chapter or a figure and is built all the same.
OPTIONAL = ("rounds.json", "half_errors.json", "half_rounds.json", "half_backward.json", "half_lengths.json",
            "half_ladder.json", "profile_half.json", "fixed16_ladder.json", "profile_fixed16.json",
            "cpu_contracts.json", "lab5.json", "lab5_sweep.json", "cs336_attention.json", "cs336_flash.json",
            "warmups.json", "memory.json", "accumulate.json", "collectives.json")


def check(value, schema, file, place=""):
    """Raises Failed with the file and the field that is not as expected."""
    def fail(expected):
        raise Failed(f"{file}: {place.lstrip('.') or 'the whole'}: expected {expected}, got {_shown(value)}")

    def inside(of, parts):
        for where, part in parts:
            check(part, of, file, f"{place}{where}")

    kind = schema.kind if isinstance(schema, Of) else None
    if kind == "maybe":
        if value is not None:
            check(value, schema.schema, file, place)
    elif isinstance(schema, Type):
        if not schema.holds(value):
            fail(schema.name)
    elif kind == "some" or isinstance(schema, list):
        if not isinstance(value, list):
            fail("a list")
        if kind and not value:
            fail("a list with something in it")
        inside(schema.schema if kind else schema[0], ((f"[{index}]", part) for index, part in enumerate(value)))
    elif not isinstance(value, dict):
        fail("an object")
    elif kind == "each":
        inside(schema.schema, ((f".{name}", part) for name, part in value.items()))
    else:
        for name, part in schema.items():
            if name not in value:
                raise Failed(f"{file}: {f'{place}.{name}'.lstrip('.')}: missing")
            check(value[name], part, file, f"{place}.{name}")


def _shown(value):
    if isinstance(value, dict):
        return "an object"
    return "a list" + ("" if value else " with nothing in it") if isinstance(value, list) else repr(value)
