"""A class: a folder with one folder per student; make builds hw4 in each."""
from __future__ import annotations

import dataclasses
import os

import child


@dataclasses.dataclass(frozen=True)
class Program:
    name: str  # name in the reports
    path: str
    why_not_built: str = ""


def programs_of(classroom: str) -> list[Program]:
    """The programs of a class, which need not exist yet. Raises OSError."""
    with os.scandir(classroom) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    return [Program(name, os.path.abspath(os.path.join(classroom, name, "hw4"))) for name in names]


def built(program: Program, limit_s: float) -> Program:
    """The program after make in its folder; the settings of a make around the judge do not reach it."""
    return dataclasses.replace(program, why_not_built=_why_not_built(program.path, limit_s))


def _why_not_built(path: str, limit_s: float) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    ended = child.run(["make", "-C", os.path.dirname(path), "hw4"], limit_s, keep_streams=True, env=environment)
    if ended.at_limit:
        return f"make took longer than {limit_s:g} s"
    if not ended.ok:
        # The compiler's error line says more than make's own last line.
        return f"make: {next((line for line in ended.error_lines if 'error:' in line), '') or ended.failure()}"
    return "" if os.access(path, os.X_OK) and os.path.isfile(path) else "make left no program hw4"
