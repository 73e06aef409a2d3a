"""The output of `ncu --csv --page raw`: its own ==WORD== lines, a row of names, a row of units, a row per launch."""
from __future__ import annotations

import csv
import dataclasses
import math
import re

# Units per second; --print-units base gives nanoseconds, under two names.
_TIME_UNITS = {"ns": 10 ** 9, "nsecond": 10 ** 9, "us": 10 ** 6, "usecond": 10 ** 6, "ms": 10 ** 3, "msecond": 10 ** 3,
               "s": 1, "second": 1}
_INNERMOST = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|<[^<>()]*>")


class Malformed(Exception):
    pass


def number_of(text: str | None) -> int | float | None:
    """None for a field that is not a number: empty, n/a, nan. ncu puts commas between thousands."""
    if text is None:
        return None
    plain = text.replace(",", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclasses.dataclass(frozen=True)
class Row:
    fields: dict[str, str]
    units: dict[str, str]

    def text(self, name: str) -> str | None:
        return self.fields.get(name) or None

    def number(self, name: str) -> int | float | None:
        """Times in seconds, everything else in ncu's base unit."""
        value = number_of(self.fields.get(name))
        parts = _TIME_UNITS.get(self.units.get(name, ""))
        return value if value is None or parts is None else value / parts


def is_remark(line: str) -> bool:
    """Lines such as ==PROF==, ==WARNING==, ==ERROR==."""
    return line.startswith("==")


def parse(text: str) -> list[Row]:
    """The launches in order; none where there is no table."""
    rows = list(csv.reader(line for line in text.splitlines() if line.strip() and not is_remark(line)))
    while rows and rows[0][0] != "ID":
        rows.pop(0)
    if not rows:
        return []
    names, *rest = rows
    for row in rest:
        if len(row) != len(names):
            raise Malformed(f"a row of {len(row)} fields under {len(names)} names")
    if not rest or rest[0][0] != "":
        raise Malformed("no row of units under the names")
    units = dict(zip(names, rest[0]))
    return [Row(dict(zip(names, row)), units) for row in rest[1:]]


def function_name(signature: str) -> str:
    """The name of a kernel's function, without result type, namespaces, arguments and template arguments: flash for
    void ns::flash<64>(float *)."""
    name, count = signature.replace("->", ""), 1
    while count:
        name, count = _INNERMOST.subn("", name)
    return (re.findall(r"([\w$.]+)(?: const)?\s*$", name) or [signature.strip() or "?"])[0]
