"""Tables of tab-separated text: a header row with column names, comments after '#', empty lines."""
from __future__ import annotations

from collections.abc import Callable

Row = dict[str, str]  # keyed by column


class TableError(Exception):
    pass


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as table:
            return table.read()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: cannot read the table: {error}") from error


def _places(header: str, columns: tuple[str, ...], usual: Row) -> dict[str, int]:
    names = header.rstrip("\r\n").split("\t")
    missing = [column for column in columns if column not in names]
    if missing:
        raise TableError(f"the header row has no column {', '.join(missing)}")
    return {column: names.index(column) for column in (*columns, *usual) if column in names}


def _row(line: str, places: dict[str, int], usual: Row) -> Row:
    values = line.rstrip("\r\n").split("\t")
    there = {column: values[place] for column, place in places.items() if place < len(values)}
    if any(column not in there and column not in usual for column in places):
        raise TableError(f"short row: {line.strip()}")
    return {**usual, **there}


class Table:
    """The text of a table; some columns are read, and everything else stays unchanged."""

    def __init__(self, text: str, columns: tuple[str, ...], usual: Row | None = None):
        """usual: values of columns that the table, or a shorter row, may lack."""
        usual = usual or {}
        self._lines = text.splitlines(keepends=True)
        numbers = [number for number, line in enumerate(self._lines) if line.strip() and not line.startswith("#")]
        if not numbers:
            raise TableError("no header row")
        self._header, *self._numbers = numbers
        self._places = _places(self._lines[self._header], columns, usual)
        self.rows = [_row(self._lines[number], self._places, usual) for number in self._numbers]

    def text_with(self, place: int, fields: Row) -> str:
        """The text with some fields of a row replaced."""
        number = self._numbers[place]
        content = self._lines[number].rstrip("\r\n")
        values = content.split("\t")
        for column, value in fields.items():
            values[self._places[column]] = value
        changed = "\t".join(values) + self._lines[number][len(content):]
        return "".join([*self._lines[:number], changed, *self._lines[number + 1:]])

    def text_with_new(self, fields: Row, follows: Callable[[Row], bool]) -> str:
        """The text with one more row, after the last row for which `follows` is true."""
        before = [number for number, row in zip(self._numbers, self.rows) if follows(row)]
        number = max(before, default=self._header)
        values = ["-"] * (max(self._places.values()) + 1)  # for unknown columns
        for column, value in fields.items():
            values[self._places[column]] = value
        start = "".join(self._lines[:number + 1])
        return start + ("" if start.endswith("\n") else "\n") + "\t".join(values) + "\n" + "".join(
            self._lines[number + 1:])
