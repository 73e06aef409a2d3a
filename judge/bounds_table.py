"""The table of how far the cases' outputs may be from float64 under contracts that are compared by a bound,
testcases/bounds.tsv: a row for each case, operation, contract and mask, with the revision that it is about."""
from __future__ import annotations

import dataclasses
import math
import os

from case_table import Case
from tsv import Row, Table, TableError, read_text

KEY = ("case", "operation", "contract", "mask")
COLUMNS = (*KEY, "revision", "bound")
REFUSED = "refused"  # the case has numbers that the contract's type has not


@dataclasses.dataclass(frozen=True)
class Bound:
    revision: str  # like bf16.forward/1
    largest: float | None  # absolute error; None: the case is refused

    def __str__(self) -> str:
        return REFUSED if self.largest is None else f"{self.largest:.4g}"


class Bounds:
    def __init__(self, rows: dict[tuple[str, ...], Bound]):
        self.rows = rows  # by KEY

    def has(self, contract: str) -> bool:
        """Of any case."""
        return any(key[KEY.index("contract")] == contract for key in self.rows)

    def of(self, case: Case, contract: str) -> Bound | None:
        return self.rows.get(key_of_case(case, contract))


def key_of_case(case: Case, contract: str) -> tuple[str, ...]:
    return case.name, case.operation, contract, case.mask


def bounds_beside(cases: str) -> str:
    """The path of the table that belongs to a table of cases."""
    return os.path.join(os.path.dirname(cases), "bounds.tsv")


def _bound(row: Row) -> Bound:
    if row["bound"] == REFUSED:
        return Bound(row["revision"], None)
    try:
        largest = float(row["bound"])
    except ValueError:
        largest = math.nan
    if not 0 <= largest < math.inf:
        raise TableError(f"{row['case']}: bound is '{row['bound']}', need a number from 0 or '{REFUSED}'")
    return Bound(row["revision"], largest)


def _key_of(row: Row) -> tuple[str, ...]:
    return tuple(row[column] for column in KEY)


def read_bounds(path: str) -> Bounds:
    """There are none where there is no such table."""
    if not os.path.exists(path):
        return Bounds({})
    text = read_text(path)
    found: dict[tuple[str, ...], Bound] = {}
    try:
        for row in Table(text, COLUMNS).rows:
            if _key_of(row) in found:
                raise TableError(f"two rows are of {' '.join(_key_of(row))}")
            found[_key_of(row)] = _bound(row)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return Bounds(found)


def with_bound(text: str, case: Case, contract: str, made: Bound, earlier: set[str]) -> str:
    """The table's text with the row of a case under a contract. A new one comes after those of the case itself and of
    the earlier ones."""
    table = Table(text, COLUMNS)
    fields = {"revision": made.revision, "bound": str(made)}
    for place, row in enumerate(table.rows):
        if _key_of(row) == key_of_case(case, contract):
            return table.text_with(place, fields)
    return table.text_with_new({**dict(zip(KEY, key_of_case(case, contract))), **fields},
                               lambda row: row["case"] in earlier or row["case"] == case.name)
