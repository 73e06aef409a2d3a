"""The tables that decide on the cases' outputs. expected.tsv has the CRC-32 of each output. bounds.tsv has its largest
allowed error against float64 under the contracts that are compared by a bound. Both have a row for each case,
operation, contract and mask, with the revision of the contract."""
from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable

from case_table import Case
from tsv import Row, Table, TableError, read_text

KEY = ("case", "operation", "contract", "mask")
REVISION, EXPECTED, BOUND = "revision", "expected", "bound"
REFUSED = "refused"  # the case has numbers outside the range of the contract's type
ANY_NUMBER = 1e308  # where FlashAttention-2 gives no number, or a wrong one: any finite number passes
OUTPUTS = {"forward": 1, "backward": 3}  # number of outputs by operation, each with its bound (src/problem/operation.h)


@dataclasses.dataclass(frozen=True)
class Expectation:
    revision: str  # like f32.forward/1
    crc32: str  # CRC of the output, eight hexadecimal digits

    def __str__(self) -> str:
        return self.crc32


@dataclasses.dataclass(frozen=True)
class Bound:
    revision: str  # like bf16.forward/1
    largest: tuple[float, ...] | None  # absolute errors of O, or of dQ, dK and dV; None: the case is refused

    def __str__(self) -> str:
        return REFUSED if self.largest is None else ",".join(f"{largest:.4g}" for largest in self.largest)

    @property
    def for_json(self) -> float | list[float] | None:
        return self.largest and (self.largest[0] if len(self.largest) == 1 else list(self.largest))


class Decisions:
    def __init__(self, rows: dict[tuple[str, ...], Expectation | Bound]):
        self.rows = rows  # keys: KEY

    @property
    def contracts(self) -> list[str]:
        """The contracts of all rows, in order: the first is hw4's default."""
        return list(dict.fromkeys(key[KEY.index("contract")] for key in self.rows))

    def of(self, case: Case, contract: str) -> Expectation | Bound | None:
        return self.rows.get(_key_of(case, contract))


def table_beside(cases: str, value: str = EXPECTED) -> str:
    """The path of the table that belongs to a table of cases."""
    return os.path.join(os.path.dirname(cases), {EXPECTED: "expected.tsv", BOUND: "bounds.tsv"}[value])


def _key_of(case: Case, contract: str) -> tuple[str, ...]:
    return case.name, case.operation, contract, case.mask


def _key_in(row: Row) -> tuple[str, ...]:
    return tuple(row[column] for column in KEY)


def _expectation(row: Row) -> Expectation:
    if not re.fullmatch("[0-9a-f]{8}", row[EXPECTED]):
        raise TableError(f"{row['case']}: expected is '{row[EXPECTED]}', need 8 digits of 0-9a-f")
    return Expectation(row[REVISION], row[EXPECTED])


def _bound(row: Row) -> Bound:
    if row[BOUND] == REFUSED:
        return Bound(row[REVISION], None)
    wanted = OUTPUTS.get(row["operation"], 1)
    try:
        largest = tuple(map(float, row[BOUND].split(",")))
    except ValueError:
        largest = ()
    if len(largest) != wanted or not all(0 <= each < math.inf for each in largest):
        numbers = "a number" if wanted == 1 else f"{wanted} numbers"
        raise TableError(f"{row['case']}: bound is '{row[BOUND]}', need {numbers} from 0 or '{REFUSED}'")
    return Bound(row[REVISION], largest)


def _read(path: str, value: str, made_of: Callable[[Row], Expectation | Bound]) -> Decisions:
    text = read_text(path)
    found = {}
    try:
        for row in Table(text, (*KEY, REVISION, value)).rows:
            if _key_in(row) in found:
                raise TableError(f"two rows are of {' '.join(_key_in(row))}")
            if not re.fullmatch(r"[\w.]+/[0-9]+", row[REVISION], re.ASCII):
                raise TableError(f"{row['case']}: revision is '{row[REVISION]}', need one like f32.forward/1")
            found[_key_in(row)] = made_of(row)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return Decisions(found)


def read_expectations(path: str) -> Decisions:
    return _read(path, EXPECTED, _expectation)


def read_bounds(path: str) -> Decisions:
    """Empty where there is no such table."""
    return _read(path, BOUND, _bound) if os.path.exists(path) else Decisions({})


def with_row(text: str, case: Case, contract: str, made: Expectation | Bound, earlier: set[str]) -> str:
    """The table's text with a row for a case under a contract. A new row follows the case's other rows and the rows
    of earlier cases."""
    value = BOUND if isinstance(made, Bound) else EXPECTED
    table, fields = Table(text, (*KEY, REVISION, value)), {REVISION: made.revision, value: str(made)}
    for place, row in enumerate(table.rows):
        if _key_in(row) == _key_of(case, contract):
            return table.text_with(place, fields)
    return table.text_with_new({**dict(zip(KEY, _key_of(case, contract))), **fields},
                               lambda row: row["case"] in earlier or row["case"] == case.name)
