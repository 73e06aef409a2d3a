"""Cases that somebody else has made: a folder of inputs NAME.in, and one of outputs NAME.out to compare with. What the
table does not know of them, the files' own headers say."""
from __future__ import annotations

import fnmatch
import math
import os
import re
import struct

from case_table import (ELEMENT_BYTES, LONG_HEADER_BYTES, MASKS, NAME, PRODUCTS, SHORT_HEADER_BYTES, UNKNOWN_CRC,
                        Case)
from tsv import TableError

VERSION_2 = -2


def output_names(case: str, contract: str | None) -> list[str]:
    """How a case's expected output may be called."""
    return [case + ".out", *([f"{case}.{contract}.out"] if contract else [])]


def has_output(folder: str, case: str, contract: str | None) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in output_names(case, contract))


def _sizes(path: str, header: bytes) -> dict:
    """Of either version of the header; src/io/case_header.h has their fields."""
    if len(header) >= 4 and struct.unpack_from("<i", header)[0] == VERSION_2:
        if len(header) < LONG_HEADER_BYTES:
            raise TableError(f"{path}: header truncated: got {len(header)} of {LONG_HEADER_BYTES} bytes")
        _, operation, mask, element, batches, heads, kv_heads, tokens, keys, dim, *rest = struct.unpack("<16i", header)
        if not (0 <= operation < len(PRODUCTS) and 0 <= mask < len(MASKS) and 0 <= element < len(ELEMENT_BYTES) and
                rest == [dim, *[0] * 5]):
            raise TableError(f"{path}: a header of version 2 with fields that are not known here")
        return {"operation": list(PRODUCTS)[operation], "mask": MASKS[mask], "batches": batches, "heads": heads,
                "kv_heads": kv_heads, "tokens": tokens, "keys": keys, "dim": dim, "element": list(ELEMENT_BYTES)[element]}
    if not header:
        raise TableError(f"{path}: is empty, need a header of {SHORT_HEADER_BYTES} bytes")
    if len(header) < SHORT_HEADER_BYTES:
        raise TableError(f"{path}: header truncated: got {len(header)} of {SHORT_HEADER_BYTES} bytes")
    batches, tokens, dim = struct.unpack_from("<3i", header)
    return {"operation": "forward", "mask": "none", "batches": batches, "heads": 1, "kv_heads": 1, "tokens": tokens,
            "keys": tokens, "dim": dim}


def case_of(name: str, inputs: str) -> Case:
    """Raises TableError where the file is no case."""
    path = os.path.join(inputs, name + ".in")
    try:
        with open(path, "rb") as file:
            sizes = _sizes(path, file.read(LONG_HEADER_BYTES))
    except OSError as error:
        raise TableError(f"{path}: cannot read the header: {error.strerror}") from error
    if min(value for value in sizes.values() if isinstance(value, int)) < 1:
        raise TableError(f"{path}: the header has a size below 1")
    return Case(name=name, kind="given", seed=0, limit_s=math.inf, crc32_in=UNKNOWN_CRC, **sizes)


def find(known: list[Case], patterns: list[str], inputs: str, outputs: str, contract: str | None) -> list[Case]:
    """Those that have both files and no row in the table, of the names or globs, or all without any."""
    rows = {case.name for case in known}
    there = os.listdir(inputs) if os.path.isdir(inputs) else []
    names = sorted(name[:-3] for name in there if name.endswith(".in"))
    return [case_of(name, inputs) for name in names
            if name not in rows and re.fullmatch(NAME, name, re.ASCII) and has_output(outputs, name, contract)
            and (not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))]
