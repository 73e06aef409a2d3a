"""The expected form of each file in report/data, checked on reading, so that later code can rely on it.

A schema is a type (number, positive, whole, text, flag, anything); a list [schema] of any length; a dict of required
fields, where more are allowed; some(schema), a list that is not empty; each(schema), an object with any fields;
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

COMMON = {
    "command": [text],
    "complete": exactly(True),  # a run that was cut short is refused
    "wall_seconds": number,
    "machine": {"system": text, "processor": text, "processors": whole, "python": text, "gpus": [text]},
    "git": {"commit": text, "dirty": flag},
    "compilers": [text],
    "build": {"cpp": maybe(text), "cu": maybe(text)},
}
CLEAN = {**COMMON, "git": {"commit": text, "dirty": exactly(False)}, "torch": text}  # comparisons
SHAPE = {"batches": whole, "tokens": whole, "dim": whole}
LADDER = some({**SHAPE, "kernel": text, "cuda": text, "seconds": SAMPLES})
ERRORS = {"largest": number, "largest_of_row": number, "rms": number}
HALF_ERRORS = {**ERRORS, "largest": positive}  # for logarithmic axes and ratios
STAGES = ("driver", "context", "pin", "allocate", "load", "prepare", "read", "check", "copy_in", "kernel", "copy_out",
          "write", "release")
# The output of hw4 --json; it once had `tokens`, now `queries` and `keys`.
RUN = {"batches": whole, "dim": whole, "kernel": text, "streams": whole, "copies": text, "readers": whole,
       "writers": whole, "chunk_batches": whole, "staging_bytes": whole, "host_peak_bytes": whole,
       "device_peak_bytes": whole,
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
PASS = {"status": text}  # and measurements, where it is ok
SUMS = {"count": whole, "term": positive,
        "sums": some({"term": text, "sum": text, "chain": maybe(whole), "result": number, "exact": number})}
TRACE = {"traceEvents": some({"ph": text, "name": text, "pid": whole})}

# The common fields of all rows of a measurement with several ranks.
BY_RANKS = {"device": text, "ranks": whole, "cards": whole, "shares_cards": flag, "status": text, "samples": [positive]}
PHASES = ("forward", "backward", "optimizer", "step")
MEAN = {"mean": maybe(positive), "std": maybe(number)}
STEP = {**BY_RANKS, **{name: text for name in ("model", "contract", "attention")}, "shard": flag, "step": MEAN,
        **{name: whole for name in ("batch_size", "seq_len", "warmup")},
        **{name: {**MEAN, "operations": each({"seconds": number})} for name in PHASES[:-1]}}
SWEEP = {**COMMON, "settings": each(anything),
         "rows": some({"forward": PASS, "backward": PASS, "forward_backward": PASS})}
DOCUMENTS = {
    **{f"{name}.json": {**CLEAN, "device": text, "rows": some({
        **{field: text for field in ("section", "regime", "values", "dtype", "passes", "contract", "unit")},
        "cell": [whole], "causal": flag, "amount": positive, "rounds": whole, "peers": each(anything),
        "series": each({"seconds": SAMPLES, "mhz": SAMPLES, "watts": SAMPLES})})}
       for name in ("beside", "beside_cudnn", "beside_decode")},
    **{f"{name}ladder.json": {**COMMON, "contract": text, "ladder": LADDER}
       for name in ("", "fixed_", "fixed16_", "half_", "backward_")},
    "cpu.json": {**COMMON, "case": text, "cases": some({"contract": text, "kernel": text, "threads": whole,
                                                        "flop": positive, "seconds": SAMPLES})},
    "ablation.json": {**COMMON, "cells": some({"kernel": text, "without": text, "shape": text, "flop": positive,
                                               "seconds": SAMPLES})},
    "profile_ladder.json": PROFILE,
    "profile_cases.json": PROFILE,
    "profile_fixed.json": PROFILE,
    "profile_fixed16.json": PROFILE,
    "profile_half.json": PROFILE,
    "accuracy.json": {
        **COMMON, "torch": text,
        "cases": some({**SHAPE, "name": text,
                       "largest_errors": {"hw4": number, "hw4_fixed": number, "efficient": number, "naive": number}})},
    "distributions.json": {
        **COMMON, "torch": text, "distributions": each(text),
        "cases": some({**SHAPE, "distribution": text,
                       "errors": {"hw4": ERRORS, "hw4_fixed": ERRORS, "efficient": ERRORS, "naive": ERRORS}})},
    "half_errors.json": {
        **COMMON, "torch": text, "distributions": each(text),
        "cases": some({**SHAPE, "distribution": text,
                       "errors": {program: HALF_ERRORS for program in
                                  ("hw4", "hw4_fixed", "hw4_fixed16", "hw4_bf16", "hw4_fp16", "efficient",
                                   "flash2 bf16", "cudnn bf16", "flash2 fp16", "naive tf32")}})},
    "sequential.json": {
        **COMMON, "cases": some({**SHAPE, "name": text, "flop": positive, "measured_batches": whole,
                                 "seconds": SAMPLES})},
    "files.json": {
        **COMMON, "runs": whole,
        "cases": some({"name": text, "seconds": each(SAMPLES), "stages": RUN}),
        "memory": {"case": text, "hw4_bytes": whole, "context_bytes": whole, "beyond_bytes": whole},
        "start_up": {"return": {"outside_steps_seconds": number, "steps": some(text)}}},
    "t22_streams4.trace.json": TRACE,
    "t22_streams1.trace.json": TRACE,
    **{f"{name}.json": SWEEP for name in ("lab5", "half_lengths", "cs336_attention", "warmups")},
    "memory.json": {
        **SWEEP, "tracks": some({"cell": text, "pass": text, "purpose": some(text), "bytes": some(whole),
                                 "taken": some(whole)})},
    "accumulate.json": {**COMMON, "by_device": each(SUMS)},
    "collectives.json": {
        **COMMON, "allreduce": some({**BY_RANKS, "via": text, "size": whole}),
        "gradients": some({**BY_RANKS, "model": text, "way": text, "bytes": whole, "calls": whole})},
    "training.json": {**COMMON, "rows": some(STEP)},
    "training_beside.json": {**CLEAN, "rows": some({
        "model": text, "program": text, "precision": text, "ratio": positive, "milliseconds": each(SAMPLES),
        "hw4_milliseconds": some(each(SAMPLES))})},
    # Numbers that others have published.
    "published.json": {"source": text, "where": text, "gpu": text, "type": text, "shapes": text,
                       "rates": some({"tokens": whole, "dim": whole, "causal": flag, "tflops": positive})},
}


def check(value, schema, file, place=""):
    """Raises Failed with the file and the unexpected field."""
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
