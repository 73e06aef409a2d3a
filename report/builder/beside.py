"""hw4 beside PyTorch's attention, as measured by `python -m hw4.neighbours`: only fair rows."""
from __future__ import annotations

import dataclasses

from .spread import drifts

LEAST_PAIRS = 5
PEERS = {"cudnn": "cuDNN", "fa2": "FlashAttention-2", "efficient": "PyTorch efficient", "naive": "PyTorch naive"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A contract beside one peer. ratio: the median speed-up of neighbouring samples."""
    section: str
    regime: str
    contract: str
    peer: str
    dtype: str
    passes: str
    cell: tuple[int, ...]
    causal: bool
    ratio: float
    spread_percent: float
    tflops: float
    peer_tflops: float
    watts: float
    mhz: float

    @property
    def title(self):
        mask = ", causal" if self.causal else ""
        return f"{', '.join(map(str, self.cell))}{mask}"


def fair(row):
    """Enough pairs with equal clocks, and no drift on either side."""
    return "refused" not in row and row["pairs"] >= LEAST_PAIRS and not any(
        drifts([sample["seconds"] for sample in samples]) for samples in row["samples"].values())


def pairs(data) -> list[Pair]:
    if not data.has("beside"):
        return []
    return [Pair(row["section"], row["regime"], row["contract"], row["peer"], row["dtype"], row["passes"],
                 tuple(row["cell"]), row["causal"], row["ratio"], row["spread_percent"], row["ours_tflops"],
                 row["peer_tflops"], row["ours_watts"], row["ours_mhz"]) for row in data["beside"]["rows"] if fair(row)]


def best_peer(data, section="results", **wanted) -> Pair | None:
    """Beside the fastest peer in those cells."""
    some = [pair for pair in pairs(data) if pair.section == section
            and all(getattr(pair, name) == value for name, value in wanted.items())]
    return min(some, key=lambda pair: pair.ratio, default=None)
