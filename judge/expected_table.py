"""The table of what the cases' outputs have to be, testcases/expected.tsv: a row for each case, operation, contract and
mask, with the revision of the contract that it is about."""
from __future__ import annotations

import dataclasses
import os
import re

from case_table import Case
from tsv import Row, Table, TableError, read_text

KEY = ("case", "operation", "contract", "mask")
COLUMNS = (*KEY, "revision", "expected")


@dataclasses.dataclass(frozen=True)
class Expectation:
    revision: str  # like f32.forward/1
    crc32: str  # of the output, eight hexadecimal digits


def _key(case: Case, contract: str) -> tuple[str, ...]:
    return case.name, case.operation, contract, case.mask


class Expectations:
    def __init__(self, rows: dict[tuple[str, ...], Expectation]):
        self.rows = rows  # by KEY

    @property
    def contracts(self) -> list[str]:
        """Of all rows, in their order: the first is the one that hw4 takes by itself."""
        return list(dict.fromkeys(contract for _, _, contract, _ in self.rows))

    def of(self, case: Case, contract: str) -> Expectation | None:
        return self.rows.get(_key(case, contract))


def table_beside(cases: str) -> str:
    """The path of the table that belongs to a table of cases."""
    return os.path.join(os.path.dirname(cases), "expected.tsv")


def _expectation(row: Row) -> Expectation:
    if not re.fullmatch("[0-9a-f]{8}", row["expected"]):
        raise TableError(f"{row['case']}: expected is '{row['expected']}', need 8 digits of 0-9a-f")
    if not re.fullmatch(r"[\w.]+/[0-9]+", row["revision"], re.ASCII):
        raise TableError(f"{row['case']}: revision is '{row['revision']}', need one like f32.forward/1")
    return Expectation(row["revision"], row["expected"])


def _key_of(row: Row) -> tuple[str, ...]:
    return tuple(row[column] for column in KEY)


def read_expectations(path: str) -> Expectations:
    text = read_text(path)
    found: dict[tuple[str, ...], Expectation] = {}
    try:
        for row in Table(text, COLUMNS).rows:
            if _key_of(row) in found:
                raise TableError(f"two rows are of {' '.join(_key_of(row))}")
            found[_key_of(row)] = _expectation(row)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return Expectations(found)


def with_expectation(text: str, case: Case, contract: str, made: Expectation, earlier: set[str]) -> str:
    """The table's text with the row of a case under a contract. A new one comes after those of the case itself and of
    the earlier ones."""
    table = Table(text, COLUMNS)
    fields = {"revision": made.revision, "expected": made.crc32}
    for place, row in enumerate(table.rows):
        if _key_of(row) == _key(case, contract):
            return table.text_with(place, fields)
    return table.text_with_new({**dict(zip(KEY, _key(case, contract))), **fields},
                               lambda row: row["case"] in earlier or row["case"] == case.name)
