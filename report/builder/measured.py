"""Reads and checks report/data; provides the views of it that facts, tables and charts share."""
from __future__ import annotations

import dataclasses
import json
import re
from statistics import median

from run_trace import Trace

from . import schema
from .errors import Failed, shown
from .sources import EXCERPTS
from .spread import Spread, drifts

# NVIDIA's peaks of an H200's tensor cores without sparsity, operations per second: for bytes, for 16-bit numbers.
BYTE_OPERATIONS, HALF_OPERATIONS = 1979e12, 989e12
MEMORY_BYTES = 4.8e12  # per second, of its datasheet too
BYTE_PRODUCTS = {"fixed": 6, "fixed16": 3}  # byte products per float product
T28 = (4, 16384, 64)
SHAPES = {T28: "t28", (4, 32768, 32): "t29", (13600, 128, 32): "t11"}
LADDERS = {"f32": "ladder", "fixed": "fixed_ladder", "fixed16": "fixed16_ladder", "bf16": "half_ladder",
           "backward": "backward_ladder"}
PROFILES = {"f32": "profile_ladder", "fixed": "profile_fixed", "fixed16": "profile_fixed16", "bf16": "profile_half"}


@dataclasses.dataclass(frozen=True)
class Rung:
    kernel: str
    seconds: Spread | None  # none where the samples drift
    flop: float

    tflops = property(lambda self: self.seconds.under(self.flop * 1e-12) if self.seconds else None)

    def over(self, before: Rung) -> float | None:
        """The speed-up over `before`."""
        return before.seconds.mid / self.seconds.mid if self.seconds and before.seconds else None


def flop(batches, tokens, dim):
    return 4 * batches * tokens * tokens * dim


def shape_of(record):
    return record["batches"], record["tokens"], record["dim"]


def shape_name(shape):
    """t28, or d64: the short name of a shape within a ladder."""
    return SHAPES.get(tuple(shape), f"d{shape[2]}")


def read_document(folder, name):
    path = folder / name
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Failed(f"{shown(path)}: missing; make measure writes it") from error
    except OSError as error:
        raise Failed(f"{shown(path)}: {error.strerror}") from error
    except ValueError as error:
        raise Failed(f"{shown(path)}: not JSON: {error}") from error
    schema.check(document, schema.DOCUMENTS[name], name)
    return document


class Measured:
    """Raises Failed where a file is missing or invalid."""

    def __init__(self, folder):
        self.documents = {name: read_document(folder, name) for name in schema.DOCUMENTS}

    def __getitem__(self, name):
        return self.documents[f"{name}.json"]

    def trace(self, streams: int) -> Trace:
        """The trace of t22."""
        name = f"t22_streams{streams}.trace.json"
        try:
            return Trace(self.documents[name]["traceEvents"])
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{name}: traceEvents: not a trace of hw4: {error}") from error

    # ---- Ladders and their profiles

    def ladders(self, contract) -> dict[str, list[Rung]]:
        """Rungs by the shape's name; `backward` is f32's. A kernel without an excerpt is none: split_bf16 is for few
        query rows."""
        found = {}
        for line in self[LADDERS[contract]]["ladder"]:
            if line["kernel"] not in EXCERPTS:
                continue
            seconds = None if drifts(line["seconds"]) else Spread.of(line["seconds"])
            work = flop(*shape_of(line)) * (2.5 if contract == "backward" else 1)
            found.setdefault(shape_name(shape_of(line)), []).append(Rung(line["kernel"], seconds, work))
        return found

    def ladder(self, contract, shape="t28") -> list[Rung]:
        return named(shape, self.ladders(contract).items(), f"{LADDERS[contract]}.json: ladder")

    def launches(self, contract, shape="t28") -> dict[str, dict]:
        """The profiles of a ladder's kernels on a shape."""
        return {launch["kernel"]: launch for launch in self[PROFILES[contract]]["launches"]
                if shape_name(shape_of(launch)) == shape}

    def launch(self, contract, kernel, shape="t28") -> dict:
        return named(kernel, self.launches(contract, shape).items(), f"{PROFILES[contract]}.json: launches: {shape}")

    @property
    def ablation(self) -> list[tuple[dict, float | None]]:
        """The cells, each with its fraction of the whole kernel's rate; None where the samples drift."""
        cells = self["ablation"]["cells"]
        whole = {cell["kernel"]: cell["seconds"] for cell in cells if cell["without"] == "nothing"}
        both = [(cell, whole[cell["kernel"]], cell["seconds"]) for cell in cells]
        return [(cell, None if drifts(before) or drifts(after) else median(before) / median(after))
                for cell, before, after in both]

    @property
    def device(self):
        return self["profile_ladder"]["device"]

    def peak(self, contract) -> float:
        """The peak in TFLOP/s of the units that the contract uses, with FLOP counted as everywhere."""
        if contract in BYTE_PRODUCTS:
            return BYTE_OPERATIONS / BYTE_PRODUCTS[contract] * 1e-12
        return (HALF_OPERATIONS if contract in ("bf16", "fp16") else self.device["peak_flop_per_second"]) * 1e-12

    # ---- From file to file, sequential

    @property
    def file_cases(self) -> list[dict]:
        return [record for record in self["files"]["cases"] if re.fullmatch(r"t\d\d", record["name"])]

    def file_case(self, name) -> dict:
        return named(name, ((record["name"], record) for record in self.file_cases), "files.json: cases")

    def sequential_case(self, name) -> tuple[Spread, dict]:
        """Seconds for all batches, scaled from the measured ones; and the record."""
        cases = ((record["name"], record) for record in self["sequential"]["cases"])
        record = named(name, cases, "sequential.json: cases")
        return Spread.of(record["seconds"]).times(record["batches"] / record["measured_batches"]), record

    # ---- Errors

    def errors(self, distribution, tokens, dim) -> dict[str, float]:
        """The largest errors of half_errors.json, by implementation."""
        cases = (((case["distribution"], case["tokens"], case["dim"]), case) for case in self["half_errors"]["cases"])
        case = named((distribution, tokens, dim), cases, "half_errors.json: cases")
        return {program: errors["largest"] for program, errors in case["errors"].items()}


def error_name(contract):
    """The name of a contract's results in the files of errors."""
    return "hw4" if contract == "f32" else f"hw4_{contract}"


def metric(launch, key, file="profile_ladder.json"):
    """A metric that a chart or a fact needs."""
    value = launch["metrics"].get(key)
    if not value:
        raise Failed(f"{file}: {launch['kernel']} on {launch['case']}: metrics.{key}: missing, null or 0")
    return value


def named(name, found, where):
    """The first (name, value) with this name."""
    for other, value in found:
        if other == name:
            return value
    raise Failed(f"{where}: no {name}")
