"""The table of test cases, testcases/cases.tsv: what each is generated from, and how long hw4 may take."""
from __future__ import annotations

import dataclasses
import fnmatch
import math
import re

from tsv import Row, Table, TableError, read_text

COLUMNS = ("name", "B", "N", "d", "kind", "seed", "limit_s", "crc32_in")
UNKNOWN_CRC = "-"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    batches: int
    tokens: int
    dim: int
    kind: str
    seed: int
    limit_s: float
    crc32_in: str  # eight hexadecimal digits, or UNKNOWN_CRC

    # What a file with the course's header asks for, and the table has no others.
    operation = "forward"
    mask = "none"

    @property
    def shape(self) -> str:
        return f"({self.batches}, {self.tokens}, {self.dim})"

    @property
    def output_bytes(self) -> int:
        return 4 * self.batches * self.tokens * self.dim

    @property
    def input_bytes(self) -> int:
        return 12 + 3 * self.output_bytes

    @property
    def flops(self) -> int:
        return 4 * self.batches * self.tokens * self.tokens * self.dim

    def recipe(self) -> list[str]:
        """The generator's arguments. Not the name: the generator knows only the table beside it."""
        shape = f"{self.batches},{self.tokens},{self.dim}"
        return ["--shape", shape, "--seed", str(self.seed), "--kind", self.kind]


def _name(row: Row) -> str:
    """Files are named after it, so it must not lead out of their folder."""
    if not re.fullmatch(r"\w[\w.-]*", row["name"], re.ASCII):
        raise TableError(f"the name '{row['name']}', need letters, digits, '_', '-' and '.'")
    return row["name"]


def _whole(row: Row, column: str, least: int) -> int:
    if not re.fullmatch("[0-9]+", row[column]) or int(row[column]) < least:
        raise TableError(f"{row['name']}: {column} is '{row[column]}', need a whole number from {least}")
    return int(row[column])


def _seconds(row: Row, column: str) -> float:
    try:
        seconds = float(row[column])
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise TableError(f"{row['name']}: {column} is '{row[column]}', need seconds above 0")
    return seconds


def _crc_or_unknown(row: Row, column: str) -> str:
    if row[column] != UNKNOWN_CRC and not re.fullmatch("[0-9a-f]{8}", row[column]):
        raise TableError(f"{row['name']}: {column} is '{row[column]}', need 8 digits of 0-9a-f or '-'")
    return row[column]


def _case_of(row: Row) -> Case:
    return Case(name=_name(row), batches=_whole(row, "B", 1), tokens=_whole(row, "N", 1), dim=_whole(row, "d", 1),
                kind=row["kind"], seed=_whole(row, "seed", 0), limit_s=_seconds(row, "limit_s"),
                crc32_in=_crc_or_unknown(row, "crc32_in"))


def read_cases(path: str) -> list[Case]:
    text = read_text(path)
    try:
        cases = list(map(_case_of, Table(text, COLUMNS).rows))
        names = [case.name for case in cases]
        for name in names:
            if names.count(name) > 1:
                raise TableError(f"two rows are named {name}")
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return cases


def select(cases: list[Case], patterns: list[str]) -> list[Case]:
    """The cases that the names or globs mean, in the order of the table; all without any."""
    chosen = set()
    for pattern in patterns:
        matching = [case.name for case in cases if fnmatch.fnmatchcase(case.name, pattern)]
        if not matching:
            raise TableError(f"no case '{pattern}' in the table")
        chosen.update(matching)
    return [case for case in cases if not patterns or case.name in chosen]


def with_crc32_in(text: str, name: str, crc: str) -> str:
    """The table's text with the CRC-32 of a case's input."""
    table = Table(text, COLUMNS)
    for place, row in enumerate(table.rows):
        if row["name"] == name:
            return table.text_with(place, {"crc32_in": crc})
    raise TableError(f"the row {name} has left the table")
