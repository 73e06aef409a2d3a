"""The table of how far the cases' outputs may be from float64 under contracts that are compared by a bound,
testcases/bounds.tsv: a row for each case, operation, contract and mask, with the revision that it is about."""
from __future__ import annotations

import dataclasses
import math
import os

from case_table import Case
from keyed_rows import contract_of, key_of, read_rows, with_row
from tsv import Row, TableError

VALUE = "bound"
REFUSED = "refused"  # the case has numbers that the contract's type has not
ANY_NUMBER = 1e308  # where FlashAttention-2 gives none, or one that is not near: any that is finite will do
OUTPUTS = {"forward": 1, "backward": 3}  # of each operation, which all have a bound (src/problem/operation.h)


@dataclasses.dataclass(frozen=True)
class Bound:
    revision: str  # like bf16.forward/1
    largest: tuple[float, ...] | None  # absolute errors of O, or of dQ, dK and dV; None: the case is refused

    def __str__(self) -> str:
        return REFUSED if self.largest is None else ",".join(f"{largest:.4g}" for largest in self.largest)

    @property
    def for_json(self) -> float | list[float] | None:
        return self.largest and (self.largest[0] if len(self.largest) == 1 else list(self.largest))


class Bounds:
    def __init__(self, rows: dict[tuple[str, ...], Bound]):
        self.rows = rows  # by keyed_rows.KEY

    def has(self, contract: str) -> bool:
        """Of any case."""
        return contract in map(contract_of, self.rows)

    def of(self, case: Case, contract: str) -> Bound | None:
        return self.rows.get(key_of(case, contract))


def bounds_beside(cases: str) -> str:
    """The path of the table that belongs to a table of cases."""
    return os.path.join(os.path.dirname(cases), "bounds.tsv")


def _bound(row: Row) -> Bound:
    if row[VALUE] == REFUSED:
        return Bound(row["revision"], None)
    wanted = OUTPUTS.get(row["operation"], 1)
    try:
        largest = tuple(map(float, row[VALUE].split(",")))
    except ValueError:
        largest = ()
    if len(largest) != wanted or not all(0 <= each < math.inf for each in largest):
        numbers = "a number" if wanted == 1 else f"{wanted} numbers"
        raise TableError(f"{row['case']}: bound is '{row[VALUE]}', need {numbers} from 0 or '{REFUSED}'")
    return Bound(row["revision"], largest)


def read_bounds(path: str) -> Bounds:
    """There are none where there is no such table."""
    return Bounds(read_rows(path, VALUE, _bound) if os.path.exists(path) else {})


def with_bound(text: str, case: Case, contract: str, made: Bound, earlier: set[str]) -> str:
    return with_row(text, VALUE, case, contract, {"revision": made.revision, VALUE: str(made)}, earlier)
