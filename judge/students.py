"""A class: a folder with one folder a student, in each of which make builds hw4."""
from __future__ import annotations

import dataclasses
import os

import child


@dataclasses.dataclass(frozen=True)
class Program:
    name: str  # for the reports
    path: str
    why_not_built: str = ""


def student_folders(classroom: str) -> list[str]:
    """Raises OSError."""
    with os.scandir(classroom) as entries:
        return sorted(entry.path for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def built(folder: str, limit_s: float) -> Program:
    """What make leaves there; a make around the judge does not reach into it."""
    name, path = os.path.basename(folder), os.path.abspath(os.path.join(folder, "hw4"))
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    ended = child.run(["make", "-C", folder, "hw4"], limit_s, keep_streams=True, env=environment)
    if ended.at_limit:
        return Program(name, path, f"make took longer than {limit_s:g} s")
    if not ended.ok:
        return Program(name, path, f"make: {_first_error(ended) or ended.failure()}")
    return Program(name, path, "" if os.access(path, os.X_OK) and os.path.isfile(path) else "make left no program hw4")


def _first_error(ended: child.Ended) -> str:
    """The compiler's line says more than make's own, which is the last."""
    lines = [line.removeprefix("stderr: ") for line in ended.last_lines if line.startswith("stderr: ")]
    return next((line for line in lines if "error:" in line), "")
