"""The views of rounds.json and half_errors.json that facts, tables and charts share: hw4 beside half precision."""
from __future__ import annotations

import dataclasses
import functools
import statistics

from .measured import INTEGER_OPERATIONS, Rung, flop, named
from .spread import Spread

MASKS = ("none", "causal")
FLASH2, CUDNN = "flash2 bf16", "cudnn bf16"
FROM_BF16 = "fixed16:bf16"  # from operands that have that type
IN_TURNS = ("fixed", "fixed16", FROM_BF16, FLASH2, CUDNN)  # on all shapes
NAMES_OF_ERRORS = {"f32": "hw4", "fixed": "hw4_fixed", "fixed16": "hw4_fixed16", "bf16": "hw4_bf16",
                   "fp16": "hw4_fp16"}  # the others have one name
FORMATS = {"bf16": FLASH2, "fp16": "flash2 fp16", "tf32": "naive tf32"}  # whose errors stand for them
# Who gives the same bytes on every machine, and who does not.
EXACT = ("f32", "fixed", "fixed16")
SAME_ACCURACY = 3.0  # times as large an error may be
PAIR_PRODUCTS = 3  # of bytes in the place of one of floats, under the contract fixed16
PAIR_ROOF = INTEGER_OPERATIONS / PAIR_PRODUCTS * 1e-12  # TFLOP/s, counted as everywhere


@dataclasses.dataclass(frozen=True)
class InTurns:
    """A shape under a mask, by each of them once in every round."""
    record: dict

    name, mask, tokens, dim = (property(lambda self, field=field: self.record[field])
                               for field in ("name", "mask", "tokens", "dim"))

    @property
    def text(self) -> str:
        heads = ("heads",) if self.record.get("heads", 1) > 1 else ()
        return ", ".join(str(self.record[size]) for size in ("batches", *heads, "tokens", "dim"))

    def seconds(self, who) -> Spread:
        return Spread.of(self.record["seconds"][who])

    def rate(self, who) -> float:
        """TFLOP/s, by the median of the rounds."""
        return self.record["flop"] * 1e-12 / self.seconds(who).mid

    def over(self, who, other) -> float:
        """How many times as fast as another, by the median of the rounds' own ratios."""
        by_who = self.record["seconds"]
        return statistics.median(theirs / its for its, theirs in zip(by_who[who], by_who[other]))


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
    """Rounds and errors."""

    def __init__(self, data):
        self.in_turns = turns_in(data, "rounds.json")
        titles = data.half_errors["distributions"]
        self.errors = [BesideHalf(case["distribution"], titles[case["distribution"]], case["tokens"], case["dim"],
                                  {who: errors["largest"] for who, errors in case["errors"].items()})
                       for case in data.half_errors["cases"]]

    def under(self, mask) -> list[InTurns]:
        return [case for case in self.in_turns if case.mask == mask]

    def shape(self, name, mask="none") -> InTurns:
        return named(name, ((case.name, case) for case in self.under(mask)), f"rounds.json: cases: mask {mask}")

    def errors_on(self, distribution, tokens, dim) -> BesideHalf:
        return named((distribution, tokens, dim), (((case.distribution, case.tokens, case.dim), case)
                                                   for case in self.errors), "half_errors.json: cases")

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


# ---- What exactness costs


@dataclasses.dataclass(frozen=True)
class Point:
    """On t28, and on values like its own."""
    who: str
    error: float
    rate: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """An exact contract beside the fastest others, and how many times as long it takes."""
    exact: Point
    as_accurate: Point | None  # of those whose error is no more than SAME_ACCURACY times its
    fastest: Point  # of all

    over_as_accurate = property(lambda self: self.as_accurate.rate / self.exact.rate if self.as_accurate else None)
    over_fastest = property(lambda self: self.fastest.rate / self.exact.rate)


T28 = {"tokens": 16384, "dim": 64}


def points(data) -> list[Point]:
    """Everybody who was timed on t28 and whose errors are known."""
    half = Half(data)
    timed, errors = half.shape("t28"), half.errors_on("uniform", **T28)
    return [Point(who, errors.largest[name], timed.rate(who)) for who in timed.record["seconds"]
            if (name := NAMES_OF_ERRORS.get(who, who)) in errors.largest]


def costs(data) -> list[Cost]:
    found = {point.who: point for point in points(data)}
    others = [point for who, point in found.items() if who not in EXACT]
    made = []
    for who in EXACT:
        alike = [point for point in others if point.error <= SAME_ACCURACY * found[who].error]
        made.append(Cost(found[who], max(alike, key=lambda point: point.rate, default=None),
                         max(others, key=lambda point: point.rate)))
    return made


# ---- Half precision's own kernels

HALF_TYPES = ("bf16", "fp16")
ANY_ORDER = "bf16 any order"  # another way to the gradients of bf16


def turns_in(data, file) -> list[InTurns]:
    return [InTurns(record) for record in data.documents[file]["cases"]]


half_rounds = functools.partial(turns_in, file="half_rounds.json")
half_gradients = functools.partial(turns_in, file="half_backward.json")


def half_lengths(data) -> dict[int, dict[str, list[InTurns]]]:
    """Cases by head size and mask, in the order of their lengths."""
    found = {}
    for case in turns_in(data, "half_lengths.json"):
        found.setdefault(case.dim, {}).setdefault(case.mask, []).append(case)
    for by_mask in found.values():
        for cases in by_mask.values():
            cases.sort(key=lambda case: case.tokens)
    return found


def half_ladder(data, file="half_ladder.json") -> dict[int, list[Rung]]:
    """Rungs by head size; the ladder of fixed16 is in another file."""
    found = {}
    for line in data.documents[file]["ladder"]:
        found.setdefault(line["dim"], []).append(
            Rung(line["kernel"], Spread.of(line["seconds"]), flop(line["batches"], line["tokens"], line["dim"])))
    return found
