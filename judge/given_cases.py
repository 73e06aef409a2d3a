"""Cases from elsewhere: a folder of inputs NAME.in or NAME, and one of expected outputs NAME.out. The header of an
input gives its shape, even where the table has a row of that name."""
from __future__ import annotations

import dataclasses
import fnmatch
import math
import os
import re
import struct
import sys

import terminal
from case_table import (ELEMENT_BYTES, LONG_HEADER_BYTES, MASKS, NAME, PRODUCTS, SHORT_HEADER_BYTES, UNKNOWN_CRC, Case)
from tsv import TableError

VERSION_2 = -2


def has_output(folder: str, case: str, contract: str | None) -> bool:
    names = [f"{case}.out", *([f"{case}.{contract}.out"] if contract else [])]
    return any(os.path.exists(os.path.join(folder, name)) for name in names)


def _sizes(path: str, header: bytes) -> dict:
    """The sizes in a header of either version; src/io/case_header.h has the fields."""
    if len(header) >= 4 and struct.unpack_from("<i", header)[0] == VERSION_2:
        if len(header) < LONG_HEADER_BYTES:
            raise TableError(f"{path}: header truncated: got {len(header)} of {LONG_HEADER_BYTES} bytes")
        _, operation, mask, element, batches, heads, kv_heads, tokens, keys, dim, value_dim, window, scale, by_lengths, zero = \
            struct.unpack("<12id2i", header)
        if not (0 <= operation < len(PRODUCTS) and 0 <= mask < len(MASKS) and 0 <= element < len(ELEMENT_BYTES) and
                window >= 0 and scale >= 0 and value_dim >= 1 and by_lengths in (0, 1) and zero == 0):
            raise TableError(f"{path}: a header of version 2 with fields that are not known here")
        return {"operation": list(PRODUCTS)[operation], "mask": MASKS[mask], "batches": batches, "heads": heads,
                "kv_heads": kv_heads, "tokens": tokens, "keys": keys, "dim": dim, "element": list(ELEMENT_BYTES)[element],
                "window": window, "scale": f"{scale:.9g}", "value_dim": 0 if value_dim == dim else value_dim,
                "lengths": (keys,) if by_lengths else ()}  # the file has the numbers; only their presence matters here
    if not header:
        raise TableError(f"{path}: is empty, need a header of {SHORT_HEADER_BYTES} bytes")
    if len(header) < SHORT_HEADER_BYTES:
        raise TableError(f"{path}: header truncated: got {len(header)} of {SHORT_HEADER_BYTES} bytes")
    batches, tokens, dim = struct.unpack_from("<3i", header)
    return {"operation": "forward", "mask": "none", "batches": batches, "heads": 1, "kv_heads": 1, "tokens": tokens,
            "keys": tokens, "dim": dim}


def input_path(folder: str, case: str) -> str | None:
    """None where there is no input of that name."""
    paths = (os.path.join(folder, name) for name in (case + ".in", case))
    return next((path for path in paths if os.path.isfile(path)), None)


def case_of(name: str, path: str) -> Case:
    """Raises TableError where the file is not a case."""
    try:
        with open(path, "rb") as file:
            sizes = _sizes(path, file.read(LONG_HEADER_BYTES))
    except OSError as error:
        raise TableError(f"{path}: cannot read the header: {error.strerror}") from error
    if min(value for name, value in sizes.items() if isinstance(value, int) and name not in ("window", "value_dim")) < 1:
        raise TableError(f"{path}: the header has a size below 1")
    return Case(name=name, kind="given", seed=0, limit_s=math.inf, crc32_in=UNKNOWN_CRC, **sizes)


def find(known: list[Case], patterns: list[str], inputs: str, outputs: str, contract: str | None) -> list[Case]:
    """The cases that have both files but no row in the table, and that the names or globs select; without names all of
    them, except files that are not a case."""
    rows = {case.name for case in known}
    there = os.listdir(inputs) if os.path.isdir(inputs) else []
    names = sorted({name.removesuffix(".in") for name in there} | set(there))
    found = []
    for name in names:
        if (name not in rows and re.fullmatch(NAME, name, re.ASCII) and has_output(outputs, name, contract)
                and (not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
                and (path := input_path(inputs, name))):
            try:
                found.append(case_of(name, path))
            except TableError as error:
                if patterns:
                    raise
                print(terminal.one_line(f"judge: note: {error}; left out"), file=sys.stderr)
    return found


def in_the_files_shape(case: Case, inputs: str) -> Case:
    """The row with the shape in the file's header; name and limit stay. The case itself where the shape is the same, or
    where there is no readable header, which the judge reports later."""
    path = input_path(inputs, case.name)
    try:
        found = case_of(case.name, path) if path else case
    except TableError:
        return case
    return case if found.shape == case.shape else dataclasses.replace(found, limit_s=case.limit_s)
