"""The views of rounds.json and half_errors.json that facts, tables and charts share: hw4 beside half precision."""
from __future__ import annotations

import dataclasses

import round_ratios

from .errors import Failed
from .measured import INTEGER_OPERATIONS
from .spread import Spread

MASKS = ("none", "causal")
FLASH2, CUDNN = "flash2 bf16", "cudnn bf16"
IN_TURNS = ("fixed", "fixed16", FLASH2, CUDNN)  # on all shapes
NAMES_OF_ERRORS = {"f32": "hw4", "fixed": "hw4_fixed", "fixed16": "hw4_fixed16"}  # the others have one name
FORMATS = {"bf16": FLASH2, "fp16": "flash2 fp16", "tf32": "naive tf32"}  # whose errors stand for them
PAIR_PRODUCTS = 3  # of bytes in the place of one of floats, under the contract fixed16
PAIR_ROOF = INTEGER_OPERATIONS / PAIR_PRODUCTS * 1e-12  # TFLOP/s, counted as everywhere


@dataclasses.dataclass(frozen=True)
class InTurns:
    """A shape under a mask, by each of them once in every round."""
    record: dict

    @property
    def name(self) -> str:
        return self.record["name"]

    @property
    def mask(self) -> str:
        return self.record["mask"]

    @property
    def text(self) -> str:
        return ", ".join(str(self.record[size]) for size in ("batches", "tokens", "dim"))

    def _check(self, *everybody):
        for who in everybody:
            if who not in self.record["seconds"]:
                raise Failed(f"rounds.json: {self.name}, mask {self.mask}: seconds: no {who}")

    def seconds(self, who) -> Spread:
        self._check(who)
        return Spread.of(self.record["seconds"][who])

    def rate(self, who) -> float:
        self._check(who)
        return round_ratios.rate(self.record, who)

    def over(self, who, other) -> float:
        self._check(who, other)
        return round_ratios.over(self.record, who, other)


@dataclasses.dataclass(frozen=True)
class BesideHalf:
    """The largest errors of a case, by who made them."""
    distribution: str
    title: str
    tokens: int
    dim: int
    largest: dict[str, float]

    @property
    def shape(self) -> str:
        return f"N = {self.tokens}, d = {self.dim}"

    def over_fixed16(self, form) -> float:
        """How many times as large as fixed16's that of another format is."""
        return self.largest[FORMATS[form]] / self.largest["hw4_fixed16"]


class Half:
    def __init__(self, data):
        self.in_turns = [InTurns(record) for record in data.rounds["cases"]]
        titles = data.half_errors["distributions"]
        self.errors = []
        for case in data.half_errors["cases"]:
            name = case["distribution"]
            if name not in titles:
                raise Failed(f"half_errors.json: distributions: no {name}")
            self.errors.append(BesideHalf(name, titles[name], case["tokens"], case["dim"],
                                          {who: errors["largest"] for who, errors in case["errors"].items()}))

    def under(self, mask) -> list[InTurns]:
        found = [case for case in self.in_turns if case.mask == mask]
        if not found:
            raise Failed(f"rounds.json: cases: none with the mask {mask}")
        return found

    def shape(self, name, mask="none") -> InTurns:
        found = [case for case in self.under(mask) if case.name == name]
        if not found:
            raise Failed(f"rounds.json: cases: no {name} with the mask {mask}")
        return found[0]

    def errors_on(self, distribution, tokens, dim) -> BesideHalf:
        wanted = distribution, tokens, dim
        found = [case for case in self.errors if (case.distribution, case.tokens, case.dim) == wanted]
        if not found:
            raise Failed(f"half_errors.json: cases: no {distribution} with N = {tokens}, d = {dim}")
        return found[0]

    def by_distribution(self) -> dict[str, list[BesideHalf]]:
        found = {}
        for case in self.errors:
            found.setdefault(case.distribution, []).append(case)
        return found

    def not_above(self, form) -> list[BesideHalf]:
        """Where fixed16's largest error is not above that of another format."""
        return [case for case in self.errors if case.over_fixed16(form) >= 1]

    def faster_than(self, other, mask) -> list[InTurns]:
        """Where fixed16 is."""
        return [case for case in self.under(mask) if case.over("fixed16", other) > 1]
