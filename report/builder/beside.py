"""hw4 beside PyTorch's attention, as measured by `python -m hw4.neighbours`."""
from __future__ import annotations

from statistics import median
from types import SimpleNamespace

from .spread import drifts

LEAST_PAIRS = LEAST_ROUNDS = 5
PEERS = {"cudnn": "cuDNN", "fa2": "FlashAttention-2", "efficient": "PyTorch efficient", "naive": "PyTorch naive",
         "paged": "pages", "lengths": "packed sequences"}
OWN = ("paged", "lengths")  # hw4 itself
FIELDS = ("section", "regime", "values", "contract", "dtype", "passes", "causal")  # that a pair has from its row
FILES = ("beside", "beside_cudnn", "beside_decode")


class Pair(SimpleNamespace):
    """A contract beside one peer, with the FIELDS of its row, peer, cell, ratio (the median speed-up of neighbouring
    samples), spread_percent; median seconds and mhz; rate in TFLOP/s, or GB/s; fair."""

    @property
    def title(self):
        return f"{', '.join(map(str, self.cell))}{', causal' if self.causal else ''}"


def fair(row, found, *sides):
    """Enough rounds, and pairs with equal clocks; no drift on either side."""
    enough = row["rounds"] >= LEAST_ROUNDS and found.get("pairs", 0) >= LEAST_PAIRS
    return enough and not any(drifts(side["seconds"]) for side in sides)


def pairs(data, *sections, **wanted) -> list[Pair]:
    """The pairs of these sections, or of all, with these fields."""
    found = []
    for row in (row for file in FILES for row in data[file]["rows"]):
        for peer, result in row["peers"].items():
            sides = [row["series"].get(name) for name in (row["contract"], peer)]
            if (sections and row["section"] not in sections) or None in sides:
                continue
            seconds, others = (median(side["seconds"]) for side in sides)
            found.append(Pair(
                **{name: row[name] for name in FIELDS},
                peer=peer, cell=tuple(row["cell"]), ratio=result["ratio"] or others / seconds,
                spread_percent=result["spread_percent"], seconds=seconds, rate=row["amount"] / seconds,
                mhz=median(sides[0]["mhz"]), fair=fair(row, result, *sides)))
    return [pair for pair in found if all(getattr(pair, name) == value for name, value in wanted.items())]


def best_peer(some) -> Pair | None:
    """The pair with the fastest peer; none where that pair is not fair."""
    best = min((pair for pair in some if pair.peer not in OWN), key=lambda pair: pair.ratio, default=None)
    return best if best and best.fair else None


def sustained(data, *sections, **wanted) -> list[Pair]:
    """The fair pairs beside peers, with normal values, back to back."""
    found = pairs(data, *sections, regime="sustained", values="normal", **wanted)
    return [pair for pair in found if pair.fair and pair.peer not in OWN]


def by_cell(some, *fields) -> dict[tuple, list[Pair]]:
    """The pairs by contract, element, pass, cell and mask, and these fields."""
    found = {}
    for pair in some:
        key = tuple(getattr(pair, name) for name in ("contract", "dtype", "passes", "cell", "causal", *fields))
        found.setdefault(key, []).append(pair)
    return found
