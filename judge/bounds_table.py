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


@dataclasses.dataclass(frozen=True)
class Bound:
    revision: str  # like bf16.forward/1
    largest: float | None  # absolute error; None: the case is refused

    def __str__(self) -> str:
        return REFUSED if self.largest is None else f"{self.largest:.4g}"


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
    try:
        largest = float(row[VALUE])
    except ValueError:
        largest = math.nan
    if not 0 <= largest < math.inf:
        raise TableError(f"{row['case']}: bound is '{row[VALUE]}', need a number from 0 or '{REFUSED}'")
    return Bound(row["revision"], largest)


def read_bounds(path: str) -> Bounds:
    """There are none where there is no such table."""
    return Bounds(read_rows(path, VALUE, _bound) if os.path.exists(path) else {})


def with_bound(text: str, case: Case, contract: str, made: Bound, earlier: set[str]) -> str:
    return with_row(text, VALUE, case, contract, {"revision": made.revision, VALUE: str(made)}, earlier)
