"""The views of what `hw4 bench` measured for Lab5 and CS336 that facts, tables and charts share."""
from __future__ import annotations

import dataclasses
import re

from .errors import Failed
from .spread import Spread

PASSES = ("forward", "backward", "forward_backward")


@dataclasses.dataclass(frozen=True)
class Pass:
    """What was measured of one pass, or why nothing was."""
    status: str
    samples: tuple[float, ...] = ()
    flop: float = 0.0
    peak_bytes: int = 0
    before_backward_bytes: int = 0
    wanted_bytes: int = 0
    free_bytes: int = 0
    reason: str = ""

    ok = property(lambda self: self.status == "ok")
    out_of_memory = property(lambda self: self.status == "oom")
    seconds = property(lambda self: Spread.of(list(self.samples)))
    tflops = property(lambda self: self.seconds.under(self.flop * 1e-12))


@dataclasses.dataclass(frozen=True)
class Row:
    """A cell of a sweep. Columns: of all heads together."""
    impl: str
    dtype: str
    batches: int
    tokens: int
    heads: int
    columns: int
    causal: bool
    warmup: int | None
    forward: Pass
    backward: Pass
    forward_backward: Pass

    dim = property(lambda self: self.columns // self.heads)
    size = property(lambda self: (self.batches, self.tokens, self.heads, self.columns, self.causal))

    @property
    def who(self) -> str:
        """The name in a chart. PyTorch's naive form in float32 has another name than in fp16."""
        return f"{self.impl} {self.dtype}" if self.impl in ("pytorch", "flash2", "cudnn") else self.impl


def _pass(found, place):
    if found["status"] != "ok":
        return Pass(found["status"], reason=found.get("reason", ""), wanted_bytes=found.get("wanted_bytes", 0),
                    free_bytes=found.get("free_bytes", 0))
    for field in ("samples", "peak_bytes"):
        if not found.get(field):
            raise Failed(f"{place}.{field}: missing or nothing")
    return Pass("ok", tuple(found["samples"]), found.get("flop", 0.0), found["peak_bytes"],
                found.get("before_backward_bytes", 0))


def flop_of(row, name):
    """As lab5.py counts; PyTorch's rows do not say."""
    forward = 4.0 * row["batch_size"] * row["seq_len"] ** 2 * row["emb_dim"] / (2 if row["causal"] else 1)
    return forward * {"forward": 1, "backward": 2.5, "forward_backward": 3.5}[name]


class Sweep:
    """The rows of a file, each once: a size that two runs of a sweep have was measured by the first."""

    def __init__(self, data, file):
        document = data.documents[file]
        self.file = file
        self.torch = (document["torch"] or "").partition("+")[0]
        found = {}
        for index, record in enumerate(document["rows"]):
            row = {**document["settings"], **record}
            passes = {name: _pass({"flop": flop_of(row, name), **row[name]}, f"{file}: rows[{index}].{name}")
                      for name in PASSES}
            made = Row(row["impl"], row["dtype"], row["batch_size"], row["seq_len"], row["num_heads"], row["emb_dim"],
                       row["causal"], row["warmup"], **passes)
            key = made.who, made.size, made.warmup
            if key not in found or _measured(made) > _measured(found[key]):
                found[key] = made
        self.rows = list(found.values())

    def where(self, **wanted) -> list[Row]:
        return [row for row in self.rows if all(getattr(row, name) == value for name, value in wanted.items())]

    def one(self, **wanted) -> Row | None:
        found = self.where(**wanted)
        return found[0] if found else None

    @property
    def everybody(self) -> list[str]:
        return list(dict.fromkeys(row.who for row in self.rows))


def _measured(row):
    return sum(getattr(row, name).status != "skipped" for name in PASSES)


def by_who(rows, size) -> dict[str, dict[int, Row]]:
    """And by a size, in its order."""
    found = {}
    for row in sorted(rows, key=lambda row: getattr(row, size)):
        found.setdefault(row.who, {})[getattr(row, size)] = row
    return found


# ---- Lab5

BASE = {"batches": 16, "tokens": 1024, "heads": 32, "columns": 2048, "causal": False}
TOKENS = 16384  # of all batches, where the length grows


class Lab5:
    def __init__(self, data):
        self.sweep = Sweep(data, "lab5.json")

    def over(self, size) -> dict[str, dict[int, Row]]:
        """Rows by implementation and by that size; the other sizes are those of BASE."""
        return by_who(self.sweep.where(**{name: value for name, value in BASE.items() if name != size}), size)

    def over_length(self, causal) -> dict[str, dict[int, Row]]:
        """With as many tokens in all."""
        rows = self.sweep.where(heads=BASE["heads"], columns=BASE["columns"], causal=causal)
        return by_who([row for row in rows if row.batches * row.tokens == TOKENS], "tokens")

    def base(self) -> dict[str, Row]:
        return {row.who: row for row in self.sweep.where(**BASE)}


# ---- CS336


class Cs336:
    def __init__(self, data):
        self.attention = Sweep(data, "cs336_attention.json")

    def grid(self) -> list[tuple[int, int]]:
        """(d, N), in order."""
        return sorted({(row.columns, row.tokens) for row in self.attention.rows})

    def over_length(self, dim) -> dict[str, dict[int, Row]]:
        return by_who(self.attention.where(columns=dim), "tokens")


LIMIT_BYTES = 8 << 30


@dataclasses.dataclass(frozen=True)
class Track:
    """What one run of a pass takes and gives back."""
    impl: str
    name: str  # of the pass
    batches: int
    tokens: int
    dim: int
    events: tuple[dict, ...]

    @property
    def refused(self) -> dict | None:
        return next((event for event in self.events if event["taken"] == 0), None)

    def held(self) -> list[dict[str, int]]:
        """After each event, bytes by what they are for; the last is before anything is given back."""
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
    for track in data.documents["memory.json"]["tracks"]:
        match = _CELL.fullmatch(track["cell"])
        if not match:
            raise Failed(f"memory.json: tracks: '{track['cell']}' is no cell of one head")
        sizes = {name: int(match[name]) for name in ("batches", "tokens", "dim")}
        found.append(Track(match["impl"], track["pass"], **sizes, events=tuple(track["events"])))
    return found


def track_of(data, impl, name, refused=False) -> Track | None:
    """The pass of the longest rows that had enough memory, or had not."""
    some = [track for track in tracks(data) if track.impl == impl and track.name == name
            and (track.refused is not None) == refused]
    return max(some, key=lambda track: track.tokens, default=None)
