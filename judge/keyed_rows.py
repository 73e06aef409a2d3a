"""Tables with a row for each case, operation, contract and mask, and the revision of the contract that it is about:
what expected.tsv and bounds.tsv share."""
from __future__ import annotations

import re
from collections.abc import Callable

from case_table import Case
from tsv import Row, Table, TableError, read_text

KEY = ("case", "operation", "contract", "mask")
REVISION = "revision"


def key_of(case: Case, contract: str) -> tuple[str, ...]:
    return case.name, case.operation, contract, case.mask


def contract_of(key: tuple[str, ...]) -> str:
    return key[KEY.index("contract")]


def _key_in(row: Row) -> tuple[str, ...]:
    return tuple(row[column] for column in KEY)


def columns(value: str) -> tuple[str, ...]:
    return (*KEY, REVISION, value)


def read_rows(path: str, value: str, made_of: Callable[[Row], object]) -> dict:
    """By KEY, of the column `value` beside it."""
    text = read_text(path)
    found: dict[tuple[str, ...], object] = {}
    try:
        for row in Table(text, columns(value)).rows:
            if _key_in(row) in found:
                raise TableError(f"two rows are of {' '.join(_key_in(row))}")
            if not re.fullmatch(r"[\w.]+/[0-9]+", row[REVISION], re.ASCII):
                raise TableError(f"{row['case']}: revision is '{row[REVISION]}', need one like f32.forward/1")
            found[_key_in(row)] = made_of(row)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return found


def with_row(text: str, value: str, case: Case, contract: str, fields: dict[str, str], earlier: set[str]) -> str:
    """The table's text with the row of a case under a contract. A new one comes after those of the case itself and of
    the earlier ones."""
    table = Table(text, columns(value))
    for place, row in enumerate(table.rows):
        if _key_in(row) == key_of(case, contract):
            return table.text_with(place, fields)
    return table.text_with_new({**dict(zip(KEY, key_of(case, contract))), **fields},
                               lambda row: row["case"] in earlier or row["case"] == case.name)
