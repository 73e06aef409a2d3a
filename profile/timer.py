"""build/time_kernels as a program: the shapes that it is asked for, and the lines that it prints."""
from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "report"), str(ROOT / "judge")]

from case_table import TableError, read_plain_cases, select  # noqa: E402 (the path to them is set above)
from document import Failed, say  # noqa: E402

USAGE, NO_GPU, INTERNAL = 2, 69, 70
WRONG_USAGE = 64  # time_kernels'
TIME_KERNELS = ROOT / "build/time_kernels"
CASE_TABLE = str(ROOT / "testcases/cases.tsv")


@dataclasses.dataclass(frozen=True)
class Problem:
    name: str  # of the test case, else its shape
    shape: tuple[int, int, int]  # heads count as batches
    heads: int = 1  # of a batch

    @property
    def text(self) -> str:
        return ",".join(map(str, self.shape))

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(("batches", "tokens", "dim"), self.shape))

    @property
    def flop(self) -> int:
        batches, tokens, dim = self.shape
        return 4 * batches * tokens * tokens * dim


def problems_of(words) -> list[Problem]:
    """The shapes that names, globs, B,N,d and B,H,N,d mean, each once, in the order given."""
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
            found[shape, heads] = Problem(word if len(sizes) == 4 else named.get(shape, word), shape, heads)
        else:
            for case in (case for name in word.split(",") for case in select(cases, [name])):
                shape = case.batches, case.tokens, case.dim
                found[shape, 1] = Problem(named[shape], shape)
    return list(found.values())


def need_time_kernels(program, who):
    """The default program is brought up to date: the commit named is the one measured. Another has to be there."""
    if program == TIME_KERNELS:
        say(f"{who}: make time-kernels")
        # What make says is not the table.
        done = subprocess.run(["make", f"-j{os.cpu_count()}", "time-kernels"], cwd=ROOT, stdout=sys.stderr)
        if done.returncode != 0:
            raise Failed("make time-kernels failed", NO_GPU)
    if not os.access(program, os.X_OK):
        raise Failed(f"{program} is not there; make time-kernels builds it", NO_GPU)


def printed_by(program, *arguments) -> tuple[str, str]:
    """What it prints, and the last line that it says on stderr."""
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode != 0:
        codes = {WRONG_USAGE: USAGE, NO_GPU: NO_GPU}
        raise Failed(said or f"{program} ended with {done.returncode}", codes.get(done.returncode, INTERNAL))
    return done.stdout, said


def kernel_names(program, contract, *more) -> list[str]:
    """The kernels of the program's table under a contract, in ladder order. The program knows the contracts."""
    return printed_by(program, "--contract", contract, *more, "--list")[0].split()


def lines_of(program, *arguments) -> list[dict]:
    """The JSON objects that it prints, one at least."""
    printed, said = printed_by(program, *arguments)
    lines = [json.loads(line) for line in printed.splitlines()]
    if not lines:
        raise Failed(said or "no kernel was measured", INTERNAL)
    return lines
