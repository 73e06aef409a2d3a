"""Measurements of `hw4 bench` for Lab5 and CS336: sweeps of cells, and the memory of each pass."""
from __future__ import annotations

import dataclasses
import re

from .errors import Failed
from .spread import Spread, drifts

PASSES = ("forward", "backward", "forward_backward")
BASE = {"batch_size": 16, "seq_len": 1024, "num_heads": 32, "emb_dim": 2048, "causal": False}  # Lab5's
TOKENS = 16384  # over all batches, where Lab5's length grows
MIB = 2.0 ** 20
EVENT = ("purpose", "bytes", "taken")  # taken: 1, -1 where it is freed, 0 where it is refused


@dataclasses.dataclass(frozen=True)
class Row:
    """A cell of a sweep: its settings and the measurements of each pass."""
    cell: dict
    passes: dict[str, dict]

    impl = property(lambda self: self.cell["impl"])

    def status(self, name) -> str:
        return self.passes[name]["status"]

    def seconds(self, name="forward") -> Spread | None:
        """None also where the samples drift."""
        there = self.status(name) == "ok" and not drifts(self.passes[name]["samples"])
        return Spread.of(self.passes[name]["samples"]) if there else None

    def tflops(self, name="forward") -> Spread | None:
        return self.seconds(name).under(self.passes[name]["flop"] * 1e-12) if self.seconds(name) else None

    @property
    def backward_over_forward(self) -> float | None:
        both = self.seconds("backward"), self.seconds()
        return None if None in both else both[0].mid / both[1].mid

    def mib(self, what="peak_bytes", name="forward") -> float | None:
        return self.passes[name].get(what, 0) / MIB if self.status(name) == "ok" else None


def sweep(data, file, **wanted) -> list[Row]:
    """The rows with these settings, each cell once."""
    found = {}
    for record in data[file]["rows"]:
        cell = {**data[file]["settings"], **{name: value for name, value in record.items() if name not in PASSES}}
        if all(cell[name] == value for name, value in wanted.items()):
            row = Row(cell, {name: record[name] for name in PASSES})
            key = tuple(cell[name] for name in ("impl", *BASE, "warmup"))
            measured = sum(row.status(name) != "skipped" for name in PASSES)
            if key not in found or measured > found[key][0]:
                found[key] = measured, row
    return [row for _, row in found.values()]


def over_length(data, causal) -> dict[str, dict[int, Row]]:
    """Lab5's rows by contract and length, with the same total number of tokens."""
    found = {}
    for row in sweep(data, "lab5", num_heads=BASE["num_heads"], emb_dim=BASE["emb_dim"], causal=causal):
        if row.cell["batch_size"] * row.cell["seq_len"] == TOKENS:
            found.setdefault(row.impl, {})[row.cell["seq_len"]] = row
    return {impl: dict(sorted(rows.items())) for impl, rows in found.items()}


def rates_of_bf16(data) -> dict[tuple[int, bool, int], float]:
    """Forward's TFLOP/s of 2048 columns of all heads, by d, mask and length."""
    rows = [(64, row) for causal in (False, True) for row in over_length(data, causal)["bf16"].values()]
    rows += [(128, row) for row in sweep(data, "half_lengths")]
    return {(dim, row.cell["causal"], row.cell["seq_len"]): row.tflops().mid for dim, row in rows if row.tflops()}


# ---- Memory, allocation after allocation


@dataclasses.dataclass(frozen=True)
class Track:
    """The allocations and frees of one run of a pass."""
    impl: str
    name: str  # name of the pass
    batches: int
    tokens: int
    dim: int
    events: tuple[dict, ...]

    @property
    def refused(self) -> dict | None:
        return next((event for event in self.events if event["taken"] == 0), None)

    def held(self) -> list[dict[str, int]]:
        """After each event, bytes by purpose; the last state is before anything is freed."""
        now, states = {}, []
        for event in self.events:
            if event["taken"] < 0:
                break
            if event["taken"] > 0:
                now = {**now, event["purpose"]: now.get(event["purpose"], 0) + event["bytes"]}
                states.append(now)
        return states

    @property
    def peak(self) -> int:
        return max((sum(state.values()) for state in self.held()), default=0)


_CELL = re.compile(r"(?P<impl>\w+)(?: (?:fp16|bf16))? B (?P<batches>\d+) H 1 N (?P<tokens>\d+) d (?P<dim>\d+)\b.*")


def tracks(data) -> list[Track]:
    found = []
    for track in data["memory"]["tracks"]:
        match = _CELL.fullmatch(track["cell"])
        if not match:
            raise Failed(f"memory.json: tracks: '{track['cell']}' is no cell of one head")
        sizes = {name: int(match[name]) for name in ("batches", "tokens", "dim")}
        events = tuple(dict(zip(EVENT, event)) for event in zip(*(track[column] for column in EVENT)))
        found.append(Track(match["impl"], track["pass"], **sizes, events=events))
    return found


def track_of(data, impl, name, refused=False) -> Track:
    """The pass with the longest rows that had enough memory, or, with refused, that lacked it."""
    some = [track for track in tracks(data) if track.impl == impl and track.name == name
            and (track.refused is not None) == refused]
    if not some:
        raise Failed(f"memory.json: tracks: no {name} of {impl} that {'was refused' if refused else 'had'} memory")
    return max(some, key=lambda track: track.tokens)
