"""Reference outputs for comparisons by tolerance: computed once, cached in a folder, and checked against expected.tsv
before each use, because a judged program can write to them."""
from __future__ import annotations

import contextlib
import os
import secrets

import child
from case_table import Case
from decision_tables import Expectation
from files import crc32_of
from workplace import is_file, remove_whatever


class NoReference(Exception):
    """No reference could be computed, and no judged program is to blame."""


class References:
    """File names contain the expected CRC-32, so that a new revision of a contract does not find old files."""

    def __init__(self, folder: str, hw4: str, seq: str):
        self.folder = folder
        self._programs = (hw4, seq)  # the same bytes, hw4 much faster; where hw4 is wrong or missing, seq decides

    def of(self, case: Case, contract: str, expectation: Expectation, case_input: str,
           folder: str | None = None) -> str:
        """The path of the case's correct output. With `folder`, only seq computes it, there, without caching."""
        programs, folder = (self._programs, self.folder) if folder is None else (self._programs[1:], folder)
        path = os.path.join(folder, f"{case.name}.{contract}.{expectation.crc32}.out")
        if not _has_crc(path, expectation.crc32):
            os.makedirs(folder, exist_ok=True)
            if not is_file(path):  # os.replace() would replace a file that another judge may just have made
                remove_whatever(path)
            _make(path, programs, contract, expectation.crc32, case_input)
        return path


def _make(path: str, programs: tuple[str, ...], contract: str, crc: str, case_input: str) -> None:
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"  # another judge, even on another node, may write at the same time
    why = ""
    for program in programs:
        try:
            why = _failure([program, "--contract", contract, case_input, temporary], temporary, crc)
            if not why:
                os.replace(temporary, path)
                return
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(temporary)
    raise NoReference(f"cannot make the expected output: {why}")


def _has_crc(path: str, crc: str) -> bool:
    try:
        return crc32_of(path) == crc
    except OSError:
        return False


def _failure(command: list[str], output: str, crc: str) -> str:
    """Empty where the command has computed the output with the expected bytes."""
    name = os.path.basename(command[0])
    try:
        ended = child.run(command)
        made = crc32_of(output) if ended.ok else ""
    except OSError as error:
        return f"cannot run {name}: {error}"
    if not ended.ok:
        return f"{name}: {ended.failure()}"
    return "" if made == crc else f"that of {name} has CRC-32 {made}, the table says {crc}"
