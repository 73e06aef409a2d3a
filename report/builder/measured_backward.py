"""The views of backward.json that facts, tables and charts share."""
from __future__ import annotations

import dataclasses
import math

from .measured import Rung
from .spread import Spread

GRADIENTS = ("dQ", "dK", "dV")
MASKS = ("none", "causal")


def flop(batches, tokens, dim, mask="none"):
    """Five products, of the pairs that the mask leaves."""
    return 10 * batches * tokens * tokens * dim / (2 if mask == "causal" else 1)


def _flop_of(line, mask="none"):
    return flop(line["batches"], line["tokens"], line["dim"], mask)


@dataclasses.dataclass(frozen=True)
class Beside:
    """A shape under a mask: the chosen kernel's time beside PyTorch's, backward alone."""
    name: str
    mask: str
    hw4: Rung
    torch: Rung

    speed_up = property(lambda self: self.torch.seconds.mid / self.hw4.seconds.mid)


@dataclasses.dataclass(frozen=True)
class Budget:
    asked_mib: str  # or all
    taken_mib: float
    rate: Spread  # TFLOP/s


@dataclasses.dataclass(frozen=True)
class Errors:
    """The largest errors against float64, by gradient."""
    hw4: dict[str, float]
    efficient: dict[str, float]

    def not_above(self, gradient) -> bool:
        """NaN is above everything."""
        ours, theirs = self.hw4[gradient], self.efficient[gradient]
        return not math.isnan(ours) and not ours > theirs

    def ratio(self, gradient) -> float | None:
        """Ours to PyTorch's, where that says something."""
        ours, theirs = self.hw4[gradient], self.efficient[gradient]
        return ours / theirs if math.isfinite(ours) and math.isfinite(theirs) and theirs > 0 else None


class Backward:
    def __init__(self, data):
        self.document = data.backward

    @property
    def ladder(self) -> list[Rung]:
        return [Rung(line["kernel"], Spread.of(line["seconds"]), _flop_of(line)) for line in self.document["ladder"]]

    ladder_shape = property(lambda self: self.document["ladder"][0])
    memory_shape = property(lambda self: self.document["memory"][0])

    @property
    def beside_torch(self) -> list[Beside]:
        found = []
        for record in self.document["bars"]:
            line, mask = record["hw4"], record["mask"]
            work = _flop_of(line, mask)
            found.append(Beside(f"{line['batches']},{line['tokens']},{line['dim']}", mask,
                                Rung(line["kernel"], Spread.of(line["seconds"]), work),
                                Rung("PyTorch", Spread.of(record["torch"]["seconds"]), work)))
        return found

    @property
    def shapes(self) -> dict[str, dict[str, Beside]]:
        """Cases by name and mask; each name has both masks."""
        found = {}
        for case in self.beside_torch:
            found.setdefault(case.name, {})[case.mask] = case
        return found

    @property
    def budgets(self) -> list[Budget]:
        return [Budget(line["budget_mib"], line["scratch_bytes"] / 2 ** 20,
                       Spread.of(line["seconds"]).under(_flop_of(line) * 1e-12)) for line in self.document["memory"]]

    @property
    def cpu(self) -> dict[str, Spread]:
        """Forward and backward, by who."""
        return {who: Spread.of(self.document["cpu"][who]) for who in ("hw4", "sdpa", "naive")}

    @property
    def compared(self) -> dict[str, Errors]:
        """Errors by case; PyTorch's efficient form takes all of these."""
        return {record["case"]: Errors(record["hw4"], record["efficient"]) for record in self.document["errors"]
                if record["efficient"] is not None}

    @property
    def lengths(self) -> dict[int, Errors]:
        return {record["tokens"]: Errors(record["hw4"], record["efficient"])
                for record in sorted(self.document["lengths"], key=lambda record: record["tokens"])}

    def ratios(self, gradient) -> dict[str, float]:
        """Ratios by case, where there is one."""
        return {case: ratio for case, errors in self.compared.items()
                if (ratio := errors.ratio(gradient)) is not None}
