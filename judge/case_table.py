"""The table of test cases, testcases/cases.tsv: how each case is generated, and how long hw4 may take."""
from __future__ import annotations

import dataclasses
import fnmatch
import re

from tsv import Row, Table, TableError, read_text

COLUMNS = ("name", "B", "N", "d", "kind", "seed", "limit_s", "crc32_in")
# A row that ends before these columns has the course's form: one head, as many keys as queries, no mask, forward,
# float32.
USUAL = {"heads": "1", "keys": "", "mask": "none", "operation": "forward", "element": "float32", "window": "0",
         "scale": "0", "d_v": "-", "lengths": "-"}
UNKNOWN_CRC = "-"
MASKS = ("none", "causal")
PRODUCTS = {"forward": 2, "backward": 5}  # matrix products by operation (src/problem/operation.h)
ELEMENT_BYTES = {"float32": 4, "bf16": 2, "fp16": 2}  # in the order of their codes (src/problem/element.h)
SHORT_HEADER_BYTES, LONG_HEADER_BYTES = 12, 64
NAME = r"\w[\w.-]*"  # becomes a file name, so it must not lead out of its folder


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    batches: int
    tokens: int  # queries per head
    dim: int
    kind: str
    seed: int
    limit_s: float
    crc32_in: str  # eight hexadecimal digits, or UNKNOWN_CRC
    heads: int
    kv_heads: int
    keys: int
    mask: str
    operation: str
    element: str = "float32"  # type of the input and the output
    window: int = 0  # the most keys that a query sees; 0: no window
    scale: str = "0"  # the factor of the scores as the table writes it; 0: 1/sqrt(d)
    value_dim: int = 0  # d_v; 0: d
    lengths: tuple[int, ...] = ()  # keys of the first batches, the last number for all others; none: all keys

    @property
    def is_plain(self) -> bool:
        """Whether the case has the course's form, and so its header."""
        return (self.heads == 1 and self.keys == self.tokens and self.mask == "none" and self.operation == "forward" and
                self.element == "float32" and float(self.scale) == 0 and not self.value_dim and not self.lengths)

    @property
    def shape(self) -> str:
        """The sizes as hw4 prints them."""
        if self.is_plain:
            return f"({self.batches}, {self.tokens}, {self.dim})"
        mask = "" if self.mask == "none" else f", {self.mask}"
        operation = "" if self.operation == "forward" else f", {self.operation}"
        sizes = f"{self.batches}, {self.heads}, {self.kv_heads}, {self.tokens}, {self.keys}, {self.dim}"
        sizes += f", {self.value_dim}" if self.value_dim else ""
        element = "" if self.element == "float32" else f", {self.element}"
        window = f", {self.window}" if self.window else ""
        scale = f", {self.scale}" if float(self.scale) else ""
        return f"({sizes}{mask}{window}{operation}{element}{scale})"

    def keys_of(self, batch: int) -> int:
        return self.lengths[min(batch, len(self.lengths) - 1)] if self.lengths else self.keys

    @property
    def columns_of_values(self) -> int:
        return self.value_dim or self.dim

    @property
    def _query_rows(self) -> int:
        return self.batches * self.heads * self.tokens

    @property
    def _key_numbers(self) -> int:
        """The count of numbers in K and V."""
        return self.batches * self.kv_heads * self.keys * (self.dim + self.columns_of_values)

    @property
    def output_bytes(self) -> int:
        numbers = (self._query_rows * self.columns_of_values if self.operation == "forward" else
                   self._query_rows * self.dim + self._key_numbers)
        return ELEMENT_BYTES[self.element] * numbers

    @property
    def data_bytes(self) -> int:
        """The bytes of Q, K, V, and in backward dO."""
        columns = self.dim + (self.columns_of_values if self.operation == "backward" else 0)
        return ELEMENT_BYTES[self.element] * (self._query_rows * columns + self._key_numbers)

    @property
    def input_bytes(self) -> int:
        """The file's bytes as the generator writes it."""
        header = SHORT_HEADER_BYTES if self.is_plain else LONG_HEADER_BYTES
        return header + (4 * self.batches if self.lengths else 0) + self.data_bytes

    @property
    def flops(self) -> int:
        """Floating-point operations on the pairs that the mask allows (src/problem/mask.h)."""
        def under_the_mask(keys: int) -> int:
            seeing = min(self.tokens, keys)
            return seeing * keys - seeing * (seeing - 1) // 2

        pairs = self.tokens * self.keys
        if self.mask == "causal":
            pairs = under_the_mask(self.keys) - (under_the_mask(max(self.keys - self.window, 0)) if self.window else 0)
        of_values = PRODUCTS[self.operation] // 2  # products with rows of V or dO
        columns = (PRODUCTS[self.operation] - of_values) * self.dim + of_values * self.columns_of_values
        return 2 * columns * self.batches * self.heads * pairs

    def recipe(self) -> list[str]:
        """The generator's arguments, without the name: the generator only knows the table in its own folder."""
        shape = f"{self.batches},{self.tokens},{self.dim}"
        more = [] if self.is_plain else ["--heads", f"{self.heads},{self.kv_heads}", "--keys", str(self.keys)]
        more += ["--value-dim", str(self.value_dim)] if self.value_dim else []
        more += ["--lengths", ",".join(map(str, self.lengths))] if self.lengths else []
        more += ["--causal"] if self.mask == "causal" else []
        more += ["--window", str(self.window)] if self.window else []
        more += ["--scale", self.scale] if float(self.scale) else []
        more += ["--backward"] if self.operation == "backward" else []
        more += [] if self.element == "float32" else ["--element", self.element]
        return ["--shape", shape, "--seed", str(self.seed), "--kind", self.kind, *more]


