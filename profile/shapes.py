"""The shapes on the command lines of report/measure and profile/profile."""
from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "judge")]

from case_table import TableError, read_plain_cases, select  # noqa: E402 (the path to it is set above)

CASE_TABLE = str(ROOT / "testcases/cases.tsv")


@dataclasses.dataclass(frozen=True)
class Problem:
    name: str  # the test case's, otherwise the shape
    shape: tuple[int, int, int]  # batches include heads

    @property
    def text(self) -> str:
        return ",".join(map(str, self.shape))

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(("batches", "tokens", "dim"), self.shape))


def problems_of(words) -> list[Problem]:
    """The shapes for names, globs, B,N,d and B,H,N,d, each once, in the given order."""
    cases = read_plain_cases(CASE_TABLE)
    named = {(case.batches, case.tokens, case.dim): case.name for case in reversed(cases)}
    found = {}
    for word in (part for argument in words for part in argument.split()):
        if re.fullmatch(r"\d+(,\d+){2,3}", word):
            sizes = tuple(map(int, word.split(",")))
            if 0 in sizes:
                raise TableError(f"shape '{word}': every size is at least 1")
            heads = sizes[1] if len(sizes) == 4 else 1
            shape = (sizes[0] * heads, *sizes[-2:])
            found[shape, heads] = Problem(word if len(sizes) == 4 else named.get(shape, word), shape)
        else:
            for case in (case for name in word.split(",") for case in select(cases, [name])):
                shape = case.batches, case.tokens, case.dim
                found[shape, 1] = Problem(named[shape], shape)
    return list(found.values())
