"""The table of what the cases' outputs have to be, testcases/expected.tsv: a row for each case, operation, contract and
mask, with the revision of the contract that it is about."""
from __future__ import annotations

import dataclasses
import os
import re

from case_table import Case
from keyed_rows import contract_of, key_of, read_rows, with_row
from tsv import Row, TableError

VALUE = "expected"


@dataclasses.dataclass(frozen=True)
class Expectation:
    revision: str  # like f32.forward/1
    crc32: str  # of the output, eight hexadecimal digits


class Expectations:
    def __init__(self, rows: dict[tuple[str, ...], Expectation]):
        self.rows = rows  # by keyed_rows.KEY

    @property
    def contracts(self) -> list[str]:
        """Of all rows, in their order: the first is the one that hw4 takes by itself."""
        return list(dict.fromkeys(map(contract_of, self.rows)))

    def of(self, case: Case, contract: str) -> Expectation | None:
        return self.rows.get(key_of(case, contract))


def table_beside(cases: str) -> str:
    """The path of the table that belongs to a table of cases."""
    return os.path.join(os.path.dirname(cases), "expected.tsv")


def _expectation(row: Row) -> Expectation:
    if not re.fullmatch("[0-9a-f]{8}", row[VALUE]):
        raise TableError(f"{row['case']}: expected is '{row[VALUE]}', need 8 digits of 0-9a-f")
    return Expectation(row["revision"], row[VALUE])


def read_expectations(path: str) -> Expectations:
    return Expectations(read_rows(path, VALUE, _expectation))


def with_expectation(text: str, case: Case, contract: str, made: Expectation, earlier: set[str]) -> str:
    return with_row(text, VALUE, case, contract, {"revision": made.revision, VALUE: made.crc32}, earlier)
