"""The table of test cases, testcases/cases.tsv: tab-separated, columns found by the names in its header row."""
from __future__ import annotations

import dataclasses
import fnmatch
import math
import re

ARITHMETICS = ("f32", "fixed")  # the contracts; an output column for each
OUT_COLUMNS = {arith: f"crc32_out_{arith}" for arith in ARITHMETICS}
NEEDED_COLUMNS = ("name", "B", "N", "d", "kind", "seed", "limit_s", "crc32_in", OUT_COLUMNS["f32"])
COLUMNS = (*NEEDED_COLUMNS, OUT_COLUMNS["fixed"])  # a table may know nothing of fixed
UNKNOWN_CRC = "-"
FIXED_MOST_COLUMNS = 256  # of Q, K and V


class TableError(Exception):
    pass


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
    crc32_outs: dict[str, str]  # by contract

    def crc32_out(self, arith: str) -> str:
        return self.crc32_outs.get(arith, UNKNOWN_CRC)

    def is_defined_under(self, arith: str) -> bool:
        return arith != "fixed" or self.dim <= FIXED_MOST_COLUMNS

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


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _column_places(header: str) -> dict[str, int]:
    names = header.rstrip("\r\n").split("\t")
    missing = [column for column in NEEDED_COLUMNS if column not in names]
    if missing:
        raise TableError(f"the header row has no column {', '.join(missing)}")
    return {column: names.index(column) for column in COLUMNS if column in names}


def _name(fields: dict[str, str]) -> str:
    """Files are named after it, so it must not lead out of their folder."""
    if not re.fullmatch(r"\w[\w.-]*", fields["name"], re.ASCII):
        raise TableError(f"the name '{fields['name']}', need letters, digits, '_', '-' and '.'")
    return fields["name"]


def _whole(fields: dict[str, str], column: str, least: int) -> int:
    if not re.fullmatch("[0-9]+", fields[column]) or int(fields[column]) < least:
        raise TableError(f"{fields['name']}: {column} is '{fields[column]}', need a whole number from {least}")
    return int(fields[column])


def _seconds(fields: dict[str, str], column: str) -> float:
    try:
        seconds = float(fields[column])
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise TableError(f"{fields['name']}: {column} is '{fields[column]}', need seconds above 0")
    return seconds


def _crc(fields: dict[str, str], column: str) -> str:
    if fields[column] != UNKNOWN_CRC and not re.fullmatch("[0-9a-f]{8}", fields[column]):
        raise TableError(f"{fields['name']}: {column} is '{fields[column]}', need 8 digits of 0-9a-f or '-'")
    return fields[column]


def _case_of(line: str, places: dict[str, int]) -> Case:
    values = line.rstrip("\r\n").split("\t")
    if len(values) <= max(places.values()):
        raise TableError(f"short row: {line.strip()}")
    fields = {column: values[place] for column, place in places.items()}
    return Case(name=_name(fields), batches=_whole(fields, "B", 1), tokens=_whole(fields, "N", 1),
                dim=_whole(fields, "d", 1), kind=fields["kind"], seed=_whole(fields, "seed", 0),
                limit_s=_seconds(fields, "limit_s"), crc32_in=_crc(fields, "crc32_in"),
                crc32_outs={arith: _crc(fields, column) for arith, column in OUT_COLUMNS.items() if column in fields})


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as table:
            return table.read()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: cannot read the table: {error}") from error


def read_cases(path: str) -> list[Case]:
    rows = [line for line in read_text(path).splitlines() if _is_row(line)]
    try:
        if not rows:
            raise TableError("no header row")
        places = _column_places(rows[0])
        cases = [_case_of(line, places) for line in rows[1:]]
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


def with_crcs(text: str, name: str, crcs: dict[str, str]) -> str:
    """The table's text with some columns of one row, {column: CRC-32}, replaced and everything else as it was."""
    lines = text.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if _is_row(line)]
    places = _column_places(lines[rows[0]])
    for number in rows[1:]:
        content = lines[number].rstrip("\r\n")
        fields = content.split("\t")
        if fields[places["name"]] != name:
            continue
        for column, crc in crcs.items():
            fields[places[column]] = crc
        lines[number] = "\t".join(fields) + lines[number][len(content):]
        return "".join(lines)
    raise TableError(f"the row {name} has left the table")