_FROM_1 = ("0*[1-9][0-9]*", "a whole number from 1")
_FORMS = {  # for each column a pattern, and its description in words
    "name": (NAME, "letters, digits, '_', '-' and '.'"), "B": _FROM_1, "N": _FROM_1, "d": _FROM_1,
    "seed": ("[0-9]+", "a whole number from 0"), "limit_s": (r"(?=.*[1-9])[0-9]+(\.[0-9]+)?", "seconds above 0"),
    "crc32_in": (f"[0-9a-f]{{8}}|{UNKNOWN_CRC}", f"8 digits of 0-9a-f or '{UNKNOWN_CRC}'"),
    # H heads of Q, and as many of K and V; H,K: K heads of K and V.
    "heads": ("[1-9][0-9]*(,[1-9][0-9]*)?", "a whole number from 1, and after a comma one that divides it"),
    "keys": (f"({_FROM_1[0]})?", _FROM_1[1]),
    "window": ("[0-9]+", "a whole number from 1, or 0 for none, with the causal mask"),
    "scale": (r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", "a number above 0, or 0 for 1/sqrt(d)"),
    "d_v": (f"{_FROM_1[0]}|-", "a whole number from 1, or - for d"),
    "lengths": (f"{_FROM_1[0]}(,{_FROM_1[0]})*|-", "whole numbers from 1 to the number of keys, at most one a batch, or -"),
    **{column: ("|".join(known), " or ".join(known)) for column, known in (
        ("mask", MASKS), ("operation", PRODUCTS), ("element", ELEMENT_BYTES))}}


def _case_of(row: Row) -> Case:
    def require(column: str, holds: object) -> None:
        if not holds:
            raise TableError(f"{row['name']}: {column} is '{row[column]}', need {_FORMS[column][1]}")

    for column, (pattern, _) in _FORMS.items():
        require(column, re.fullmatch(pattern, row[column], re.ASCII))
    heads, _, kv_heads = row["heads"].partition(",")
    require("heads", int(heads) % int(kv_heads or heads) == 0)
    require("window", row["mask"] == "causal" or int(row["window"]) == 0)
    lengths = () if row["lengths"] == "-" else tuple(map(int, row["lengths"].split(",")))
    require("lengths", len(lengths) <= int(row["B"]) and max(lengths, default=0) <= int(row["keys"] or row["N"]))
    value_dim = 0 if row["d_v"] in ("-", row["d"]) else int(row["d_v"])
    return Case(name=row["name"], batches=int(row["B"]), tokens=int(row["N"]), dim=int(row["d"]), kind=row["kind"],
                seed=int(row["seed"]), limit_s=float(row["limit_s"]), crc32_in=row["crc32_in"], heads=int(heads),
                kv_heads=int(kv_heads or heads), keys=int(row["keys"] or row["N"]), mask=row["mask"],
                operation=row["operation"], element=row["element"],
                window=int(row["window"]), scale=row["scale"], value_dim=value_dim, lengths=lengths)


def read_cases(path: str) -> list[Case]:
    text = read_text(path)
    try:
        cases = list(map(_case_of, Table(text, COLUMNS, USUAL).rows))
        names = [case.name for case in cases]
        for name in names:
            if names.count(name) > 1:
                raise TableError(f"two rows are named {name}")
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    return cases


def read_plain_cases(path: str) -> list[Case]:
    """Cases of the course's form alone, for callers that handle only B, N and d."""
    return [case for case in read_cases(path) if case.is_plain]


def select(cases: list[Case], patterns: list[str]) -> list[Case]:
    """The cases that the names or globs select, in the table's order; without names all cases."""
    chosen = set()
    for pattern in patterns:
        matching = [case.name for case in cases if fnmatch.fnmatchcase(case.name, pattern)]
        if not matching:
            raise TableError(f"no case '{pattern}' in the table; testcases/generate --list names them")
        chosen.update(matching)
    return [case for case in cases if not patterns or case.name in chosen]


def with_crc32_in(text: str, name: str, crc: str) -> str:
    """The table's text with the CRC-32 of a case's input."""
    table = Table(text, COLUMNS, USUAL)
    for place, row in enumerate(table.rows):
        if row["name"] == name:
            return table.text_with(place, {"crc32_in": crc})
    raise TableError(f"the row {name} has left the table")
